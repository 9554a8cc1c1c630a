"""One framework, all rows, both directions."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable
from itertools import chain

from nirmap.audit.cells import Case, Cell, Column, Condition, Status
from nirmap.audit.drawing import SUBTRACTING, Draw, draws, subject
from nirmap.audit.networks import NETWORKS, network_draws
from nirmap.audit.rebuilding import cases_from_nir
from nirmap.audit.subgraphs import subgraph_cells
from nirmap.audit.users import UsersModules
from nirmap.audit.writing import cases_to_nir
from nirmap.building import node_values
from nirmap.errors import MappingError
from nirmap.registry import load_registry, rows_for_node
from nirmap.resets import Reset
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Primitive, Registry, Row

# Called with the number of rows that are done, and of all.
Progress = Callable[[int, int], None]


def execute(framework: str, progress: Progress | None = None) -> Column:
    """Executes every row in one framework. What it raises, and what is missing, becomes part of the result.

    Args:
        framework: name of a known framework.
        progress: called after each row.
    """
    try:
        registry = load_registry(framework)
    except MappingError as error:
        cause = error.__cause__
        is_absent = isinstance(cause, ModuleNotFoundError)
        problem = str(cause) if is_absent else f"{error.where}: {error.found}"
        return Column(framework, "absent" if is_absent else "broken", problem)
    rows = (*PRIMITIVES, *SUBTRACTING, *NETWORKS)
    total = len(rows) + len(registry.graphs)
    cells: list[Cell] = []
    for number, row in enumerate(rows, start=1):
        if row in NETWORKS:
            cells += network_cells(framework, row)
        else:
            cells += primitive_cells(framework, registry, row, draws(row))
        if progress is not None:
            progress(number, total)
    for number, graph in enumerate(registry.graphs, start=len(rows) + 1):
        cells += subgraph_cells(framework, graph)
        if progress is not None:
            progress(number, total)
    return Column(
        framework,
        "ran",
        "",
        registry.distribution,
        registry.versions,
        _installed(registry.distribution),
        tuple(cells),
    )


def _installed(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def primitive_cells(framework: str, registry: Registry, row: str, drawn: list[Draw]) -> tuple[Cell, Cell]:
    """The cells of a primitive, one that is reset to a value or by subtraction: from NIR, and to NIR."""
    primitive, reset = subject(row)
    rows = [entry for entry in registry.rows if (entry.node, entry.reset) == (primitive, reset)]
    buildable = rows_for_node(registry, primitive, reset)
    reason = "" if buildable else _why_no_row(registry, primitive, reset)
    not_built = "; ".join(dict.fromkeys(entry.not_built for entry in rows if entry.not_built))
    cases = cases_from_nir(framework, drawn)
    return (
        from_nir_cell(row, cases, reason or not_built, _unbroken(buildable, PRIMITIVES[primitive], drawn)),
        to_nir_cell(framework, row, rows, drawn, reason or f"{framework} has no module for it"),
    )


def _why_no_row(registry: Registry, primitive: str, reset: Reset) -> str:
    """Why no row of a framework stands for a primitive; empty where nothing is declared."""
    if reset == "subtract":
        return f"{registry.framework} has none that subtracts its threshold"
    return registry.not_mapped.get(primitive, "")


def _unbroken(rows: list[Row], primitive: Primitive, drawn: list[Draw]) -> tuple[Condition, ...]:
    """Conditions that every draw fulfils: nothing shows that a node could do without them.

    None, where another row stands for the primitive without any condition.
    """
    if any(not entry.requires for entry in rows):
        return ()
    values = [
        (node_values(node, primitive, primitive.name), draw.dt)
        for draw in drawn
        for node in draw.graph.nodes.values()
        if type(node) is primitive.node
    ]
    return tuple(
        Condition(constraint.that, constraint.because, constraint.do, entry.path, executed=False)
        for entry in rows
        for constraint in entry.requires
        if all(constraint.holds(parameters, dt) for parameters, dt in values)
    )


def from_nir_cell(row: str, cases: tuple[Case, ...], reason: str, unbroken: tuple[Condition, ...]) -> Cell:
    """The verdict over the draws of a row.

    Args:
        row: its name.
        cases: the draws, the general one first.
        reason: why the framework has no module, where that is declared.
        unbroken: conditions that were never broken.
    """
    refused = [case for case in cases if case.how in ("fallback", "refused")]
    built = [case for case in cases if case.how in ("native", "normal form", "rewritten")]
    conditions = tuple(
        dict.fromkeys(chain(*(case.conditions for case in refused), unbroken if built else ()))
    )
    because: tuple[str, ...] = ()
    status: Status
    wrong = tuple(f"{case.name}: {case.because}" for case in cases if case.how == "wrong")
    if wrong:
        status, because = "wrong", wrong
    elif not built:
        status = "fallback" if all(case.how == "fallback" for case in cases) else "no"
        reasons = [entry.because for entry in conditions] or [case.because for case in refused]
        because = (reason,) if reason else tuple(dict.fromkeys(reasons))
    elif all(case.how == "rewritten" for case in built) or (not conditions and cases[0].how == "rewritten"):
        status = "by rewrite"
    else:
        status = "exact when" if conditions else "exact"
    return Cell(
        row,
        "from NIR",
        status,
        _distinct(case.modules for case in built or cases),
        _distinct(case.rules for case in built),
        conditions,
        because,
        cases=cases,
    )


def to_nir_cell(framework: str, row: str, rows: list[Row], drawn: list[Draw], reason: str) -> Cell:
    """The verdict over the modules that are written as a primitive.

    Args:
        framework: its name.
        row: name of the row of the audit.
        rows: the rows of the table for the primitive, with this reset.
        drawn: nodes, from which modules are made.
        reason: why there is no row, where there is none.
    """
    readable = [entry for entry in rows if not entry.not_read]
    cases: list[Case] = []
    conditions: list[Condition] = []
    executed: list[str] = []
    for entry in readable:
        users = UsersModules(framework, entry)
        own = [*cases_to_nir(framework, entry, drawn), *users.as_they_are_read()]
        if any(case.how == "native" for case in own):
            executed.append(entry.path)
        cases += [*own, *users.with_broken_conditions()]
        conditions += users.conditions()
    wrong = tuple(f"{case.name}: {case.because}" for case in cases if case.how == "wrong")
    is_free = any(not entry.reads_only_if and entry.path in executed for entry in readable)
    status: Status
    if wrong:
        status, because = "wrong", wrong
    elif executed:
        status, because = "exact" if is_free else "exact when", ()
    else:
        status, because = "no", _why_not_written(rows, reason, cases)
    return Cell(
        row,
        "to NIR",
        status,
        tuple(dict.fromkeys(executed)),
        (),
        tuple(dict.fromkeys(conditions)),
        because,
        tuple(dict.fromkeys(entry.path for entry in readable if entry.path not in executed)),
        tuple(cases),
    )


def _why_not_written(rows: list[Row], reason: str, cases: list[Case]) -> tuple[str, ...]:
    if not rows:
        return (reason,)
    reasons = [entry.not_read for entry in rows if entry.not_read]
    reasons += [entry.not_built for entry in rows if entry.not_built and not entry.not_read]
    return tuple(dict.fromkeys([*reasons, *(case.because for case in cases if case.how == "refused")]))


def network_cells(framework: str, row: str) -> tuple[Cell, Cell]:
    """The cells of a small network: built, and written again from the framework's modules."""
    cases = cases_from_nir(framework, network_draws(row))
    forward = from_nir_cell(row, cases, "", ())
    # What was built is written again in every case, and held against the oracle then.
    own = tuple(case for case in cases if case.how in ("native", "normal form", "rewritten", "wrong"))
    status: Status = forward.status if own else "no"
    because = forward.because if status in ("wrong", "no") else ()
    backward = Cell(
        row, "to NIR", status, forward.modules if own else (), (), forward.conditions, because, (), own
    )
    return forward, backward


def _distinct(entries: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain(*entries)))

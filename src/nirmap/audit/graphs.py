"""Which frameworks can run a graph, and for each that cannot: every node in its way, why, and what would help."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nirmap.audit.workers import Died, Progress, in_processes

if TYPE_CHECKING:
    from nirmap.resets import Reset

Path_ = tuple[str, ...]
# Time steps that are tried, as multiples of the one asked for.
_OTHER_STEPS = (0.5, 0.1, 0.01, 2.0, 10.0)


@dataclass(frozen=True)
class Problem:
    """One reason why a framework cannot express one node.

    Attributes:
        node: its name, preceded by those of the sub-graphs that it is in; empty for the graph as a whole.
        primitive: its type.
        that: the condition that does not hold, or an empty string.
        parameters: the parameters that it speaks of, as text; all of the node's, where the framework has no module.
        because: the reason.
        module: the module, or the rewrite, whose condition it is.
    """

    node: Path_
    primitive: str
    that: str
    parameters: Mapping[str, str]
    because: str
    module: str = ""


@dataclass(frozen=True)
class Offender:
    """A node that a framework cannot express.

    Attributes:
        node: its name, preceded by those of the sub-graphs that it is in; empty for the graph as a whole.
        primitive: its type.
        found: what the refusal found.
        problems: all conditions that do not hold, those of rewrites included.
        help: what would help.
    """

    node: Path_
    primitive: str
    found: str
    problems: tuple[Problem, ...] = ()
    help: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What one framework makes of the graph.

    Attributes:
        framework: its name.
        state: ``runs``; ``runs with fallback`` (``fallback='torch'`` serves for the nodes in the way); ``refused``;
            ``absent``; ``broken``.
        problem: why it is absent or broken.
        dt: the time step in s.
        how: of each node, by its path joined with ``/``, how it is built; where it runs.
        rules: the rewrites that are used.
        offenders: the nodes in the way.
    """

    framework: str
    state: Literal["runs", "runs with fallback", "refused", "absent", "broken"]
    problem: str = ""
    dt: float | None = None
    how: Mapping[str, str] = field(default_factory=dict[str, str])
    rules: tuple[str, ...] = ()
    offenders: tuple[Offender, ...] = ()


def audit_graph(
    path: Path,
    frameworks: Iterable[str] | None = None,
    dt: float | None = None,
    progress: Progress | None = None,
    *,
    reset: Reset | None = None,
    override_dt: bool = False,
    jobs: int | None = None,
) -> list[Answer]:
    """Asks every framework, each in a process of its own.

    Args:
        path: a ``.nir`` file.
        frameworks: their names; None for all that are known.
        dt: time step in s; None as in :func:`nirmap.from_nir`.
        progress: called, from several threads, with a framework, the nodes that are done, and their total.
        reset: what a spike does; None as in :func:`nirmap.from_nir`.
        override_dt: as in :func:`nirmap.from_nir`.
        jobs: how many processes run at a time; None for the number of processors.

    Raises:
        GraphError: the file or the graph is malformed.
    """
    from nirmap.files import read_graph
    from nirmap.registry import frameworks as known
    from nirmap.structure import check_structure

    check_structure(read_graph(path))
    wanted = sorted(known()) if frameworks is None else list(frameworks)
    task = partial(answer, path=str(path), dt=dt, reset=reset, override_dt=override_dt)
    results = in_processes(task, wanted, progress or (lambda name, done, total: None), jobs=jobs)
    return [
        Answer(name, "broken", result.reason) if isinstance(result, Died) else result
        for name, result in results.items()
    ]


def answer(
    framework: str,
    progress: Callable[[int, int], None],
    *,
    path: str,
    dt: float | None,
    reset: Reset | None = None,
    override_dt: bool = False,
) -> Answer:
    """What one framework makes of the graph of a file; all of its nodes are looked at.

    Raises:
        GraphError: the file or the graph is malformed.
    """
    import nirmap
    from nirmap.building import Builder
    from nirmap.errors import ConstraintError, MappingError, NirmapError
    from nirmap.files import read_graph
    from nirmap.rebuilding import time_step
    from nirmap.registry import load_registry
    from nirmap_registry.rows import Placement

    graph = read_graph(path)
    try:
        registry = load_registry(framework)
    except MappingError as error:
        is_absent = isinstance(error.__cause__, ModuleNotFoundError)
        problem = str(error.__cause__) if is_absent else f"{error.where}: {error.found}"
        return Answer(framework, "absent" if is_absent else "broken", problem)
    try:
        step = time_step(graph, registry, dt, override=override_dt)
        nodes = list(_nodes(graph, reset))
    except ConstraintError as error:
        return Answer(framework, "refused", offenders=(_of_graph(error),))
    builder = Builder(registry, step, Placement(), fallback=None)
    offenders: list[Offender] = []
    for number, (name, node, of_node) in enumerate(nodes, start=1):
        found = _offender(replace(builder, reset=of_node), name, node)
        offenders += [found] if found is not None else []
        progress(number, len(nodes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if offenders:
            state = _with_fallback(graph, framework, step, reset)
            return Answer(framework, state, "", step, offenders=tuple(offenders))
        try:
            network = nirmap.from_nir(graph, framework, dt=step, reset=reset, override_dt=True)
        except NirmapError as error:
            return Answer(framework, "refused", "", step, offenders=(_of_graph(error),))
    report = network.meta["nirmap"]
    return Answer(framework, "runs", "", step, dict(_hows(report)), tuple(dict.fromkeys(_rules(report))))


def _of_graph(error: Any) -> Offender:
    problem = Problem((), "NIRGraph", error.expected, {}, error.found)
    return Offender(
        (), "NIRGraph", f"{error.where}: {error.found}", (problem,), (error.do,) if error.do else ()
    )


def _nodes(
    graph: Any, asked: Reset | None, around: Reset | None = None, within: Path_ = ()
) -> Iterator[tuple[Path_, Any, Reset]]:
    """All nodes but Inputs and Outputs, those of sub-graphs included, each with what a spike does to it.

    Raises:
        ConstraintError: a node states another reset than is asked for, or none that there is.
    """
    import nir

    from nirmap.resets import reset_of, wanted_reset

    stated = reset_of(graph.metadata, around, _place(within) or "the graph")
    for name, node in sorted(graph.nodes.items()):
        path = (*within, name)
        if isinstance(node, nir.NIRGraph):
            yield from _nodes(node, asked, stated, path)
        elif not isinstance(node, (nir.Input, nir.Output)):
            where = _place(path)
            yield path, node, wanted_reset(reset_of(node.metadata, stated, where), asked, where)


def _place(path: Path_) -> str:
    return "node " + " / ".join(map(repr, path)) if path else ""


def _offender(builder: Any, path: Path_, node: Any) -> Offender | None:
    """The node, if the framework cannot express it."""
    from nirmap.audit.obstacles import obstacles
    from nirmap.building import node_values, primitive_of
    from nirmap.errors import ConstraintError, UnsupportedNodeError

    where = _place(path)
    try:
        builder.build(node, where)
    except (UnsupportedNodeError, ConstraintError) as error:
        kind = type(node).__name__
        try:
            primitive = primitive_of(node, where)
        except UnsupportedNodeError:
            problem = Problem(path, kind, "", {}, error.expected)
            return Offender(path, kind, error.found, (problem,), (error.do,))
        values = node_values(node, primitive, where)
        problems = tuple(
            Problem(
                path,
                kind,
                entry.condition.that,
                entry.parameters,
                entry.condition.because,
                ": ".join(filter(None, (entry.rule, entry.condition.module))),
            )
            for entry in obstacles(builder, primitive, values)
        )
        return Offender(path, kind, error.found, problems, _help(builder, primitive, values, node))
    return None


def _help(builder: Any, primitive: Any, values: Any, node: Any) -> tuple[str, ...]:
    """What would help, tried: what the table says, another time step, another reset, the fallback."""
    from nirmap.audit.obstacles import obstacles
    from nirmap.registry import load_registry
    from nirmap.resets import RESET_KEY

    found = [entry.condition.do for entry in obstacles(builder, primitive, values) if entry.condition.do]
    steps = (builder.dt * factor for factor in _OTHER_STEPS)
    step = next((dt for dt in steps if _builds(replace(builder, dt=dt), node)), None)
    if step is not None:
        found.append(f"dt={step:g}")
    says_nothing = RESET_KEY not in node.metadata and builder.reset == "value"
    if primitive.subtracts and says_nothing and _builds(replace(builder, reset="subtract"), node):
        found.append("reset='subtract', if the network was trained with it")
    if _builds(replace(builder, fallback=load_registry("torch")), node):
        found.append("fallback='torch'")
    return tuple(dict.fromkeys(found))


def _builds(builder: Any, node: Any) -> bool:
    from nirmap.errors import ConstraintError, UnsupportedNodeError

    try:
        builder.build(node, "node")
    except (UnsupportedNodeError, ConstraintError):
        return False
    return True


def _with_fallback(
    graph: Any, framework: str, dt: float, reset: Reset | None
) -> Literal["runs with fallback", "refused"]:
    import nirmap
    from nirmap.errors import NirmapError

    try:
        nirmap.from_nir(graph, framework, dt=dt, fallback="torch", reset=reset, override_dt=True)
    except NirmapError:
        return "refused"
    return "runs with fallback"


def _hows(report: Any, within: Path_ = ()) -> Iterator[tuple[str, str]]:
    for name, entry in report.nodes.items():
        if entry.how != "graph":
            yield "/".join((*within, name)), entry.how
    for name, inner in report.graphs.items():
        yield from _hows(inner, (*within, name))


def _rules(report: Any) -> Iterator[str]:
    for entry in report.nodes.values():
        yield from entry.rules
    for inner in report.graphs.values():
        yield from _rules(inner)


def as_json(path: Path, answers: Iterable[Answer]) -> dict[str, Any]:
    """As the schema ``graph_audit.schema.json`` says."""
    return {
        "kind": "nirmap audit of a graph",
        "file": str(path),
        "frameworks": [asdict(entry) for entry in answers],
    }

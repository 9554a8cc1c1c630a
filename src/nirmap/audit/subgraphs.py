"""Modules that are small graphs, executed: read as one, and built for a sub-graph that fits."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import nir
import numpy as np

import nirmap
from nirmap.audit.cells import Case, Cell, Condition, Status
from nirmap.audit.drawing import INPUT, NEURONS, NODE, OUTPUT, Draw, inputs_of, layers, settled
from nirmap.audit.judging import dtypes_of
from nirmap.audit.rebuilding import case_from_nir
from nirmap.audit.sketches import DT, Array, Maker, Random, Values, weights
from nirmap.audit.users import UsersModules
from nirmap.building import node_values
from nirmap.resets import RESET_KEY
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Row, SubGraph

# Of the draws that a module can be built for, so many are executed; of those that it cannot, all show a condition.
_MOST = 4


def label(row: Row) -> str:
    """The name of a row of the audit: the class, and the name under which it is declared."""
    return row.path if row.graph is None else f"{row.path} ({row.graph.name})"


def subgraph_cells(framework: str, row: Row) -> Iterator[Cell]:
    """The cells of a module that is a small graph: from NIR where it is built, and to NIR."""
    if row.graph is not None and row.build is not None:
        yield _from_nir(framework, row, row.graph)
    yield _to_nir(framework, row)


def _to_nir(framework: str, row: Row) -> Cell:
    """A module as users make it is written as the graph, or refused for a reason."""
    users = UsersModules(framework, row)
    if row.not_read:
        cases = tuple(_refused(users)) if row.graph is None else ()
        return Cell(
            label(row),
            "to NIR",
            "wrong" if _wrong(cases) else "no",
            because=_wrong(cases) or (row.not_read,),
            cases=cases,
        )
    own = tuple(users.as_they_are_read())
    cases = (*own, *users.with_broken_conditions())
    executed = (row.path,) if any(case.how == "native" for case in own) else ()
    status: Status = "exact when" if row.reads_only_if else "exact"
    because = _wrong(cases) or (() if executed else tuple(dict.fromkeys(case.because for case in own)))
    return Cell(
        label(row),
        "to NIR",
        "wrong" if _wrong(cases) else status if executed else "no",
        executed,
        conditions=tuple(users.conditions()),
        because=because,
        declared_only=() if executed else (row.path,),
        cases=cases,
    )


def _refused(users: UsersModules) -> Iterator[Case]:
    """A module that NIR cannot express, where its constructor takes what is thought up for it."""
    setting = users.settings.fitting
    if setting is not None:
        case = users.case(f"{users.row.path}: as it is made", setting)
        if case.how == "native":
            case = Case(case.name, "wrong", case.modules, because="it is written, and declared as refused")
        yield case


def _wrong(cases: Iterable[Case]) -> tuple[str, ...]:
    return tuple(f"{case.name}: {case.because}" for case in cases if case.how == "wrong")


def _from_nir(framework: str, row: Row, graph: SubGraph) -> Cell:
    """Sub-graphs that are the declared one: built as the module where the conditions hold, and only there."""
    cases: list[Case] = []
    unbroken = list(row.requires)
    executed = 0
    for draw in subgraph_draws(row, graph):
        values = _values(draw, graph)
        broken = [entry for entry in row.requires if not entry.holds(values, draw.dt)]
        unbroken = [entry for entry in unbroken if entry not in broken]
        if broken:
            conditions = tuple(Condition(entry.that, entry.because, entry.do, row.path) for entry in broken)
            because = "its nodes have modules of their own"
            case = Case(draw.name, "refused", because=because, conditions=conditions)
            cases.append(_held(framework, row, draw, case))
        elif executed < _MOST or draw.ties:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case = case_from_nir(framework, draw, dtypes_of(executed, draw))
            cases.append(_held(framework, row, draw, case))
            executed += 1
    conditions = tuple(dict.fromkeys(entry for case in cases for entry in case.conditions))
    conditions += tuple(
        Condition(entry.that, entry.because, entry.do, row.path, executed=False) for entry in unbroken
    )
    wrong = _wrong(cases)
    status: Status = "wrong" if wrong else "exact when" if conditions else "exact"
    return Cell(label(row), "from NIR", status, (row.path,), (), conditions, wrong, cases=tuple(cases))


def _held(framework: str, row: Row, draw: Draw, case: Case) -> Case:
    """The case, if the sub-graph becomes the module exactly where nothing refuses it."""
    if case.how == "wrong":
        return case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = nirmap.from_nir(draw.graph, framework, dt=draw.dt, fallback="torch")
    report = network.meta["nirmap"].nodes[NODE]
    is_built = (report.module, report.source) == (row.path, row.source)
    if is_built is (case.how != "refused"):
        return case
    found = (
        f"it became {report.module}"
        if not is_built
        else "it became the module although a condition does not hold"
    )
    return Case(case.name, "wrong", case.modules, because=found)


def _values(draw: Draw, graph: SubGraph) -> Values:
    """The parameters of a drawn sub-graph, by ``node.parameter``."""
    nodes: Mapping[str, nir.NIRNode] = getattr(draw.graph.nodes[NODE], "nodes", {})
    values: Values = {}
    for name, kind in graph.nodes:
        own = node_values(nodes[name], PRIMITIVES[kind], name)
        values |= {f"{name}.{key}": value for key, value in own.items()}
    return values


def subgraph_draws(row: Row, graph: SubGraph) -> list[Draw]:
    """Sub-graphs that are the declared one, the general one first, then with corners of its neuron."""
    kind = next(kind for _, kind in graph.nodes if PRIMITIVES[kind].stateful)
    return [settled(graph.name, name, partial(_drawn, row, graph, maker)) for name, maker in layers(kind)]


def _drawn(
    row: Row, graph: SubGraph, maker: Maker, random: Random
) -> tuple[nir.NIRGraph, Array, float, bool]:
    nodes: dict[str, nir.NIRNode] = {
        INPUT: nir.Input({"input": np.array(NEURONS)}),
        OUTPUT: nir.Output({"output": np.array(NEURONS)}),
    }
    for name, kind in graph.nodes:
        if PRIMITIVES[kind].stateful:
            nodes[name] = maker(random).node
            if PRIMITIVES[kind].subtracts and row.reset != "value":
                nodes[name].metadata[RESET_KEY] = row.reset
        else:
            nodes[name] = _layer(kind, (INPUT, name) in graph.edges, random)
    around: dict[str, nir.NIRNode] = {
        INPUT: nir.Input({"input": np.array(NEURONS)}),
        NODE: nir.NIRGraph(nodes, list(graph.edges), type_check=False),
        OUTPUT: nir.Output({"output": np.array(NEURONS)}),
    }
    whole = nir.NIRGraph(around, [(INPUT, NODE), (NODE, OUTPUT)], type_check=False)
    return whole, inputs_of(random, NEURONS), DT, False


def _layer(kind: str, leads_in: bool, random: Random) -> nir.NIRNode:
    """A layer from the input, or one from the spikes back to the neuron, which has smaller weights."""
    drawn = weights(random, NEURONS * 2)
    weight = drawn if leads_in else 0.3 * (drawn - 0.2)
    return nir.Linear(weight) if kind == "Linear" else nir.Affine(weight, random.uniform(-0.1, 0.2, NEURONS))

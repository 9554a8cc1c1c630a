"""Modules that are small graphs: what a declaration says of one, as a NIR graph and as one primitive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import nir
import numpy as np

from nirmap.assembling import GraphUnderConstruction
from nirmap.delays import Edge, delayed_edges
from nirmap.signals import Signal
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import (
    Primitive,
    Row,
    StateVariable,
    SubGraph,
    Values,
    graph_normal_form,
    parameters_of,
)

GRAPH, INPUT, OUTPUT = "NIRGraph", "input", "output"


@cache
def delayed(edges: tuple[Edge, ...], stateful: frozenset[str]) -> frozenset[Edge]:
    """The edges of a declared graph that carry the value of the step before.

    Args:
        edges: its edges, from ``input`` to ``output``.
        stateful: the nodes that keep state.
    """
    names = {name for edge in edges for name in edge}
    nodes: dict[str, Any] = {name: nir.Scale(np.ones(1)) for name in names - {INPUT, OUTPUT}}
    nodes |= {INPUT: nir.Input({"input": np.ones(1)}), OUTPUT: nir.Output({"output": np.ones(1)})}
    graph = nir.NIRGraph(nodes, sorted(edges), type_check=False)
    return delayed_edges(graph, lambda name: name in stateful).edges


def delayed_in(graph: SubGraph) -> frozenset[Edge]:
    """The edges of a declared graph that carry the value of the step before."""
    return delayed(graph.edges, frozenset(name for name, node in graph.nodes if PRIMITIVES[node].stateful))


def primitive_of(row: Row) -> Primitive:
    """The primitive that a row stands for; that of a graph has the parameters and variables of all its nodes."""
    if row.graph is None:
        return PRIMITIVES[row.node]
    members = [(name, PRIMITIVES[node]) for name, node in row.graph.nodes]
    variables = {
        f"{name}.{variable.name}": replace(variable, name=f"{name}.{variable.name}")
        for name, primitive in members
        for variable in primitive.state
    }
    fed_back = {
        f"{name}.{OUTPUT}": StateVariable(
            f"{name}.{OUTPUT}", "", 0.0, "what the node gave in the step before"
        )
        for name, _ in members
    }
    known = {**fed_back, **variables}
    return Primitive(
        name=GRAPH,
        node=nir.NIRGraph,
        description=f"The graph {row.graph.name}.",
        shape="elementwise",
        parameters=tuple(
            replace(parameter, name=f"{name}.{parameter.name}")
            for name, primitive in members
            for parameter in primitive.declared
        ),
        state=tuple(known[variable.name] for variable in row.state.variables) if row.state else (),
    )


def original(graph: SubGraph, values: Values, free: Values) -> Values:
    """The parameters of the graph of which those given are the normal form.

    Args:
        graph: the graph.
        values: the parameters in normal form.
        free: the free variables that led to it.
    """
    forms: dict[str, Any] = {}
    for name, node in graph.nodes:
        primitive, own = PRIMITIVES[node], parameters_of(free, name)
        if own and primitive.equivalent is not None and primitive.inverse is not None:
            back: Any = primitive.inverse(**own)
            forms[name] = primitive.equivalent(parameters_of(values, name), **back)
    found = graph_normal_form(values, graph, forms).parameters
    # Weights keep the dtype that they have in the module.
    return {
        name: value if name not in graph.gains else value.astype(values[name].dtype)
        for name, value in found.items()
    }


def written(
    graph: SubGraph, values: Values, where: str, names: Mapping[str, str] | None = None
) -> GraphUnderConstruction:
    """The NIR graph of a module that is one.

    Args:
        graph: the declared graph.
        values: the parameters of its nodes, as ``node.parameter``.
        where: the module, for errors.
        names: what the nodes, and ``input`` and ``output``, are called; None for their declared names.
    """
    called = names or {name: name for name in (INPUT, OUTPUT, *(name for name, _ in graph.nodes))}
    late = delayed_in(graph)
    inner = GraphUnderConstruction(shapes_are_exact=names is not None)
    inner.add_input(called[INPUT])

    def signal(target: str) -> Signal:
        total = Signal({})
        for source, end in graph.edges:
            if end == target:
                total = total.plus(Signal.of(called[source], delayed=(source, target) in late))
        return total

    for name, node in graph.nodes:
        place = f"{where} ({name})"
        inner.add_node(called[name], PRIMITIVES[node], parameters_of(values, name), signal(name), place)
    inner.add_output(called[OUTPUT], signal(OUTPUT))
    inner.connect({})
    return inner

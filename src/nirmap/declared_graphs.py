"""Modules that are small graphs, as they are declared: their delayed edges, and the graph as one primitive."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import nir
import numpy as np

from nirmap.delays import Edge, delayed_edges
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import (
    AffineMap,
    Equivalence,
    Initial,
    NormalForm,
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
        f"{name}.{variable.name}": replace(
            variable, name=f"{name}.{variable.name}", initial=_initial_within(name, variable.initial)
        )
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
        equivalence=_equivalence(row.graph),
    )


def _equivalence(graph: SubGraph) -> Equivalence | None:
    """The equivalences of those nodes that have one, as one: its free variables are ``node.variable``."""
    members = {
        name: equivalence for name, node in graph.nodes if (equivalence := PRIMITIVES[node].equivalence)
    }
    if not members:
        return None

    def parameters(values: Values, **free: Any) -> NormalForm:
        forms = {
            name: entry.parameters(parameters_of(values, name), **parameters_of(free, name))
            for name, entry in members.items()
        }
        return graph_normal_form(values, graph, forms)

    def inverse(**free: Any) -> Values:
        return {
            f"{name}.{key}": value
            for name, entry in members.items()
            for key, value in entry.inverse(**parameters_of(free, name)).items()
        }

    first = {name: entry for name, entry in members.items() if (INPUT, name) in graph.edges}
    last = {name: entry for name, entry in members.items() if (name, OUTPUT) in graph.edges}
    return Equivalence(
        parameters=parameters,
        inverse=inverse,
        free={f"{name}.{key}": value for name, entry in members.items() for key, value in entry.free.items()},
        gain=next((_within(name, entry.gain) for name, entry in first.items()), None),
        offset=next((_within(name, entry.offset) for name, entry in first.items()), None),
        state={
            f"{name}.{variable}": _map_within(name, map)
            for name, entry in members.items()
            for variable, map in {**entry.state, OUTPUT: entry.output}.items()
        },
        output=next((_map_within(name, entry.output) for name, entry in last.items()), AffineMap()),
    )


def _initial_within(name: str, initial: Initial) -> Initial:
    """Where a variable of a node begins, from the parameters of the graph."""
    if not callable(initial):
        return initial
    begins = initial
    return lambda values: begins(parameters_of(values, name))


def _within(name: str, variable: str | None) -> str | None:
    """A free variable of a node, as the graph calls it."""
    return None if variable is None else f"{name}.{variable}"


def _map_within(name: str, entry: AffineMap) -> AffineMap:
    return AffineMap(_within(name, entry.shift), _within(name, entry.scale))

"""A framework's module in the place of a whole sub-graph: which sub-graphs it fits, and its state as theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import nir
import torch

from nirmap.building import Builder, is_stateful, node_values, primitive_of
from nirmap.calling import build_cell
from nirmap.cells import Cell, normal_form
from nirmap.declared_graphs import INPUT, OUTPUT, delayed_in
from nirmap.delays import delayed_edges
from nirmap.entries import Shape
from nirmap.network import PackState, StateEntry, UnpackState
from nirmap.report import NodeReport
from nirmap.resets import RESET_KEY, Reset
from nirmap.shapes import Shapes
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Row, SubGraph, Values, parameters_of

# Name of the one module of a network that is one.
WHOLE = "whole"


class GraphCell(torch.nn.Module):
    r"""A module that is a whole sub-graph, with the state that a network of the sub-graph's nodes has.

    ``cell(input, state)`` returns the output and the new state, a dictionary by the names of the nodes. The input has
    the shape (\*batch, \*shape).

    Args:
        cell: the module in its cell, which knows the nodes by their declared names.
        names: the sub-graph's own name of each declared one, ``input`` and ``output`` included.
        shapes: shapes without batch, by the sub-graph's own names.
    """

    def __init__(self, cell: Cell, names: Mapping[str, str], shapes: Mapping[str, Shape]) -> None:
        super().__init__()
        self.cell = cell
        self.names = dict(names)
        self.declared = {name: declared for declared, name in names.items()}
        self.rank = len(shapes[names[INPUT]])
        variables: dict[str, list[str]] = {}
        for path in cell.variables:
            declared, _, variable = path.partition(".")
            variables.setdefault(names[declared], []).append(variable)
        entries = [
            StateEntry(name, set(own) != {OUTPUT}, OUTPUT in own, shapes[name], frozenset(own) - {OUTPUT})
            for name, own in sorted(variables.items())
        ]
        self.unpack, self.pack = UnpackState(entries, [self.rank]), PackState(entries)

    def forward(self, input: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """One step.

        Raises:
            GraphError: the state is not one of this sub-graph.
        """
        if not input.is_floating_point():
            input = input.to(torch.get_default_dtype())
        batch = input.shape[: input.dim() - self.rank]
        parts = self.unpack(state, input)
        kept: dict[str, torch.Tensor] = {}
        for index, entry in enumerate(self.unpack.entries):
            own, output = parts[2 * index], parts[2 * index + 1]
            shape = (*batch, *(entry.shape or ()))
            for variable in sorted(entry.variables or ()):
                path = f"{self.declared[entry.name]}.{variable}"
                value = self.cell.begins(path, input, shape) if own is None else own[variable]
                kept[path] = value.expand(shape)
            if entry.fed_back:
                kept[f"{self.declared[entry.name]}.{OUTPUT}"] = output.expand(shape)
        output, new = self.cell(input, kept)
        return output, self.pack(*(part for entry in self.pack.entries for part in self._parts(entry, new)))

    def _parts(self, entry: StateEntry, new: Mapping[str, torch.Tensor]) -> tuple[Any, Any]:
        """What a node's own module would have returned, as far as it is state, and its output if that is fed back."""
        declared = self.declared[entry.name]
        own = {variable: new[f"{declared}.{variable}"] for variable in sorted(entry.variables or ())}
        return (None, own), new[f"{declared}.{OUTPUT}"] if entry.fed_back else None


@dataclass(frozen=True)
class BuiltGraph:
    """A module for a sub-graph, and how it was made.

    Attributes:
        cell: the module.
        report: how it was made.
        nodes: the same for each node.
        delayed: the edges of the sub-graph that carry the value of the step before.
    """

    cell: GraphCell
    report: NodeReport
    nodes: Mapping[str, NodeReport]
    delayed: frozenset[tuple[str, str]]


def build_graph(
    graph: nir.NIRGraph, shapes: Shapes, builder: Builder, where: str, reset: Reset
) -> BuiltGraph | None:
    """The framework's module for a sub-graph; None where it has none that does exactly the same.

    Args:
        graph: the sub-graph.
        shapes: its shapes.
        builder: the table of the framework, the time step, dtype and device.
        where: the sub-graph, for errors.
        reset: what a spike does in the nodes that it resets.

    Raises:
        GraphError: a parameter is malformed.
    """
    known = {name: shape for name, shape in shapes.outputs.items() if shape is not None}
    # What else metadata say of a node is for a module of its own.
    if known.keys() < graph.nodes.keys() or any(
        node.metadata.keys() - {RESET_KEY} for node in graph.nodes.values()
    ):
        return None
    for row in builder.registry.graphs:
        fits = row.graph is not None and row.build is not None and row.reset == reset
        fits = fits and row.steps_by(builder.to.method)
        names = match(graph, row.graph) if fits and row.graph is not None else None
        if names is None or row.graph is None:
            continue
        values: dict[str, Any] = {}
        for declared, _ in row.graph.nodes:
            node, place = graph.nodes[names[declared]], f"{where} / node {names[declared]!r}"
            own = node_values(node, primitive_of(node, place), place)
            values |= {f"{declared}.{name}": value for name, value in own.items()}
        if all(constraint.holds(values, builder.dt) for constraint in row.requires):
            return _built(row, row.graph, values, names, known, builder)
    return None


def _built(
    row: Row,
    graph: SubGraph,
    values: Values,
    names: Mapping[str, str],
    shapes: Mapping[str, Shape],
    builder: Builder,
) -> BuiltGraph:
    cell = build_cell(row, values, builder.dt, builder.to)
    how: Literal["native", "normal form"] = "native" if row.normal_form is None else "normal form"
    normal = normal_form(row, values, builder.dt).parameters
    nodes = {
        names[declared]: NodeReport(
            node,
            row.path,
            how,
            row.source,
            before=parameters_of(values, declared),
            after=parameters_of(normal, declared),
            reset=row.reset if PRIMITIVES[node].subtracts else "value",
        )
        for declared, node in graph.nodes
    }
    report = NodeReport("NIRGraph", row.path, how, row.source, reset=row.reset)
    late = frozenset((names[source], names[target]) for source, target in delayed_in(graph))
    return BuiltGraph(GraphCell(cell, names, shapes), report, nodes, late)


def match(graph: nir.NIRGraph, declared: SubGraph) -> dict[str, str] | None:
    """The graph's own name of each declared one, ``input`` and ``output`` included; None where they differ.

    They are the same if nodes of the same types are joined by the same edges, of which the same are delayed.
    """
    ours: dict[str, Any] = {name: PRIMITIVES[node].node for name, node in declared.nodes}
    ours |= {INPUT: nir.Input, OUTPUT: nir.Output}
    theirs = {name: type(node) for name, node in graph.nodes.items()}
    edges = set(graph.edges)
    if len(edges) != len(declared.edges) or _counted(theirs) != _counted(ours):
        return None
    late = delayed_edges(graph, lambda name: is_stateful(graph.nodes[name])).edges
    for names in _isomorphisms(theirs, edges, ours, set(declared.edges)):
        if late == frozenset((names[source], names[target]) for source, target in delayed_in(declared)):
            return names
    return None


def _counted(kinds: Mapping[str, type]) -> list[str]:
    return sorted(kind.__qualname__ for kind in kinds.values())


def _isomorphisms(
    theirs: Mapping[str, type],
    their_edges: set[tuple[str, str]],
    ours: Mapping[str, type],
    our_edges: set[tuple[str, str]],
) -> Iterator[dict[str, str]]:
    """Every way to give our nodes the names of theirs."""
    import networkx

    def directed(kinds: Mapping[str, type], edges: set[tuple[str, str]]) -> Any:
        graph: networkx.DiGraph[str] = networkx.DiGraph()
        for name in sorted(kinds):
            graph.add_node(name, kind=kinds[name])
        graph.add_edges_from(sorted(edges))
        return graph

    def alike(one: Mapping[str, type], other: Mapping[str, type]) -> bool:
        return one["kind"] is other["kind"]

    matcher: Any = networkx.isomorphism.DiGraphMatcher(
        directed(ours, our_edges),
        directed(theirs, their_edges),
        node_match=alike,
    )
    yield from matcher.isomorphisms_iter()

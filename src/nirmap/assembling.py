"""Puts a NIR graph together: nodes under unique names, edges with weights, and in the end the shapes."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import nir
import numpy as np
import torch

from nirmap.building import is_stateful
from nirmap.entries import Entry, Shape, check_constants, check_expected, keeps_zeros, node_of
from nirmap.errors import GraphError, ReadBackWarning, TraceError
from nirmap.readable import unreadable
from nirmap.shapes import Shapes, check_open_shapes, infer_shapes
from nirmap.signals import Signal, Source
from nirmap.structure import check_structure
from nirmap.written_delays import check_delays
from nirmap_registry import rows
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Primitive, Values

_UNKNOWN = Shapes({}, {}, {})


@dataclass
class GraphUnderConstruction:
    """A NIR graph to which inputs, nodes and outputs are added in order."""

    entries: dict[str, Entry | nir.NIRNode | GraphUnderConstruction] = field(
        default_factory=dict[str, "Entry | nir.NIRNode | GraphUnderConstruction"]
    )
    connections: list[tuple[Signal, str]] = field(default_factory=list[tuple[Signal, str]])
    edges: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    stateful: dict[str, bool] = field(default_factory=dict[str, bool])
    inputs: list[str] = field(default_factory=list[str])
    used: dict[int, str] = field(default_factory=dict[int, str])
    scales: dict[tuple[Source, float], str] = field(default_factory=dict[tuple[Source, float], str])
    # The nodes that are written as several in a row, each with the name of the last of them.
    last_parts: dict[str, str] = field(default_factory=dict[str, str])
    # The shapes that views were written for, None for an axis that may have any length.
    expected: dict[str, tuple[int | None, ...]] = field(default_factory=dict[str, "tuple[int | None, ...]"])
    # Constants that outputs are added to or multiplied by: the node, the constant's shape, and where.
    met: list[tuple[str, Shape, str]] = field(default_factory=list[tuple[str, Shape, str]])
    # Names that nodes will have which are not there yet.
    reserved: set[str] = field(default_factory=set[str])
    # Whether parameters of a single number are those of a single neuron, and not of a layer of any size.
    shapes_are_exact: bool = False

    def _unique(self, name: str, taken: Collection[str] = ()) -> str:
        """The name, with a number behind it where it is taken."""
        candidate, count = name, 0
        while candidate in self.entries or candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        return candidate

    def add_input(self, name: str) -> str:
        """An Input node; its shape is inferred."""
        unique = self._unique(name)
        self.entries[unique] = _untyped(nir.Input)
        self.inputs.append(unique)
        return unique

    def add_output(self, name: str, signal: Signal) -> str:
        """An Output node; its shape is inferred."""
        return self._add(name, _untyped(nir.Output), signal, False)

    def add_graph(
        self, name: str, module: torch.nn.Module, inner: GraphUnderConstruction, signal: Signal, where: str
    ) -> str:
        """A sub-graph that is under construction itself; its outputs are added already.

        Raises:
            TraceError: the module is stateful and used a second time.
        """
        stateful = any(inner.stateful.values())
        return self._add_used(name, module, inner, signal, stateful, where)

    def add_given(self, name: str, module: torch.nn.Module, node: object, signal: Signal, where: str) -> str:
        """A node that the caller's function made for a module. It is not changed.

        Raises:
            TraceError: it is no node, or the module is stateful and used a second time.
        """
        if not isinstance(node, nir.NIRNode):
            raise TraceError(
                where, f"the function in module_map returned {node!r}", "a node of nir", "return a node"
            )
        primitive = PRIMITIVES.get(type(node).__name__)
        if primitive is None or type(node) is not primitive.node:
            return self._add_used(name, module, node, signal, is_stateful(node), where)
        values = {parameter.name: getattr(node, parameter.name) for parameter in primitive.declared}
        entry = Entry(primitive, values, f"node {name!r}", dict(node.metadata))
        return self._add_used(name, module, entry, signal, primitive.stateful, where)

    def add_module(
        self,
        name: str,
        module: torch.nn.Module,
        primitive: Primitive,
        values: Values,
        signal: Signal,
        where: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """The node for a module.

        Raises:
            TraceError: the module is stateful and used a second time: one state cannot be in two places.
        """
        entry = Entry(primitive, values, where, dict(metadata or {}))
        return self._add_used(name, module, entry, signal, primitive.stateful, where)

    def add_series(
        self, name: str, parts: Sequence[tuple[str, Entry, torch.nn.Module]], signal: Signal, where: str
    ) -> str:
        """A node as several in a row: the name, entry and module of each. No other node has to give up its name.

        Returns:
            The name of the last, from which edges lead on that would leave the node.

        Raises:
            TraceError: a module is stateful and used a second time.
        """
        last = name
        for part, entry, module in parts:
            free, stateful = self._unique(f"{name}_{part}", self.reserved), entry.primitive.stateful
            last = self._add_used(free, module, entry, signal, stateful, where)
            signal = Signal.of(last)
        self.last_parts[name] = last
        return last

    def last_part(self, name: str) -> str:
        """The node that a node's output and state come from: the last of its parts, else itself."""
        return self.last_parts.get(name, name)

    def add_node(
        self,
        name: str,
        primitive: Primitive,
        values: Values,
        signal: Signal,
        where: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """A node that is not a module of its own."""
        entry = Entry(primitive, values, where, dict(metadata or {}))
        return self._add(name, entry, signal, primitive.stateful)

    def add_scale(self, name: str, factor: torch.Tensor, signal: Signal, where: str) -> Signal:
        """A Scale node with one factor per neuron."""
        entry = Entry(PRIMITIVES["Scale"], {"scale": rows.array(factor)}, where)
        added = self._add(name, entry, signal, False)
        self.met.append((added, tuple(factor.shape), where))
        return Signal.of(added)

    def _add_used(
        self,
        name: str,
        module: torch.nn.Module,
        entry: Entry | nir.NIRNode | GraphUnderConstruction,
        signal: Signal,
        stateful: bool,
        where: str,
    ) -> str:
        if stateful and id(module) in self.used:
            raise TraceError(
                where,
                f"a stateful module that is used twice (first as node {self.used[id(module)]!r})",
                "one use in a time step: one state cannot be in two places",
                "make two modules with equal parameters; a forward that loops over time has to become one step of "
                "the loop",
            )
        added = self._add(name, entry, signal, stateful)
        self.used[id(module)] = added
        return added

    def _add(
        self,
        name: str,
        entry: Entry | nir.NIRNode | GraphUnderConstruction,
        signal: Signal,
        stateful: bool,
    ) -> str:
        unique = self._unique(name)
        self.entries[unique] = entry
        self.stateful[unique] = stateful
        self.connections.append((signal, unique))
        return unique

    def returns_its_state(self, name: str) -> bool:
        """Whether the output of a node is one of its state variables."""
        entry = self.entries[name]
        return self.stateful[name] and not (isinstance(entry, Entry) and entry.primitive.spikes)

    def is_graph(self, name: str) -> bool:
        """Whether a node is a sub-graph."""
        return isinstance(self.entries[name], GraphUnderConstruction)

    def connect(self, entries: Mapping[int, Signal]) -> None:
        """Draws the edges, once all nodes are there.

        Args:
            entries: what the network hands on to its next step, by the number of the state entry.
        """
        for signal, target in self.connections:
            for source, weight in signal.with_entries(entries).terms.items():
                self._connect(source, weight, target)
        self.connections.clear()

    def _connect(self, source: Source, weight: float, target: str) -> None:
        """An edge; a weight other than 1 goes through a Scale node."""
        source = source._replace(node=self.last_part(source.node))
        if weight != 1.0:
            key = (source, weight)
            if key not in self.scales:
                place = f"node {source.node!r} times {weight:g}"
                entry = Entry(PRIMITIVES["Scale"], {"scale": np.asarray(weight)}, place)
                added = self._unique(f"{source.node}_times")
                self.entries[added], self.stateful[added], self.scales[key] = entry, False, added
                self._connect(source, 1.0, added)
            source = Source(self.scales[key])
        edge = (source.node, target)
        if self.edges.setdefault(edge, source.delayed) != source.delayed:
            raise TraceError(
                f"edge {edge[0]!r} -> {edge[1]!r}",
                "the sum of an output and of the same output of the step before",
                "one of them, since an edge is either delayed or not",
                "keep the past value with a Delay",
            )

    def drop_unused(self) -> None:
        """Removes nodes that no output depends on. What a module computes and nobody reads is not part of its result.

        Raises:
            TraceError: an input is among them.
        """
        sources: dict[str, list[str]] = {}
        for source, target in self.edges:
            sources.setdefault(target, []).append(source)
        pending = [name for name, entry in self.entries.items() if isinstance(entry, nir.Output)]
        needed = set(pending)
        while pending:
            for name in sources.get(pending.pop(), ()):
                if name not in needed:
                    needed.add(name)
                    pending.append(name)
        for name in self.inputs:
            if name not in needed:
                raise TraceError(f"input {name!r}", "no output depends on it", "a use of it", "remove it")
        self.entries = {name: entry for name, entry in self.entries.items() if name in needed}
        self.edges = {
            edge: delayed for edge, delayed in self.edges.items() if edge[0] in needed and edge[1] in needed
        }

    def finish(self, shapes: list[Shape], *, typed: bool = True) -> nir.NIRGraph:
        """The graph, with every node's type.

        Args:
            shapes: the shapes of the inputs, in their order, as far as they are given.
            typed: False to leave out the types that are not known, and nir's check of them.

        Raises:
            GraphError: a shape contradicts another one or stays unknown.
            TraceError: an output of the step before is used outside of a cycle.

        Warns:
            ReadBackWarning: nir cannot read the graph back from a file with its type check on.
        """
        if len(shapes) not in (0, len(self.inputs)):
            raise TraceError("sample", f"{len(shapes)} samples", f"one for each of {', '.join(self.inputs)}")
        provisional = self._provisional()
        check_structure(provisional)
        self._check_delays(provisional)
        given = dict(zip(self.inputs, shapes, strict=False))
        try:
            inferred = self._shapes(provisional, given)
        except GraphError:
            if typed:
                raise
            # NIR has no types for a Linear along the last of several axes; anything else is a contradiction.
            check_open_shapes(provisional, given)
            inferred = _UNKNOWN
        check_constants(self.met, inferred.outputs)
        finished = self._typed(inferred, typed)
        if not typed:
            return finished
        try:
            finished.check_types()
        except (ValueError, NotImplementedError) as error:
            raise GraphError(
                "graph", f"nir's type check fails: {error}", "types that agree along every edge"
            ) from error
        problem = unreadable(finished)
        if problem is not None:
            warnings.warn(problem, ReadBackWarning, stacklevel=4)
        return finished

    def _shapes(self, graph: nir.NIRGraph, given: Mapping[str, Shape]) -> Shapes:
        """All shapes, those of layers of a single neuron too where the network is known to have such."""
        inferred = infer_shapes(graph, given)
        unknown = [name for name in self.inputs if inferred.outputs.get(name) is None]
        candidates = sorted(self._single_neurons()) if self.shapes_are_exact and unknown else []
        known = dict(given)
        for name in unknown:
            for shape in candidates:
                try:
                    inferred = infer_shapes(graph, {**known, name: shape})
                except GraphError:
                    continue  # another input leads to the layer of that shape
                known[name] = shape
                break
        return inferred

    def _single_neurons(self) -> set[Shape]:
        """The shapes of the layers that have a single neuron, at any depth."""
        found: set[Shape] = set()
        for entry in self.entries.values():
            if isinstance(entry, GraphUnderConstruction):
                found |= entry._single_neurons()
            elif isinstance(entry, Entry) and entry.primitive.shape == "elementwise":
                shapes = (rows.array(value).shape for value in entry.values.values())
                found |= {shape for shape in shapes if shape and prod(shape) == 1}
        return found

    def _provisional(self) -> nir.NIRGraph:
        """The graph with the shapes that the nodes' parameters have by themselves."""
        nodes = {
            name: entry._provisional()
            if isinstance(entry, GraphUnderConstruction)
            else node_of(entry, None, None)
            if isinstance(entry, Entry)
            else entry
            for name, entry in self.entries.items()
        }
        return nir.NIRGraph(nodes, sorted(self.edges), metadata={}, type_check=False)

    def _check_delays(self, graph: nir.NIRGraph) -> None:
        """The edges that carry the value of the step before are those that a reader of the graph will delay."""
        for name, entry in self.entries.items():
            if isinstance(entry, GraphUnderConstruction):
                entry._check_delays(cast("nir.NIRGraph", graph.nodes[name]))
        check_delays(graph, self.edges, lambda name: self.stateful.get(name, False), self._is_relay)

    def _is_relay(self, name: str) -> bool:
        entry = self.entries[name]
        return isinstance(entry, Entry) and keeps_zeros(entry)

    def _typed(self, shapes: Shapes, typed: bool) -> nir.NIRGraph:
        """The graph with every node's type."""
        nodes = {name: self._finished(name, entry, shapes, typed) for name, entry in self.entries.items()}
        return nir.NIRGraph(nodes, sorted(self.edges), metadata={}, type_check=False)

    def _finished(
        self, name: str, entry: Entry | nir.NIRNode | GraphUnderConstruction, shapes: Shapes, typed: bool
    ) -> nir.NIRNode:
        before, after = shapes.inputs.get(name), shapes.outputs.get(name)
        if isinstance(entry, GraphUnderConstruction) and not typed:
            return entry._typed(shapes.subgraphs.get(name, _UNKNOWN), typed)
        if before is None or after is None:
            if not typed and isinstance(entry, Entry):
                return node_of(entry, before, after)
            if not typed and isinstance(entry, nir.NIRNode):
                return entry
            raise GraphError(
                entry.where if isinstance(entry, Entry) else f"node {name!r}",
                "its shape is not known",
                "a shape that follows from the layers or from a sample",
                "pass sample=, what forward takes, with its axis of a batch",
            )
        if isinstance(entry, GraphUnderConstruction):
            return entry._typed(shapes.subgraphs[name], typed)
        if isinstance(entry, nir.Input):
            return nir.Input({"input": np.array(before)})
        if isinstance(entry, nir.Output):
            return nir.Output({"output": np.array(after)})
        if not isinstance(entry, Entry):
            return entry
        check_expected(self.expected.get(name), after, entry.where)
        node = node_of(entry, before, after)
        node.input_type = {"input": np.array(before)}
        node.output_type = {"output": np.array(after)}
        return node


def _untyped(kind: Any) -> nir.NIRNode:
    """An Input or an Output whose shape is not known yet."""
    node: nir.NIRNode = kind(None)
    return node

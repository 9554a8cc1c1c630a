"""Puts a NIR graph together: nodes under unique names, edges with weights, and in the end the shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import nir
import numpy as np
import torch

from nirmap.building import is_stateful
from nirmap.delays import delayed_edges
from nirmap.errors import GraphError, TraceError
from nirmap.shapes import Shapes, infer_shapes
from nirmap.signals import Signal
from nirmap.structure import check_structure
from nirmap_registry import rows
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Primitive, Values

Shape = tuple[int, ...]


@dataclass
class _Entry:
    """A node whose parameters are known, while its shape is not yet."""

    primitive: Primitive
    values: Values
    where: str


@dataclass
class GraphUnderConstruction:
    """A NIR graph to which inputs, nodes and outputs are added in order."""

    entries: dict[str, _Entry | nir.NIRNode] = field(default_factory=dict[str, "_Entry | nir.NIRNode"])
    edges: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    stateful: dict[str, bool] = field(default_factory=dict[str, bool])
    inputs: list[str] = field(default_factory=list[str])
    used: dict[int, str] = field(default_factory=dict[int, str])
    scales: dict[tuple[str, float], str] = field(default_factory=dict[tuple[str, float], str])

    def _unique(self, name: str) -> str:
        """The name, with a number behind it where it is taken."""
        candidate, count = name, 0
        while candidate in self.entries:
            count += 1
            candidate = f"{name}_{count}"
        return candidate

    def add_input(self, name: str) -> str:
        """An Input node; its shape is inferred."""
        unique = self._unique(name)
        self.entries[unique] = nir.Input(None)
        self.inputs.append(unique)
        return unique

    def add_output(self, name: str, signal: Signal) -> str:
        """An Output node; its shape is inferred."""
        unique = self._unique(name)
        self.entries[unique] = nir.Output(None)
        self._connect(signal, unique)
        return unique

    def add_given(self, name: str, node: nir.NIRNode, signal: Signal) -> str:
        """A node that is complete: a sub-graph, or what the caller's function made."""
        primitive = PRIMITIVES.get(type(node).__name__)
        if primitive is None:
            unique = self._unique(name)
            self.entries[unique] = node
            self._connect(signal, unique)
            self.stateful[unique] = is_stateful(node)
            return unique
        values = {parameter.name: getattr(node, parameter.name) for parameter in primitive.declared}
        return self._add(name, _Entry(primitive, values, f"node {name!r}"), signal, primitive.stateful)

    def add_module(
        self,
        name: str,
        module: torch.nn.Module,
        primitive: Primitive,
        values: Values,
        signal: Signal,
        stateful: bool,
        where: str,
    ) -> str:
        """The node for a module.

        Raises:
            TraceError: a stateful module is used a second time: one state cannot be in two places.
        """
        first = self.used.setdefault(id(module), name)
        if stateful and first in self.entries:
            raise TraceError(
                where,
                f"a stateful module that is used twice (first as node {first!r})",
                "one use in a time step: one state cannot be in two places",
                "make two modules with equal parameters",
            )
        return self._add(name, _Entry(primitive, values, where), signal, stateful)

    def add_scale(self, name: str, factor: torch.Tensor, signal: Signal, where: str) -> Signal:
        """A Scale node with one factor per neuron."""
        entry = _Entry(PRIMITIVES["Scale"], {"scale": rows.array(factor)}, where)
        return Signal({self._add(name, entry, signal, False): 1.0})

    def _add(self, name: str, entry: _Entry, signal: Signal, stateful: bool) -> str:
        unique = self._unique(name)
        self.entries[unique] = entry
        self.stateful[unique] = stateful
        self._connect(signal, unique)
        return unique

    def _connect(self, signal: Signal, target: str) -> None:
        """Edges for a signal's terms; a weight other than 1 goes through a Scale node."""
        for name, weight in signal.terms.items():
            delayed = name in signal.delayed
            if weight == 1.0:
                self.edges[(name, target)] = delayed
                continue
            key = (name, weight)
            if key not in self.scales:
                entry = _Entry(
                    PRIMITIVES["Scale"], {"scale": np.asarray(weight)}, f"node {name!r} times {weight:g}"
                )
                self.scales[key] = self._add(
                    f"{name}_times", entry, Signal({name: 1.0}, signal.delayed), False
                )
            self.edges[(self.scales[key], target)] = False

    def finish(self, shapes: list[Shape]) -> nir.NIRGraph:
        """The graph, with every node's type.

        Args:
            shapes: the shapes of the inputs, in their order, as far as they are given.

        Raises:
            GraphError: a shape contradicts another one or stays unknown.
            TraceError: an output of the step before is used outside of a cycle.
        """
        if len(shapes) not in (0, len(self.inputs)):
            raise TraceError("sample", f"{len(shapes)} samples", f"one for each of {', '.join(self.inputs)}")
        provisional = {
            name: _node(entry, None, None) if isinstance(entry, _Entry) else entry
            for name, entry in self.entries.items()
        }
        graph = nir.NIRGraph(provisional, sorted(self.edges), metadata={}, type_check=False)
        check_structure(graph)
        self._check_delays(graph)
        inferred = infer_shapes(graph, dict(zip(self.inputs, shapes, strict=False)))
        nodes = {name: self._finished(name, entry, inferred) for name, entry in self.entries.items()}
        finished = nir.NIRGraph(nodes, sorted(self.edges), metadata={}, type_check=False)
        try:
            finished.check_types()
        except (ValueError, NotImplementedError) as error:
            raise GraphError(
                "graph", f"nir's type check fails: {error}", "types that agree along every edge"
            ) from error
        return finished

    def _check_delays(self, graph: nir.NIRGraph) -> None:
        """The edges that carry the value of the step before are those that a reader of the graph will delay."""
        wanted = {edge for edge, delayed in self.edges.items() if delayed}
        read = set(delayed_edges(graph, lambda name: self.stateful.get(name, False)).edges)
        for source, target in sorted(wanted ^ read):
            kind = "is" if (source, target) in wanted else "is not"
            raise TraceError(
                f"edge {source!r} -> {target!r}",
                f"it {kind} one step late in the module, unlike in the graph",
                "a feedback of exactly one step, from a stateful module, in every cycle",
            )

    def _finished(self, name: str, entry: _Entry | nir.NIRNode, shapes: Shapes) -> nir.NIRNode:
        before, after = shapes.inputs.get(name), shapes.outputs.get(name)
        if before is None or after is None:
            raise GraphError(
                f"node {name!r}",
                "its shape is not known",
                "a shape that follows from the layers or from a sample",
                "pass sample=, an input with one leading batch axis",
            )
        if isinstance(entry, nir.Input):
            return nir.Input({"input": np.array(before)})
        if isinstance(entry, nir.Output):
            return nir.Output({"output": np.array(after)})
        node = _node(entry, before, after) if isinstance(entry, _Entry) else entry
        if isinstance(entry, _Entry):
            node.input_type = {"input": np.array(before)}
            node.output_type = {"output": np.array(after)}
        return node


def _node(entry: _Entry, before: Shape | None, after: Shape | None) -> nir.NIRNode:
    """The node of an entry; parameters of neurons are broadcast to the layer's shape where that is known."""
    values: dict[str, Any] = {}
    neurons = [parameter.name for parameter in entry.primitive.declared if parameter.kind == "neuron"]
    arrays = {name: np.asarray(entry.values[name]) for name in neurons}
    common = after if after is not None else np.broadcast_shapes(*(value.shape for value in arrays.values()))
    for parameter in entry.primitive.parameters:
        name = parameter.name
        if parameter.kind == "neuron":
            values[name] = _broadcast(arrays[name], common, name, entry.where)
        elif parameter.kind == "integers":
            entries = rows.integers(entry.values[name])
            values[name] = entries[0] if parameter.axes == 1 else np.array(entries)
        elif parameter.kind == "padding":
            padding = entry.values[name]
            values[name] = padding if isinstance(padding, str) else _padding(padding, parameter.axes)
        elif parameter.kind != "shape":
            values[name] = entry.values[name]
    if entry.primitive.shape == "convolution":
        spatial = None if before is None else before[1:]
        values["input_shape"] = spatial[0] if spatial is not None and len(spatial) == 1 else spatial
    if entry.primitive.shape == "flatten":
        values["input_type"] = {"input": None if before is None else np.array(before)}
    node: nir.NIRNode = entry.primitive.node(**values)
    return node


def _padding(value: Any, axes: int) -> Any:
    entries = rows.integers(value)
    return entries[0] if axes == 1 else entries


def _broadcast(value: np.ndarray[Any, Any], shape: Shape, name: str, where: str) -> np.ndarray[Any, Any]:
    one = value.reshape(()) if value.size == 1 else value
    try:
        return np.broadcast_to(one, shape).copy()
    except ValueError as error:
        raise GraphError(
            where, f"{name} of shape {value.shape}", f"the layer's shape {shape}, or a single number"
        ) from error

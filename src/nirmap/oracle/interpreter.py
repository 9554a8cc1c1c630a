"""NIR graphs, stepped in plain NumPy float64: the reference that every other implementation is held against.

The step of one node is in `nirmap.oracle.nodes`; here is what nodes are to one another.
All state is 0 before the first step. A delayed edge (`nirmap.oracle.feedback`) carries the value of the step before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import nir
import numpy as np

from nirmap.oracle.feedback import delayed_edges
from nirmap.oracle.inputs import streams
from nirmap.oracle.nodes import Method, Node, Path
from nirmap.oracle.spatial import Array


@dataclass(frozen=True)
class Trace:
    """All that happened in a simulation of T steps with batch size B. Paths are node names from the top graph down.

    Attributes:
        outputs: per Output node of the top graph, (T, B, *shape).
        values: per node, nested graphs and the nodes in them included: its output, (T, B, *shape).
        states: per neuron: its state variables after each step ("v", and "i" where current based), (T, B, *shape).
        before_reset: per IF, LIF and CubaLIF the integrated potential before the reset, per Threshold its input: what
            was compared with the threshold, (T, B, *shape). Of a node with a spike condition ``a > b``, a - b.
        thresholds: what it was compared with, broadcast to *shape.
        delayed: the edges that carry the value of the previous step, as (source path, target path).
    """

    outputs: dict[str, Array]
    values: dict[Path, Array]
    states: dict[Path, dict[str, Array]]
    before_reset: dict[Path, Array]
    thresholds: dict[Path, Array]
    delayed: frozenset[tuple[Path, Path]]

    def spike_counts(self) -> dict[Path, int]:
        """Per firing node (IF, LIF, CubaLIF, Threshold) the number of its spikes, over all steps and the batch."""
        return {path: int(self.values[path].sum()) for path in self.thresholds}


def simulate(
    graph: nir.NIRGraph, inputs: Mapping[str, Any] | Any, dt: float, *, method: Method = "forward_euler"
) -> Trace:
    """Step ``graph`` through a sequence, in float64.

    Where the metadata of a node, or of the graph around it, have ``reset: subtract``, a spike lowers the potential by
    ``v_threshold - v_reset``.

    Args:
        graph: the network; it is only read.
        inputs: per Input node an array (T, B, *shape), T at least 1; the array alone where there is one Input.
        dt: the time step in the unit of the graph's time constants (s).
        method: how the equations of i and v are discretised.

    Raises:
        ValueError: an edge names no node or is there twice, an Input has incoming or an Output has outgoing edges, no
            Input reaches a node, a nested graph has not exactly one Input and one Output, shapes do not fit, the
            inputs are not those of the graph, or a delay is not a multiple of dt.
        TypeError: a node is of a type that has no equations here.
    """
    network = _Graph(graph, (), dt, method)
    arriving = streams(network.inputs, inputs)
    steps = len(next(iter(arriving.values())))
    recording = _Recording()
    for step in range(steps):
        network.step({name: stream[step] for name, stream in arriving.items()})
        recording.add(network)
    return recording.trace(network)


def margin(trace: Trace) -> float:
    """How near any comparison with a threshold came to a tie: ``min |v - threshold| / scale``; inf without one.

    The scale of a neuron is its threshold or its largest potential in the simulation, whichever is larger in
    magnitude, as rounding errors grow with it. Two implementations whose potentials differ by less than this
    fraction of the scale give the same spikes.
    """
    smallest = np.inf
    for path, potential in trace.before_reset.items():
        threshold = trace.thresholds[path]
        scale = np.maximum(np.abs(potential).max(axis=(0, 1)), np.abs(threshold))
        distance = np.abs(potential - threshold)
        relative = np.divide(
            distance, scale, out=np.zeros_like(distance), where=np.broadcast_to(scale > 0, distance.shape)
        )
        smallest = min(smallest, float(relative.min()))
    return float(smallest)


class _Graph:
    """A graph, at the top or nested: its nodes, the order of a step, and the values of the step before."""

    def __init__(
        self, graph: nir.NIRGraph, path: Path, dt: float, method: Method, reset: str = "value"
    ) -> None:
        self.graph, self.path, self.dt = graph, path, dt
        self.reset = str(graph.metadata.get("reset", reset))
        self.method: Method = method
        self.inputs = {name: node for name, node in graph.nodes.items() if isinstance(node, nir.Input)}
        self.outputs = [name for name, node in graph.nodes.items() if isinstance(node, nir.Output)]
        self._check_edges()
        self.members = {name: self._member(name) for name in graph.nodes if name not in self.inputs}
        self.sources = {
            name: sorted(s for s, target in graph.edges if target == name) for name in graph.nodes
        }
        self.delayed = delayed_edges(graph)
        self.order = self._order()
        self.values: dict[str, Array] = {}

    def _member(self, name: str) -> Node | _Graph:
        node, path = self.graph.nodes[name], (*self.path, name)
        if not isinstance(node, nir.NIRGraph):
            return Node(node, path, self.dt, self.method, self.reset)
        nested = _Graph(node, path, self.dt, self.method, self.reset)
        if len(nested.inputs) != 1 or len(nested.outputs) != 1:
            raise ValueError(
                f"node {path}: a nested graph must have one Input and one Output, as edges name no port"
            )
        return nested

    def _check_edges(self) -> None:
        where = f"graph {self.path}"
        for source, target in self.graph.edges:
            for name in (source, target):
                if name not in self.graph.nodes:
                    raise ValueError(f"{where}: edge {(source, target)} names {name!r}, which is not a node")
            if target in self.inputs or source in self.outputs:
                raise ValueError(f"{where}: edge {(source, target)} leads into an Input or out of an Output")
        if len(set(map(tuple, self.graph.edges))) != len(self.graph.edges):
            raise ValueError(f"{where}: an edge is there twice")

    def _order(self) -> list[str]:
        """The nodes that are no Inputs, each after the sources of its edges that are not delayed."""
        waiting = {
            name: {source for source in self.sources[name] if (source, name) not in self.delayed}
            - set(self.inputs)
            for name in self.members
        }
        order: list[str] = []
        while waiting:
            ready = [name for name, sources in waiting.items() if not sources]
            if not ready:
                raise ValueError(f"graph {self.path}: no Input reaches the cycle of {sorted(waiting)}")
            for name in ready:
                del waiting[name]
            for sources in waiting.values():
                sources.difference_update(ready)
            order.extend(ready)
        return order

    def step(self, external: Mapping[str, Array]) -> dict[str, Array]:
        """One step; ``external`` and the result hold (B, *shape) by Input and Output name."""
        previous = self.values or self._zeros(external)
        values = {name: np.asarray(external[name]) for name in self.inputs}
        for name in self.order:
            arriving = [previous[s] if (s, name) in self.delayed else values[s] for s in self.sources[name]]
            values[name] = _advance(self.members[name], _sum(arriving, (*self.path, name)))
        self.values = values
        return {name: values[name] for name in self.outputs}

    def _zeros(self, external: Mapping[str, Array]) -> dict[str, Array]:
        """What delayed edges carry in the first step; the shapes are found by stepping unused copies of the nodes."""
        zeros = {name: np.zeros_like(value) for name, value in external.items()}
        pending = list(zeros)
        while pending:
            name = pending.pop()
            for source, target in self.graph.edges:
                if source == name and target not in zeros:
                    zeros[target] = np.zeros_like(_advance(self._member(target), zeros[name]))
                    pending.append(target)
        for name in self.members:
            if name not in zeros:
                raise ValueError(f"graph {self.path}: no Input reaches {name!r}")
        return zeros

    def walk(self) -> Iterator[tuple[Path, Array, Node | _Graph | None]]:
        """Every node at every depth with its value in the last step; None stands for an Input."""
        for name, value in self.values.items():
            member = self.members.get(name)
            yield (*self.path, name), value, member
            if isinstance(member, _Graph):
                yield from member.walk()

    def all_delayed(self) -> Iterator[tuple[Path, Path]]:
        """The delayed edges at every depth, as paths."""
        for source, target in self.delayed:
            yield (*self.path, source), (*self.path, target)
        for member in self.members.values():
            if isinstance(member, _Graph):
                yield from member.all_delayed()


def _advance(member: Node | _Graph, x: Array) -> Array:
    """Step a node with its one input to its one output."""
    if isinstance(member, Node):
        return member.step(x)
    (output,) = member.step(dict.fromkeys(member.inputs, x)).values()
    return output


def _sum(arriving: list[Array], path: Path) -> Array:
    total = arriving[0]
    for value in arriving[1:]:
        if value.shape != total.shape:
            raise ValueError(
                f"node {path}: edges of shapes {total.shape[1:]} and {value.shape[1:]} cannot be added"
            )
        total = total + value
    return total


class _Recording:
    """Collects each step's values."""

    def __init__(self) -> None:
        self.values: dict[Path, list[Array]] = {}
        self.states: dict[Path, dict[str, list[Array]]] = {}
        self.compared: dict[Path, list[Array]] = {}
        self.thresholds: dict[Path, Array] = {}

    def add(self, network: _Graph) -> None:
        for path, value, member in network.walk():
            self.values.setdefault(path, []).append(value)
            if not isinstance(member, Node):
                continue
            for variable, content in member.state.items():
                self.states.setdefault(path, {}).setdefault(variable, []).append(content)
            if member.compared is not None and member.threshold is not None:
                self.compared.setdefault(path, []).append(member.compared)
                self.thresholds[path] = member.threshold

    def trace(self, network: _Graph) -> Trace:
        values = {path: np.stack(steps) for path, steps in self.values.items()}
        return Trace(
            outputs={name: values[(name,)] for name in network.outputs},
            values=values,
            states={
                path: {variable: np.stack(steps) for variable, steps in variables.items()}
                for path, variables in self.states.items()
            },
            before_reset={path: np.stack(steps) for path, steps in self.compared.items()},
            thresholds=self.thresholds,
            delayed=frozenset(network.all_delayed()),
        )

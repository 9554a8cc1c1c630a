"""What a comparison of frameworks found: :class:`Comparison`, the result of :func:`nirmap.compare`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from nirmap.errors import NirmapError
from nirmap.observing import Array, Path, Traces
from nirmap.report import Report

if TYPE_CHECKING:
    import nir
    from matplotlib.figure import Figure

OUTPUT = "output"
"""What a node's output is called beside its state variables ``v`` and ``i``."""

RECORDED = "recorded"


@dataclass(frozen=True)
class Difference:
    r"""The first place where a framework leaves the reference.

    Attributes:
        node: names of the nodes from the top graph down.
        variable: ``output``, or the state variable ``v`` or ``i``.
        step: the time step, counted from 0.
        time: when that step begins, in s.
        row: row of the batch.
        neuron: index of the element in the node's shape.
        value: the value in the framework.
        reference: the value in the reference.
        potential: where the node fires: what the reference compared with the threshold there; None otherwise.
        threshold: that threshold.
    """

    node: Path
    variable: str
    step: int
    time: float
    row: int
    neuron: tuple[int, ...]
    value: float
    reference: float
    potential: float | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class NodeResult:
    """One node in one framework, held against the reference.

    Attributes:
        largest: by variable (``output``, ``v``, ``i``), the largest absolute difference over all steps.
        spikes: number of spikes, over all steps and the batch; None where the node does not fire.
        unseen: state variables of the reference that the framework's module does not show.
    """

    largest: Mapping[str, float]
    spikes: int | None = None
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """One framework, held against the reference.

    Attributes:
        name: what the framework was called in the comparison.
        nodes: every node's result, by its names from the top graph down, in the order of a step.
        first: the first difference; None where there is none.
        error: why the framework cannot run the graph; None where it can. Then nothing else is known.
        traces: what every node did.
        report: how the network was made; None for a recording.
    """

    name: str
    nodes: Mapping[Path, NodeResult] = field(default_factory=dict[Path, NodeResult])
    first: Difference | None = None
    error: NirmapError | None = None
    traces: Traces | None = field(default=None, repr=False)
    report: Report | None = field(default=None, repr=False)

    @property
    def equal(self) -> bool:
        """Whether it ran, with every spike exact and every other value within the tolerance."""
        return self.error is None and self.first is None

    @property
    def spikes(self) -> int:
        """Number of spikes of all nodes that fire, over all steps and the batch."""
        return sum(node.spikes or 0 for node in self.nodes.values())

    @property
    def fallbacks(self) -> tuple[Path, ...]:
        """The nodes that the framework did not run itself, since the built-in module took their place."""
        return tuple(_fallbacks(self.report, ())) if self.report else ()

    def largest(self) -> tuple[float, Path, str] | None:
        """The largest absolute difference of a value that is no spike, its node and its variable; None without one."""
        every = [
            (difference, path, variable)
            for path, node in self.nodes.items()
            for variable, difference in node.largest.items()
            if node.spikes is None or variable != OUTPUT
        ]
        return max(every, key=_size) if every else None


def _fallbacks(report: Report, within: Path) -> Iterator[Path]:
    for name, node in report.nodes.items():
        if node.how == "fallback":
            yield (*within, name)
        if name in report.graphs:
            yield from _fallbacks(report.graphs[name], (*within, name))


def _size(entry: tuple[float, Path, str]) -> float:
    return math.inf if math.isnan(entry[0]) else entry[0]


@dataclass(frozen=True)
class Reference:
    r"""What the reference did: the graph's equations in float64.

    Attributes:
        traces: what every node did.
        order: every node in the order of a step; a sub-graph after the nodes in it.
        potentials: by node that fires, what was compared with the threshold, (T, B, \*shape).
        thresholds: by node that fires, its threshold, of shape \*shape.
        delayed: edges that carry the value of the step before.
    """

    traces: Traces
    order: tuple[Path, ...]
    potentials: Mapping[Path, Array]
    thresholds: Mapping[Path, Array]
    delayed: frozenset[tuple[Path, Path]]

    @property
    def spikes(self) -> dict[Path, int]:
        """Number of spikes of every node that fires, over all steps and the batch."""
        return {path: int(self.traces.values[path].sum()) for path in self.order if path in self.thresholds}

    def variables(self) -> Iterator[tuple[Path, str, Array]]:
        """Every node's output and state, in the order of a step."""
        for path in self.order:
            yield path, OUTPUT, self.traces.values[path]
            for variable, values in self.traces.states.get(path, {}).items():
                yield path, variable, values

    def scale(self, path: Path, values: Array) -> float:
        """What a difference is measured in: the largest magnitude of the variable, or of what its threshold meets."""
        compared = [values, *(table[path] for table in (self.potentials, self.thresholds) if path in table)]
        return max(float(np.abs(array).max(initial=0)) for array in compared)


@dataclass(frozen=True)
class Comparison:
    r"""A graph in several frameworks, step by step, held against the reference.

    Attributes:
        graph: the graph. It is not a copy.
        dt: time step in s.
        inputs: by Input node, what went in, of shape (T, B, \*shape).
        tolerance: how far a value that is no spike may be off, as a fraction of its variable's largest magnitude.
        reference: what the reference did.
        results: one for each framework, in the order in which they were asked for.
    """

    graph: nir.NIRGraph = field(repr=False)
    dt: float
    inputs: Mapping[str, Array] = field(repr=False)
    tolerance: float
    reference: Reference = field(repr=False)
    results: tuple[Result, ...]

    @property
    def steps(self) -> int:
        """Number of time steps."""
        return len(next(iter(self.inputs.values())))

    @property
    def batch(self) -> int:
        """Batch size."""
        return int(next(iter(self.inputs.values())).shape[1])

    @property
    def equal(self) -> bool:
        """Whether every framework ran and is equal to the reference."""
        return all(result.equal for result in self.results)

    def path(self, node: str | None = None) -> Path:
        """The names of a node from the top graph down.

        Args:
            node: a node's name; in a sub-graph the names from the top down with `` / `` between them, as the table
                shows them. None for the first node that fired, or else the last that has state, or else the last.

        Raises:
            NirmapError: there is no such node.
        """
        if node is None:
            return self._chosen()
        names = {node_name(path): path for path in reversed(self.reference.order)}
        if node not in names and (node,) not in self.reference.order:
            listed = ", ".join(repr(name) for name in sorted(names))
            raise NirmapError("node", f"the graph has no {node!r}", f"one of {listed}")
        return (node,) if (node,) in self.reference.order else names[node]

    def _chosen(self) -> Path:
        order, states = self.reference.order, self.reference.traces.states
        fired = [path for path in order if self.reference.spikes.get(path)]
        stateful = [path for path in order if path in states]
        return fired[0] if fired else (stateful or order)[-1]

    def with_recorded(
        self, recorded: Mapping[str, Any], node: str | None = None, name: str = RECORDED
    ) -> Comparison:
        r"""The same comparison, with a recording of one node as one result more.

        Args:
            recorded: the recording by variable: ``output``, ``v`` or ``i``, each of shape (T,), (T, \*shape) or
                (T, B, \*shape), with T, B and the shape of the node's own.
            node: the node, as in :meth:`path`.
            name: what the recording is called.

        Raises:
            NirmapError: the node has no such variable, a shape does not fit, or the name is taken.
        """
        from nirmap.comparing import hold_against

        if name in {result.name for result in self.results}:
            raise NirmapError("name", repr(name), "a name that no other result has")
        path = self.path(node)
        known = {OUTPUT: self.reference.traces.values[path], **self.reference.traces.states.get(path, {})}
        traces = Traces({}, {path: {}})
        for variable, values in recorded.items():
            if variable not in known:
                raise NirmapError(
                    f"recorded {variable!r}", f"{node_name(path)!r} has none", f"one of {', '.join(known)}"
                )
            fitted = _fitted(values, known[variable], f"recorded {variable!r}")
            if variable == OUTPUT:
                traces.values[path] = fitted
            else:
                traces.states[path][variable] = fitted
        result = hold_against(name, traces, self.reference, self.dt, self.tolerance)
        return replace(self, results=(*self.results, result))

    def draw(
        self, path: str | FilePath | None = None, *, node: str | None = None, neuron: int | None = None
    ) -> Figure:
        """Draws what a neuron received and did in every framework: input, membrane potential, difference and spikes.

        Args:
            path: the file to write; ``.png`` and ``.svg`` are known. The same comparison gives the same bytes with the
                same version of matplotlib. None writes no file.
            node: the node, as in :meth:`path`.
            neuron: index of the element, counted through the node's shape; None for the one with the most spikes.

        Raises:
            NirmapError: matplotlib is not installed, the suffix is another one, or there is no such node or neuron.
        """
        from nirmap.figures import draw, save

        figure = draw(self, self.path(node), neuron)
        if path is not None:
            save(figure, FilePath(path))
        return figure

    def summary(self) -> dict[str, Any]:
        """All but the traces, as numbers, texts, lists and dictionaries, for JSON.

        A number that is not finite is a text, since JSON has none.
        """
        spikes = self.reference.spikes
        return {
            "dt": self.dt,
            "steps": self.steps,
            "batch": self.batch,
            "tolerance": self.tolerance,
            "equal": self.equal,
            "reference": {
                "spikes": sum(spikes.values()),
                "nodes": [{"node": list(path), "spikes": spikes.get(path)} for path in self.reference.order],
            },
            "frameworks": [_summary(result) for result in self.results],
        }


def node_name(path: Path) -> str:
    """A node's names from the top graph down, as one text."""
    return " / ".join(path)


def _fitted(values: Any, like: Array, where: str) -> Array:
    """A recording in the shape (T, B, *shape) of what it is held against."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1:
        array = array.reshape(-1, *[1] * (like.ndim - 1))
    elif array.ndim == like.ndim - 1:
        array = array[:, np.newaxis]
    if len(array) == len(like):
        with contextlib.suppress(ValueError):
            return np.array(np.broadcast_to(array, like.shape))
    raise NirmapError(where, f"shape {np.shape(values)}", f"one value for each of {like.shape}")


def _summary(result: Result) -> dict[str, Any]:
    error, first = result.error, result.first
    return {
        "framework": result.name,
        "equal": result.equal,
        "spikes": None if error else result.spikes,
        "fallbacks": [list(path) for path in result.fallbacks],
        "first_difference": None if first is None else _first(first),
        "error": error
        and {"where": error.where, "found": error.found, "expected": error.expected, "do": error.do},
        "nodes": [
            {
                "node": list(path),
                "spikes": node.spikes,
                "largest_difference": {key: _number(value) for key, value in node.largest.items()},
                "unseen": list(node.unseen),
            }
            for path, node in result.nodes.items()
        ],
    }


def _first(first: Difference) -> dict[str, Any]:
    return {
        "node": list(first.node),
        "variable": first.variable,
        "step": first.step,
        "time": first.time,
        "batch": first.row,
        "neuron": list(first.neuron),
        "value": _number(first.value),
        "reference": _number(first.reference),
        "potential": _number(first.potential),
        "threshold": _number(first.threshold),
    }


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)

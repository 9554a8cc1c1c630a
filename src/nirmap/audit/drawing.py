"""What is drawn for each primitive: first the general case, then the corners and what frameworks ask for.

A row that asks for ``v_reset == v_leak`` is executed by the draws that have it, and a corner (a time constant below the
time step, a resistance of 0) shows whether a condition is one. The numbers come from seeded generators, so that every
audit draws the same ones; where a potential comes within rounding of its threshold, others are drawn.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import nir
import numpy as np

from nirmap.audit.sketches import DT, SPATIAL, Array, Maker, Random, Sketch, Values
from nirmap.oracle.interpreter import Trace, margin, simulate
from nirmap.resets import RESET_KEY, Reset
from nirmap_registry.catalogue import PRIMITIVES

STEPS = 24
BATCH = 2
NEURONS = (4,)
IMAGE = (2, 3, 2)
MARGIN = 1e-4
"""How near a potential may come to its threshold, as a part of its largest magnitude."""

INPUT, NODE, OUTPUT = "input", "node", "output"

# Between these numbers, times in time steps. An input between 0 and 2 then makes every neuron fire, and not always.
_RANGES = {
    "tau": (4.0, 10.0),
    "tau_syn": (3.0, 8.0),
    "tau_mem": (4.0, 10.0),
    "r": (1.5, 2.5),
    "v_leak": (0.05, 0.3),
    "v_threshold": (0.5, 0.8),
    "v_reset": (-0.3, 0.2),
    "w_in": (1.2, 2.0),
    "threshold": (0.5, 1.5),
    "scale": (0.5, 1.5),
}
_TIMES = ("tau", "tau_syn", "tau_mem")


@dataclass(frozen=True)
class Draw:
    """A graph with its input, and what the oracle makes of it.

    Attributes:
        name: what is particular to it.
        graph: the graph, with one Input and one Output.
        inputs: (T, B, *shape), numbers of float32 in float64.
        dt: time step in s.
        trace: the oracle's.
        ties: whether potentials are meant to meet thresholds; else none comes near.
    """

    name: str
    graph: nir.NIRGraph
    inputs: Array
    dt: float
    trace: Trace
    ties: bool = False


# Rows of the audit for primitives that are reset by subtraction, and those primitives.
SUBTRACTING: Mapping[str, str] = {
    f"{name} (subtract)": name for name, primitive in PRIMITIVES.items() if primitive.subtracts
}


def subject(row: str) -> tuple[str, Reset]:
    """The primitive that a row is about, and what a spike does to it."""
    return (SUBTRACTING[row], "subtract") if row in SUBTRACTING else (row, "value")


def draws(row: str) -> list[Draw]:
    """The draws of a primitive, the general one first.

    Args:
        row: name of a primitive, or of its row in ``SUBTRACTING``; the nodes' metadata then state the reset.

    Raises:
        LookupError: nothing is known of how to draw the primitive.
    """
    primitive, reset = subject(row)
    return [settled(row, name, partial(_graph, reset, maker)) for name, maker in _makers(primitive)]


def settled(row: str, name: str, make: Callable[[Random], tuple[nir.NIRGraph, Array, float, bool]]) -> Draw:
    """A draw whose spikes do not hang on rounding; one with whole numbers is meant to meet its thresholds.

    Args:
        row: name of the row.
        name: name of the draw.
        make: makes graph, inputs, time step, and whether potentials may meet thresholds.

    Raises:
        LookupError: a hundred draws came within rounding of a threshold.
    """
    for attempt in range(100):
        random = np.random.default_rng([zlib.crc32(f"{row}: {name}".encode()), attempt])
        graph, inputs, dt, ties = make(random)
        trace = simulate(graph, inputs, dt)
        if ties or margin(trace) > MARGIN:
            output = nir.Output({"output": np.array(trace.outputs[OUTPUT].shape[2:])})
            complete = nir.NIRGraph({**graph.nodes, OUTPUT: output}, list(graph.edges), type_check=False)
            return Draw(name, complete, inputs, dt, trace, ties)
    raise LookupError(f"{row}: {name}: every draw comes within rounding of a threshold")


def inputs_of(
    random: Random,
    shape: tuple[int, ...],
    whole_numbers: bool = False,
    typical: tuple[float, float] = (0.0, 2.0),
) -> Array:
    """An input (T, B, *shape), between 0 and 2 if nothing else is said."""
    size = (STEPS, BATCH, *shape)
    if whole_numbers:
        return random.integers(0, 3, size).astype(np.float64)
    return random.uniform(*typical, size).astype(np.float32).astype(np.float64)


def _graph(reset: Reset, maker: Maker, random: Random) -> tuple[nir.NIRGraph, Array, float, bool]:
    sketch = maker(random)
    if reset != "value":
        sketch.node.metadata[RESET_KEY] = reset
    nodes = {
        INPUT: nir.Input({"input": np.array(sketch.shape)}),
        NODE: sketch.node,
        OUTPUT: nir.Output({"output": np.array(sketch.shape)}),
    }
    graph = nir.NIRGraph(nodes, [(INPUT, NODE), (NODE, OUTPUT)], type_check=False)
    inputs = inputs_of(random, sketch.shape, sketch.whole_numbers, sketch.typical_input)
    return graph, inputs, sketch.dt, sketch.whole_numbers


def _makers(primitive: str) -> Iterator[tuple[str, Maker]]:
    kind = PRIMITIVES[primitive].shape
    if kind == "elementwise":
        yield from _elementwise(primitive)
    elif primitive in SPATIAL:
        yield from SPATIAL[primitive]()
    else:
        raise LookupError(f"{primitive}: nothing is known of how to draw it; add it to {__name__}")


def layers(primitive: str) -> list[tuple[str, Maker]]:
    """The draws of an elementwise primitive that are a layer of neurons, whose potentials meet no threshold."""
    sketches = ((name, maker, maker(np.random.default_rng(0))) for name, maker in _makers(primitive))
    return [
        (name, maker)
        for name, maker, sketch in sketches
        if sketch.shape == NEURONS and not sketch.whole_numbers
    ]


def neuron(primitive: str, random: Random, shape: tuple[int, ...] = NEURONS, dt: float = DT) -> Values:
    """Parameters of an elementwise primitive, each neuron with its own."""
    values: Values = {}
    if PRIMITIVES[primitive].typical_input is not None:
        return {
            parameter.name: (parameter.default or 0.0) * random.uniform(0.9, 1.1, shape)
            for parameter in PRIMITIVES[primitive].declared
        }
    for parameter in PRIMITIVES[primitive].declared:
        if parameter.whole_steps:
            values[parameter.name] = dt * random.permutation(int(np.prod(shape))).reshape(shape)
            continue
        drawn = random.uniform(*_RANGES.get(parameter.name, (0.5, 1.5)), shape)
        values[parameter.name] = dt * drawn if parameter.name in _TIMES else drawn
    if "r" in values and not any(name in values for name in _TIMES):
        values["r"] = values["r"] / (10 * dt)  # an integrator without leak
    return values


def _elementwise(primitive: str) -> Iterator[tuple[str, Maker]]:
    names = {parameter.name for parameter in PRIMITIVES[primitive].declared}

    def maker(*changes: Callable[[Values], Values], shape: tuple[int, ...] = NEURONS) -> Maker:
        def make(random: Random) -> Sketch:
            values = neuron(primitive, random, shape)
            for change in changes:
                values = change(values)
            kind: Any = PRIMITIVES[primitive].node
            typical = PRIMITIVES[primitive].typical_input or (0.0, 2.0)
            return Sketch(kind(**values), shape, typical_input=typical)

        return make

    yield "each neuron with its own parameters", maker()
    yield "on an image", maker(shape=IMAGE)
    yield "equal neurons", maker(equal)
    if PRIMITIVES[primitive].typical_input is not None:
        return
    if {"v_reset", "v_leak"} <= names:
        yield "v_reset = v_leak", maker(reset_at_leak)
        yield "v_reset = v_leak, equal neurons", maker(reset_at_leak, equal)
        yield (
            "a neuron with r = 0 that is reset elsewhere",
            maker(partial(_changed, _CORNERS["a neuron with r = 0"])),
        )
    if names & {"v_reset", "v_leak"}:
        yield "v_leak = v_reset = 0", maker(at_zero)
        yield "v_leak = v_reset = 0, equal neurons", maker(at_zero, equal)
    if "r" in names:
        yield "input unscaled, v_leak = v_reset = 0, equal neurons", maker(at_zero, equal, unscaled)
    for name, change in _CORNERS.items():
        if change(neuron(primitive, np.random.default_rng(0))) is not None:
            yield name, maker(reset_at_leak, partial(_changed, change))
    if primitive in ("IF", "Threshold"):
        yield "potentials that meet the threshold", lambda random: _tie(primitive)


def _changed(change: Callable[[Values], Values | None], values: Values) -> Values:
    return change(values) or values


def equal(values: Mapping[str, Any]) -> Values:
    """All neurons like the first."""
    return {name: np.full_like(value, value.flat[0]) for name, value in values.items()}


def reset_at_leak(values: Mapping[str, Any]) -> Values:
    """The neuron is reset to its resting potential, where it has one."""
    both = {"v_reset", "v_leak"} <= values.keys()
    return {**values, "v_reset": values["v_leak"]} if both else dict(values)


def at_zero(values: Mapping[str, Any]) -> Values:
    """Resting potential and reset at 0."""
    zero = {name: np.zeros_like(values[name]) for name in ("v_leak", "v_reset") if name in values}
    return {**values, **zero}


def unscaled(values: Mapping[str, Any]) -> Values:
    """The input is added to the potential as it is: no framework has to scale it."""
    if "tau_mem" in values:
        return {
            **values,
            "r": values["tau_mem"] / DT,
            "w_in": values["tau_syn"] / DT,
            **({"v_threshold": 8 * values["v_threshold"]} if "v_threshold" in values else {}),
        }
    threshold = {"v_threshold": 4 * values["v_threshold"]} if "v_threshold" in values else {}
    return {
        **values,
        "r": values["tau"] / DT if "tau" in values else np.full_like(values["r"], 1 / DT),
    } | threshold


def _first(name: str, value: Callable[[Values], Any]) -> Callable[[Values], Values | None]:
    """Changes one parameter of the first neuron; None for a primitive that does not have it."""

    def change(values: Values) -> Values | None:
        if name not in values:
            return None
        changed = np.array(values[name])
        changed.flat[0] = value(values)
        return {**values, name: changed}

    return change


def _times(factor: float) -> Callable[[Values], Values | None]:
    def change(values: Values) -> Values | None:
        times = {name: np.full_like(values[name], factor * DT) for name in _TIMES if name in values}
        return {**values, **times} if times else None

    return change


def _delays(change: Callable[[Array], Array]) -> Callable[[Values], Values | None]:
    return lambda values: {"delay": change(values["delay"])} if "delay" in values else None


# One thing that a module may not be able to do, in a neuron that is reset to its resting potential.
_CORNERS: Mapping[str, Callable[[Values], Values | None]] = {
    "time constants below dt": _times(0.75),
    "time constants of dt": _times(1.0),
    "a neuron with r = 0": _first("r", lambda values: 0.0),
    "a neuron with r < 0": _first("r", lambda values: -values["r"].flat[0]),
    "a neuron with w_in < 0": _first("w_in", lambda values: -values["w_in"].flat[0]),
    "a neuron with v_threshold < 0": _first("v_threshold", lambda values: -0.1),
    "a neuron with v_threshold < v_reset": _first(
        "v_threshold", lambda values: float(values["v_reset"].flat[0]) - 0.02
    ),
    "a threshold < 0": _first("threshold", lambda values: -0.2),
    "a factor of 0": _first("scale", lambda values: 0.0),
    "a factor < 0": _first("scale", lambda values: -0.5),
    "a delay of 0": _delays(np.zeros_like),
}


def _tie(primitive: str) -> Sketch:
    """Whole numbers, exact in every dtype, whose sums meet the threshold: NIR fires above it, not on it."""
    dt = 2.0**-10
    three = np.full(NEURONS, 3.0)
    if primitive == "Threshold":
        return Sketch(nir.Threshold(three / 3), NEURONS, dt, whole_numbers=True)
    node = nir.IF(np.full(NEURONS, 1 / dt), three, v_reset=np.zeros(NEURONS))
    return Sketch(node, NEURONS, dt, whole_numbers=True)

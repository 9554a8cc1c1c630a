"""Rows beyond the primitives: small networks that frameworks have modules for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import nir
import numpy as np

from nirmap.audit.drawing import (
    INPUT,
    NEURONS,
    NODE,
    OUTPUT,
    Draw,
    at_zero,
    equal,
    inputs_of,
    neuron,
    reset_at_leak,
    settled,
)
from nirmap.audit.sketches import DT, Array, Random, Values, weights

BACK = "back"
FRONT = "front"
# Neuron and the layer from its spikes back to it.
_RECURRENT = {
    "LIF <-> Linear": ("LIF", "Linear"),
    "LIF <-> Affine": ("LIF", "Affine"),
    "CubaLIF <-> Linear": ("CubaLIF", "Linear"),
    "CubaLIF <-> Affine": ("CubaLIF", "Affine"),
}
# A potential from which the threshold is subtracted where it was passed, which no single node of NIR does. The edge to
# the Threshold is the one that is delayed, so a spike leaves a step later than from a module that subtracts by itself.
_SOFT_RESET = "LI -> Threshold -> Scale -> LI (soft reset)"
NETWORKS: tuple[str, ...] = (*_RECURRENT, _SOFT_RESET)


def network_draws(row: str) -> list[Draw]:
    """The draws of a network, the general one first."""
    if row == _SOFT_RESET:
        return [
            settled(row, name, partial(_soft_reset, change))
            for name, change in (
                ("each neuron with its own parameters", at_zero),
                ("equal neurons", _all_equal),
            )
        ]
    kind, layer = _RECURRENT[row]
    return [
        settled(row, name, partial(_recurrent, kind, layer, change, has_front))
        for name, change, has_front in _variants()
    ]


def _variants() -> Iterator[tuple[str, Callable[[Values], Values], bool]]:
    yield "each neuron with its own parameters", dict, False
    yield "behind an Affine", dict, True
    yield "v_reset = v_leak", reset_at_leak, False
    yield "v_reset = v_leak, equal neurons", lambda values: equal(reset_at_leak(values)), False
    yield "v_leak = v_reset = 0, equal neurons", lambda values: equal(at_zero(values)), False


def _all_equal(values: Values) -> Values:
    return equal(at_zero(values))


def _soft_reset(
    change: Callable[[Values], Values], random: Random
) -> tuple[nir.NIRGraph, Array, float, bool]:
    values = change(neuron("LI", random) | neuron("Threshold", random))
    threshold = values.pop("threshold")
    # v[n] = a (v[n-1] - threshold z[n]) + input: what is fed back is added to the input, after the leak.
    factor = -(1 - DT / values["tau"]) * threshold / (values["r"] * DT / values["tau"])
    nodes: dict[str, nir.NIRNode] = {
        INPUT: nir.Input({"input": np.array(NEURONS)}),
        NODE: nir.LI(**values),
        FRONT: nir.Threshold(threshold),
        BACK: nir.Scale(factor),
        OUTPUT: nir.Output({"output": np.array(NEURONS)}),
    }
    edges = [(INPUT, NODE), (NODE, FRONT), (FRONT, BACK), (BACK, NODE), (FRONT, OUTPUT)]
    return nir.NIRGraph(nodes, edges, type_check=False), inputs_of(random, NEURONS), DT, False


def _layer(kind: str, random: Random) -> nir.NIRNode:
    weight = 0.3 * (weights(random, NEURONS * 2) - 0.2)
    return nir.Linear(weight) if kind == "Linear" else nir.Affine(weight, random.uniform(-0.1, 0.2, NEURONS))


def _recurrent(
    kind: str, layer: str, change: Callable[[Values], Values], has_front: bool, random: Random
) -> tuple[nir.NIRGraph, Array, float, bool]:
    nodes: dict[str, nir.NIRNode] = {
        INPUT: nir.Input({"input": np.array(NEURONS)}),
        NODE: getattr(nir, kind)(**change(neuron(kind, random))),
        BACK: _layer(layer, random),
        OUTPUT: nir.Output({"output": np.array(NEURONS)}),
    }
    edges = [(NODE, BACK), (BACK, NODE), (NODE, OUTPUT)]
    if has_front:
        nodes[FRONT] = nir.Affine(weights(random, NEURONS * 2), random.uniform(0.0, 0.2, NEURONS))
        edges += [(INPUT, FRONT), (FRONT, NODE)]
    else:
        edges.append((INPUT, NODE))
    return nir.NIRGraph(nodes, edges, type_check=False), inputs_of(random, NEURONS), DT, False

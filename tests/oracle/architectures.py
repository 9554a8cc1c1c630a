"""Networks with the architectures of the NIR paper's graphs and weights of their own, which fire in every layer.

The time constants of `single_lif`, `two_lif_neurons` and `braille_recurrent` suit a time step of 1e-4 s; `cnn` counts
time in steps. `time_step` tells them apart.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import nir
import numpy as np
import numpy.typing as npt

from oracle.building import chain, input_node, output_node

Array = npt.NDArray[Any]


def single_lif(seed: int = 0) -> nir.NIRGraph:
    """One input through an Affine (1 x 1) to one LIF neuron, in float32."""
    random = np.random.default_rng(seed)
    weight = random.uniform(0.9, 1.1, (1, 1)).astype(np.float32)
    lif = nir.LIF(**_constant(1, np.float32, tau=0.0025, r=1.0, v_leak=0.0, v_threshold=0.1, v_reset=0.0))
    layers: list[nir.NIRNode] = [nir.Affine(weight, np.zeros(1, np.float32)), lif]
    return chain(layers, (1,), (1,), type_check=True)


def two_lif_neurons(seed: int = 0, *, second_threshold: float = 0.005) -> nir.NIRGraph:
    """Two LIF neurons in a row, a Linear (1 x 1) before each; the first is driven by its leak, too."""
    random = np.random.default_rng(seed)
    shared = {"tau": 0.01, "r": 1.0, "v_reset": 0.0}
    first = nir.LIF(**_constant(1, np.float64, v_leak=1.2, v_threshold=1.0, **shared))
    second = nir.LIF(**_constant(1, np.float64, v_leak=0.0, v_threshold=second_threshold, **shared))
    weight = [random.uniform(0.9, 1.1, (1, 1)) for _ in range(2)]
    layers: list[nir.NIRNode] = [nir.Linear(weight[0]), first, nir.Linear(weight[1]), second]
    return chain(
        layers, (1,), (1,), names=["in", "linear1", "lif1", "linear2", "lif2", "out"], type_check=True
    )


def cnn(seed: int = 0) -> nir.NIRGraph:
    """Three convolutions on 2 x 34 x 34 with IF neurons and sum pools, two dense IF layers, 10 outputs; dt = 1."""
    random = np.random.default_rng(seed)
    layers: list[nir.NIRNode] = [
        _convolution(random, (16, 2, 5, 5), (34, 34), 2, 0.5),
        _integrate_and_fire((16, 16, 16)),
        _convolution(random, (16, 16, 3, 3), (16, 16), 1, 0.3),
        _integrate_and_fire((16, 16, 16)),
        nir.SumPool2d(*(np.array([size, size]) for size in (2, 2, 0))),
        _convolution(random, (8, 16, 3, 3), (8, 8), 1, 1.2),
        _integrate_and_fire((8, 8, 8)),
        nir.SumPool2d(*(np.array([size, size]) for size in (2, 2, 0))),
        nir.Flatten({"input": np.array([8, 4, 4])}, 0, -1),
        nir.Affine(_weight(random, (256, 128), 1.2), np.zeros(256, np.float32)),
        _integrate_and_fire((256,)),
        nir.Affine(_weight(random, (10, 256), 0.3), np.zeros(10, np.float32)),
        _integrate_and_fire((10,)),
    ]
    return chain(layers, (2, 34, 34), (10,), type_check=True)


def braille_recurrent(seed: int = 0, *, bias: bool = True) -> nir.NIRGraph:
    """12 inputs, 38 (40 without bias) CubaLIF neurons with all-to-all feedback, 7 CubaLIF neurons.

    Args:
        seed: of the weights.
        bias: whether the weights, those of the feedback too, are Affine (else Linear).
    """
    random = np.random.default_rng(seed)
    hidden = 38 if bias else 40

    def dense(rows: int, columns: int, level: float, spread: float = 0.5) -> nir.NIRNode:
        weight = _weight(random, (rows, columns), level, spread)
        return (
            nir.Affine(weight, random.uniform(-0.01, 0.02, rows).astype(np.float32))
            if bias
            else nir.Linear(weight)
        )

    fixed = {"v_leak": 0.0, "v_threshold": 1.0, "v_reset": 0.0}
    first = {"tau_syn": 2.2e-4, "tau_mem": 1e-3, "r": 10.0, "w_in": 2.2} | fixed
    second = {"tau_syn": 2e-4, "tau_mem": 2.2e-4, "r": 2.2, "w_in": 2.0} | fixed
    nodes: dict[str, nir.NIRNode] = {
        "input": input_node(12),
        "fc1": dense(hidden, 12, 3.0),
        "lif1.lif": nir.CubaLIF(**_constant(hidden, np.float64, **first)),
        "lif1.w_rec": dense(hidden, hidden, 10.0, 2.0),
        "fc2": dense(7, hidden, 0.15),
        "lif2": nir.CubaLIF(**_constant(7, np.float64, **second)),
        "output": output_node(7),
    }
    order = ["input", "fc1", "lif1.lif", "fc2", "lif2", "output"]
    edges = [*pairwise(order), ("lif1.lif", "lif1.w_rec"), ("lif1.w_rec", "lif1.lif")]
    return nir.NIRGraph(nodes, edges)


def time_step(graph: nir.NIRGraph) -> float:
    """The time step that one of these architectures, or its model in the paper, is meant for."""
    return 1.0 if any(isinstance(node, nir.Conv2d) for node in graph.nodes.values()) else 1e-4


def strong_input(graph: nir.NIRGraph, steps: int, batch: int, seed: int = 0) -> dict[str, Array]:
    """Spike trains of rate 1/2 and height 1 per Input node, (T, B, *shape), under which every layer fires."""
    random = np.random.default_rng(seed)
    streams: dict[str, Array] = {}
    for name, node in sorted(graph.nodes.items()):
        if isinstance(node, nir.Input):
            shape = (steps, batch, *(int(size) for size in node.input_type["input"]))
            streams[name] = (random.random(shape) < 0.5).astype(np.float64)
    return streams


def _constant(size: int, dtype: type[np.floating[Any]], **values: float) -> dict[str, Any]:
    """Parameters that are equal for all neurons."""
    return {name: np.full(size, value, dtype=dtype) for name, value in values.items()}


def _integrate_and_fire(shape: tuple[int, ...]) -> nir.NIRNode:
    ones = np.ones(shape, np.float32)
    return nir.IF(r=ones, v_threshold=ones.copy(), v_reset=np.zeros(shape, np.float32))


def _weight(random: np.random.Generator, shape: tuple[int, ...], level: float, spread: float = 0.5) -> Array:
    """Rows that sum to about ``0.4 / level``, each weight within ``spread`` times its mean row about that mean."""
    fan_in = int(np.prod(shape[1:]))
    mean = 0.4 / (level * fan_in)
    return random.uniform(mean * (1 - 3 * spread), mean * (1 + 3 * spread), shape).astype(np.float32)


def _convolution(
    random: np.random.Generator, shape: tuple[int, ...], space: tuple[int, int], stride: int, level: float
) -> nir.NIRNode:
    """A convolution with padding 1, its weights scaled for inputs of size ``level``."""
    bias = np.zeros(shape[0], np.float32)
    return nir.Conv2d(space, _weight(random, shape, level), (stride, stride), (1, 1), (1, 1), 1, bias)

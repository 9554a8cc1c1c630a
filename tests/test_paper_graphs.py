"""The graphs of the NIR paper, as other people's programs wrote them, in every framework.

If these fail, a network that somebody published does not load, or gives other spikes than it should.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.oracle.interpreter import Trace, margin, simulate
from nirmap_registry import FRAMEWORKS
from oracle import architectures
from watching import (
    CANNOT_SPIKE,
    MARGIN,
    Streams,
    assert_fires,
    assert_same_spikes,
    fallback_of,
    layer_spikes,
    run,
    spiking_nodes,
)

BATCH = 2
LEAST_SPIKES = 20


@dataclass(frozen=True)
class Case:
    """One file of the paper.

    Attributes:
        file: its name.
        layers: how many of its nodes fire.
        dt: its time step; `cnn_sinabs.nir` counts time in steps.
        steps: how many of them it takes for every layer to fire often.
        second_threshold: what the threshold of `lif2` is set to; 20, as in the file, is out of reach.
    """

    file: str
    layers: int
    dt: float = 1e-4
    steps: int = 500
    second_threshold: float | None = None


CASES = {
    "lif_norse": Case("lif_norse.nir", 1),
    "two_lif_neurons": Case("two_lif_neurons.nir", 2, steps=2000),
    "two_lif_neurons, both fire": Case("two_lif_neurons.nir", 2, steps=2000, second_threshold=0.005),
    "cnn_sinabs": Case("cnn_sinabs.nir", 5, dt=1.0, steps=40),
    "braille with bias": Case("braille/braille_noDelay_bias_zero.nir", 2),
    "braille without bias": Case("braille/braille_noDelay_noBias_subtract.nir", 2),
}
# The first neuron in each file, which rockpool refuses.
FIRST = {
    "lif_norse": ("1", "LIF"),
    "two_lif_neurons": ("lif1", "LIF"),
    "two_lif_neurons, both fire": ("lif1", "LIF"),
    "cnn_sinabs": ("1", "IF"),
    "braille with bias": ("lif1.lif", "CubaLIF"),
    "braille without bias": ("lif1.lif", "CubaLIF"),
}


def read(folder: Path, case: Case) -> nir.NIRGraph:
    """The graph, read by nir itself."""
    graph: nir.NIRGraph = nir.read(folder / case.file)
    second = graph.nodes.get("lif2")
    if case.second_threshold is not None and isinstance(second, nir.LIF):
        second.v_threshold = np.full_like(second.v_threshold, case.second_threshold)
    return graph


@functools.cache
def simulated(folder: Path, name: str) -> tuple[nir.NIRGraph, Streams, Trace]:
    """The graph, its inputs, and what the oracle makes of them."""
    graph = read(folder, CASES[name])
    inputs = architectures.strong_input(graph, CASES[name].steps, BATCH)
    return graph, inputs, simulate(graph, inputs, CASES[name].dt)


@pytest.mark.parametrize("name", CASES)
def test_every_layer_fires(name: str, nir_paper: Path) -> None:
    graph, _, trace = simulated(nir_paper, name)
    counts = trace.spike_counts()
    assert len(counts) == len(spiking_nodes(graph)) == CASES[name].layers
    if name == "two_lif_neurons":
        assert counts.pop(("lif2",)) == 0
        assert counts[("lif1",)] >= LEAST_SPIKES
    else:
        assert_fires(trace, LEAST_SPIKES)
    assert margin(trace) > MARGIN


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", CASES)
def test_every_layer_gives_the_oracles_spikes(name: str, framework: str, nir_paper: Path) -> None:
    graph, inputs, trace = simulated(nir_paper, name)
    assert_same_spikes(layer_spikes(graph, inputs, framework, CASES[name].dt), trace)


@pytest.mark.parametrize("framework", sorted(CANNOT_SPIKE))
@pytest.mark.parametrize("name", CASES)
def test_a_framework_that_cannot_reset_to_a_value_says_so(name: str, framework: str, nir_paper: Path) -> None:
    graph, _, _ = simulated(nir_paper, name)
    with pytest.raises(nirmap.UnsupportedNodeError) as refused:
        nirmap.from_nir(graph, framework, dt=CASES[name].dt)
    node, kind = FIRST[name]
    assert (refused.value.where, refused.value.found) == (f"node {node!r}", f"a nir.{kind}")
    assert "cannot be reset to a value" in refused.value.expected
    assert "fallback='torch'" in refused.value.do


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", [name for name in CASES if "both" not in name])
def test_the_file_as_it_is_gives_the_oracles_output(name: str, framework: str, nir_paper: Path) -> None:
    """Without the Outputs that the test above adds, and read by nirmap itself."""
    _, inputs, trace = simulated(nir_paper, name)
    path, dt = nir_paper / CASES[name].file, CASES[name].dt
    net = nirmap.from_nir(path, framework, dt=dt, dtype=torch.float64, fallback=fallback_of(framework))
    outputs, _ = run(net, inputs)
    assert outputs.keys() == trace.outputs.keys()
    for output, expected in trace.outputs.items():
        np.testing.assert_array_equal(outputs[output], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_recorded_trace_is_reproduced(framework: str, dtype: torch.dtype, nir_paper: Path) -> None:
    """Columns: input, membrane potential, spike, as norse 1.0 gave them for this graph."""
    recorded = np.loadtxt(nir_paper / "lif_norse.csv", delimiter=",")
    assert recorded.shape == (1000, 3)
    assert recorded[:, 2].sum() == 4
    fallback = fallback_of(framework)
    net = nirmap.from_nir(nir_paper / "lif_norse.nir", framework, dt=1e-4, dtype=dtype, fallback=fallback)
    state = None
    spikes: list[float] = []
    potentials: list[float] = []
    for value in recorded[:, 0]:
        spike, state = net(torch.tensor([[value]], dtype=dtype), state)
        spikes.append(spike.item())
        potentials.append(state["1"]["v"].item())
    np.testing.assert_array_equal(spikes, recorded[:, 2])
    np.testing.assert_allclose(potentials, recorded[:, 1], rtol=0, atol=1e-4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_malformed_file_is_refused_with_its_edge(framework: str, nir_paper: Path) -> None:
    """An edge of the sub-graph names 'lif', and the node is called 'lif1'; nir itself cannot read the file either."""
    file = nir_paper / "braille" / "braille_noDelay_bias_zero_subgraph.nir"
    with pytest.raises(nirmap.GraphError) as refused:
        nirmap.from_nir(file, framework)
    assert "'lif1' / edge 'input' -> 'lif'" in refused.value.where
    assert "'lif', which is not a node" in refused.value.found
    assert "'lif1'" in refused.value.expected

"""Networks with the architectures of the NIR paper, rebuilt in every framework, against the oracle.

If these fail, a spiking CNN or a recurrent classifier gives other spikes in one framework than in another. The weights
are the project's own, so that these tests always run; `test_paper_graphs.py` has the paper's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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
    MARGIN,
    Streams,
    assert_fires,
    assert_same_spikes,
    fallback_of,
    layer_spikes,
    run,
    spiking_nodes,
)

ARCHITECTURES: dict[str, Callable[[], nir.NIRGraph]] = {
    "single_lif": architectures.single_lif,
    "two_lif_neurons": architectures.two_lif_neurons,
    "cnn": architectures.cnn,
    "braille_recurrent": architectures.braille_recurrent,
    "braille_recurrent without bias": lambda: architectures.braille_recurrent(bias=False),
}
# How many steps it takes for every layer to fire often.
STEPS = dict.fromkeys(ARCHITECTURES, 300) | {"two_lif_neurons": 2000, "cnn": 40}
BATCH = 2
LEAST_SPIKES = 20


@functools.cache
def simulated(name: str) -> tuple[nir.NIRGraph, Streams, Trace]:
    """The graph, its inputs, and what the oracle makes of them."""
    graph = ARCHITECTURES[name]()
    inputs = architectures.strong_input(graph, STEPS[name], BATCH)
    return graph, inputs, simulate(graph, inputs, architectures.time_step(graph))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_layer_fires(name: str) -> None:
    graph, _, trace = simulated(name)
    assert len(trace.spike_counts()) == len(spiking_nodes(graph)) > 0
    assert_fires(trace, LEAST_SPIKES)
    assert margin(trace) > MARGIN


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_layer_gives_the_oracles_spikes(name: str, framework: str) -> None:
    graph, inputs, trace = simulated(name)
    dt = architectures.time_step(graph)
    assert_same_spikes(layer_spikes(graph, inputs, framework, dt), trace)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_network_written_by_one_framework_is_the_same_in_torch(
    name: str, framework: str, tmp_path: Path
) -> None:
    """From the framework to a file, and from the file to the reference modules: as people exchange networks."""
    graph, inputs, trace = simulated(name)
    dt = architectures.time_step(graph)
    net = nirmap.from_nir(graph, framework, dt=dt, dtype=torch.float64, fallback=fallback_of(framework))
    nirmap.to_nir(net, path=tmp_path / "net.nir")
    outputs, _ = run(nirmap.from_nir(tmp_path / "net.nir", dt=dt, dtype=torch.float64), inputs)
    for output, expected in trace.outputs.items():
        np.testing.assert_array_equal(outputs[output], expected)

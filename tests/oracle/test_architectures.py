"""The builders against the files whose architecture they have, and their spikes: silence proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nir
import numpy as np
import pytest

from nirmap.oracle.interpreter import simulate
from oracle.architectures import braille_recurrent, cnn, single_lif, strong_input, time_step, two_lif_neurons

NIR_PAPER = Path(__file__).parents[3] / "shared" / "nir_paper"


def braille_without_bias(seed: int = 0) -> nir.NIRGraph:
    return braille_recurrent(seed, bias=False)


BUILDERS: dict[str, tuple[Callable[[int], nir.NIRGraph], str, int]] = {
    "single_lif": (single_lif, "lif_norse.nir", 200),
    "two_lif_neurons": (two_lif_neurons, "two_lif_neurons.nir", 400),
    "cnn": (cnn, "cnn_sinabs.nir", 20),
    "braille": (braille_recurrent, "braille/braille_noDelay_bias_zero.nir", 60),
    "braille_without_bias": (braille_without_bias, "braille/braille_noDelay_noBias_subtract.nir", 60),
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("build", "file", "steps"), BUILDERS.values(), ids=BUILDERS)
def test_every_spiking_layer_fires_and_none_all_the_time(
    build: Callable[[int], nir.NIRGraph], file: str, steps: int, seed: int
) -> None:
    graph = build(seed)
    trace = simulate(graph, strong_input(graph, steps, 2, seed), time_step(graph))
    counts = trace.spike_counts()
    spiking = [name for name, node in graph.nodes.items() if isinstance(node, (nir.IF, nir.LIF, nir.CubaLIF))]
    assert set(counts) == {(name,) for name in spiking}
    for path, count in counts.items():
        assert 5 <= count <= 0.7 * trace.values[path].size, (path, count)


def test_the_recurrent_layer_is_fed_back_from_its_spikes() -> None:
    graph = braille_recurrent()
    inputs = strong_input(graph, 60, 2)
    trace = simulate(graph, inputs, time_step(graph))
    assert trace.delayed == {(("lif1.lif",), ("lif1.w_rec",))}
    graph.nodes["lif1.w_rec"] = nir.Linear(np.zeros((38, 38), np.float32))
    without = simulate(graph, inputs, time_step(graph))
    assert (trace.values[("lif1.lif",)] != without.values[("lif1.lif",)]).any()


@pytest.mark.skipif(not NIR_PAPER.is_dir(), reason="the NIR paper's graphs are not beside this checkout")
@pytest.mark.parametrize(("build", "file", "steps"), BUILDERS.values(), ids=BUILDERS)
def test_nodes_edges_and_shapes_are_those_of_the_paper(
    build: Callable[[int], nir.NIRGraph], file: str, steps: int
) -> None:
    def outline(graph: nir.NIRGraph) -> dict[str, tuple[str, list[int], list[int]]]:
        return {
            name: (type(node).__name__, [*node.input_type["input"]], [*node.output_type["output"]])
            for name, node in graph.nodes.items()
        }

    built, read = build(0), nir.read(NIR_PAPER / file)
    assert outline(built) == outline(read)
    assert sorted(built.edges) == sorted(read.edges)
    counts = simulate(built, strong_input(built, steps, 1), time_step(built)).spike_counts()
    assert set(counts) == set(simulate(read, strong_input(read, 2, 1), time_step(read)).spike_counts())

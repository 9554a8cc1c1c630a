"""What nirtorch (2.6), which the converters share, and nir itself (1.0.8) get wrong is right here.

If these fail, a layer loses its bias, a graph is wired wrongly because of how its nodes are called, or a file cannot be
written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch

import nirmap
from converter_faults.table import (
    DT,
    WIDTH,
    Read,
    Tensor,
    check_read,
    convolution,
    flatten,
    neuron,
    pool,
    single,
    with_parameters,
    with_the_batch_flattened,
)
from oracle.building import chain

WEIGHT = np.random.default_rng(2).uniform(-0.5, 1.0, (3, WIDTH))
AFFINE = single(nir.Affine(WEIGHT, np.full(3, 7.0)), (WIDTH,), (3,))


def integrators(first: str, second: str) -> nir.NIRGraph:
    """Two in a row, under these names."""
    nodes: list[Any] = [neuron("LI"), neuron("LI", tau=3e-3, r=0.5)]
    return chain(nodes, (WIDTH,), names=("input", first, second, "output"))


def the_second_one_twice(xs: Tensor) -> Tensor:
    """It takes the place of the first, so that the edge between them leads back to it; twice in each step."""
    v, v_leak = torch.zeros_like(xs[0]), torch.tensor(neuron("LI").v_leak)
    outputs: list[Tensor] = []
    for x in xs:
        for _ in range(2):
            v = v + DT / 3e-3 * (v_leak - v + 0.5 * (x + v))
        outputs.append(v)
    return torch.stack(outputs)


READ: dict[str, Read] = {
    # A random one takes its place.
    "Affine: the bias is lost": Read(AFFINE, with_parameters(AFFINE, bias=0)),
    "two names that differ in a dot": Read(integrators("a.b", "a_b"), the_second_one_twice),
    "a name that Python keeps to itself": Read(integrators("if", "for")),
    "Flatten: the batch is flattened": Read(flatten(), with_the_batch_flattened),
    "SumPool2d: padding is dropped": Read(pool("SumPool2d", 1), pool("SumPool2d", 0)),
    "Conv2d: the shape is computed as for a square kernel": Read(
        single(convolution(kernel=(3, 5)), (2, 6, 6), (4, 4, 2))
    ),
    "Conv2d: one group's channels are taken for all": Read(
        single(convolution(groups=2), (2, 6, 6), (4, 4, 4))
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_graph_is_read_as_it_says(name: str) -> None:
    check_read("torch", READ[name])


@pytest.mark.filterwarnings("ignore::nirmap.ReadBackWarning")
@pytest.mark.parametrize(("kernel", "groups"), [((3, 5), 1), ((3, 3), 2)], ids=["oblong kernel", "groups"])
def test_a_convolution_is_written_with_its_shapes(kernel: tuple[int, int], groups: int) -> None:
    module = torch.nn.Conv2d(2, 4, kernel, groups=groups)
    graph = nirmap.to_nir(module, dt=DT, sample=torch.zeros(1, 2, 6, 6))
    (node,) = (node for node in graph.nodes.values() if isinstance(node, nir.Conv2d))
    assert [int(size) for size in node.input_type["input"]] == [2, 6, 6]
    assert [int(size) for size in node.output_type["output"]] == list(module(torch.zeros(2, 6, 6)).shape)


def test_a_neuron_without_axes_is_written_to_a_file(tmp_path: Path) -> None:
    """Its parameters are numbers, which nir tries to compress, and h5py refuses that."""
    one = np.array(1.0)
    graph = single(nir.LI(tau=0.01 * one, r=2 * one, v_leak=one), ())
    net = nirmap.from_nir(graph, dt=DT, dtype=torch.float64)
    nirmap.to_nir(net, path=tmp_path / "net.nir")
    again = nirmap.from_nir(tmp_path / "net.nir", dtype=torch.float64)
    xs = torch.ones(5, dtype=torch.float64)
    assert torch.equal(nirmap.run(again, xs)[0], nirmap.run(net, xs)[0])

"""Convolution, pooling and flattening against direct sums and against torch."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import given

from nirmap.oracle import spatial
from nirmap.oracle.interpreter import simulate
from oracle.strategies import TIME_STEP, Array, image_graphs, networks


def by_torch(node: nir.NIRNode, x: Array) -> Array | None:
    """The node's output for (B, *shape) as torch computes it, None for other nodes."""
    signal = torch.tensor(x)

    def numbers(value: Any) -> Any:
        return value if isinstance(value, str) else tuple(int(number) for number in np.atleast_1d(value))

    if isinstance(node, (nir.Conv1d, nir.Conv2d)):
        convolve: Any = (
            torch.nn.functional.conv1d if isinstance(node, nir.Conv1d) else torch.nn.functional.conv2d
        )
        weight, bias = torch.tensor(node.weight), torch.tensor(node.bias)
        options = (numbers(node.stride), numbers(node.padding), numbers(node.dilation), int(node.groups))
        with warnings.catch_warnings():
            # Of speed: torch copies its input where 'same' needs one more cell at the end.
            warnings.filterwarnings("ignore", "Using padding='same' with even kernel lengths", UserWarning)
            convolved: Array = convolve(signal, weight, bias, *options).numpy()
        return convolved
    if isinstance(node, (nir.SumPool2d, nir.AvgPool2d)):
        divisor = 1 if isinstance(node, nir.SumPool2d) else None
        pool: Any = torch.nn.functional.avg_pool2d
        window = (numbers(node.kernel_size), numbers(node.stride), numbers(node.padding))
        pooled: Array = pool(signal, *window, divisor_override=divisor).numpy()
        return pooled
    if isinstance(node, nir.Flatten):
        start, end = (int(axis) + (axis >= 0) for axis in (node.start_dim, node.end_dim))
        return torch.flatten(signal, start, end).numpy()
    return None


@given(networks(image_graphs(), steps=(1, 3), batch=(1, 2)))
def test_layers_on_images_agree_with_torch_with_every_option(
    case: tuple[nir.NIRGraph, dict[str, Array]],
) -> None:
    graph, inputs = case
    values = simulate(graph, inputs, TIME_STEP).values
    compared = 0
    for source, target in graph.edges:
        for step, x in enumerate(values[(source,)]):
            expected = by_torch(graph.nodes[target], x)
            if expected is not None:
                np.testing.assert_allclose(values[(target,)][step], expected, rtol=1e-11, atol=1e-11)
                compared += 1
    assert compared


def test_conv2d_is_the_sum_over_channels_and_kernel_positions() -> None:
    random = np.random.default_rng(0)
    x, weight, bias = (
        random.normal(size=(2, 4, 7, 6)),
        random.normal(size=(6, 2, 3, 2)),
        random.normal(size=6),
    )
    found = spatial.convolve(x, weight, bias, (2, 1), (1, 2), (1, 3), groups=2)
    expected = np.empty((2, 6, 4, 7))
    for b, out, row, column in product(*map(range, expected.shape)):
        total = bias[out]
        for c, i, j in product(range(2), range(3), range(2)):
            y, z = 2 * row + i - 1, column + 3 * j - 2
            if 0 <= y < 7 and 0 <= z < 6:
                total += weight[out, c, i, j] * x[b, 2 * (out // 3) + c, y, z]
        expected[b, out, row, column] = total
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_average_pool_counts_its_padding() -> None:
    np.testing.assert_array_equal(
        spatial.average_pool(np.ones((1, 1, 2, 2)), 2, 2, 1), np.full((1, 1, 2, 2), 0.25)
    )
    np.testing.assert_array_equal(spatial.sum_pool(np.ones((1, 1, 2, 2)), 2, 2, 1), np.ones((1, 1, 2, 2)))


def test_what_torch_refuses_is_refused() -> None:
    weight, bias = np.ones((2, 1, 3)), np.zeros(2)
    with pytest.raises(ValueError, match="'same'"):
        spatial.convolve(np.ones((1, 1, 5)), weight, bias, 2, "same", 1, groups=1)
    with pytest.raises(ValueError, match="does not fit weight"):
        spatial.convolve(np.ones((1, 3, 5)), weight, bias, 1, 0, 1, groups=1)
    with pytest.raises(ValueError, match="larger than the padded input"):
        spatial.convolve(np.ones((1, 1, 2)), weight, bias, 1, 0, 1, groups=1)

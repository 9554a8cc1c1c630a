"""Views, casts and added axes leave no trace in the graph, or are a Flatten, or are refused.

If these fail, a reshape that mixes the batch with the neurons is written as something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import rockpool.nn.modules as rockpool
import torch

from nirmap.errors import GraphError, NirmapError
from written import check_written, inputs, kinds, linear, to_nir

Tensor = torch.Tensor
Written = Callable[[Any, Tensor], Any]


class Model(torch.nn.Module):
    """``written`` is its forward; inputs have the shape (2, 3, 4)."""

    def __init__(self, written: Written) -> None:
        super().__init__()
        self.layer, self.head = linear(4, 4), linear(24, 2)
        self.written = written

    def forward(self, x: Tensor) -> Any:
        return self.written(self, x)


def unpacked(m: Any, x: Tensor) -> Any:
    batch, channels, height, width = x.shape
    return m.head(x.view(batch, channels * height * width))


FLAT: list[Written] = [
    lambda m, x: m.head(torch.flatten(x, 1)),
    lambda m, x: m.head(x.flatten(start_dim=1)),
    lambda m, x: m.head(x.view(x.shape[0], -1)),
    lambda m, x: m.head(x.view(x.size(0), -1)),
    lambda m, x: m.head(x.reshape((x.size()[0], 24))),
    lambda m, x: m.head(x.reshape(-1, 24)),
    lambda m, x: m.head(torch.reshape(x, (x.shape[0], -1))),
    lambda m, x: m.head(x.view(x.shape[0], x.shape[1], -1).view(-1, 24)),
    lambda m, x: m.head(x.contiguous().view(-1, 24)),
    unpacked,
]


@pytest.mark.parametrize("written", FLAT)
def test_a_view_that_keeps_the_batch_is_a_flatten(written: Written) -> None:
    xs = inputs(2, 3, 4, steps=2)
    graph = check_written(Model(written), xs, sample=xs[0], is_spiking=False)
    assert set(kinds(graph).values()) == {"Input", "Flatten", "Affine", "Output"}


REFUSED: list[tuple[Written, str]] = [
    (lambda m, x: x.view(4, -1), "a view of the shape (4, -1)"),
    (lambda m, x: x.view(-1), "a view of the shape (-1)"),
    (lambda m, x: x.view(x.shape[1], -1), "a view of the shape (x.shape[1], -1)"),
    (lambda m, x: x.view(x.shape[0], -1, 4), "a view of the shape (x.shape[0], -1, 4)"),
    (lambda m, x: x.view(-1, 12), "a view of the shape (batch, 12) of what is (24,)"),
    (lambda m, x: x.reshape(-1, 3, 8), "a view of the shape (batch, 3, 8)"),
    (lambda m, x: x.sum(1), "the sum of a signal over the axis 1"),
    (lambda m, x: torch.stack([x, x]).sum(1), "the sum of signals stacked along 0 over the axis 1"),
    (lambda m, x: torch.stack([x, x]).sum(0, keepdim=True), "leaves no axis"),
    (lambda m, x: torch.stack([x, x]), "the output of a module"),
    (lambda m, x: x.float(), "a cast to torch.float32"),
    (lambda m, x: x.to(torch.int32), "a cast to torch.int32"),
    (lambda m, x: x.squeeze(1), "an axis 1 that is taken away"),
    (lambda m, x: x.unsqueeze(2), "an axis 2 that is added"),
    (lambda m, x: x.unsqueeze(0).squeeze(1), "an axis 1 that is taken away"),
    (lambda m, x: x.unsqueeze(0), "a sequence of time steps"),
    (lambda m, x: x.transpose(1, 2), "a function that NIR has no node for"),
    (lambda m, x: x.permute(0, 2, 1), "a function that NIR has no node for"),
]


@pytest.mark.parametrize(("written", "found"), REFUSED)
def test_another_view_is_refused(written: Written, found: str) -> None:
    with pytest.raises(NirmapError) as caught:
        to_nir(Model(written), sample=torch.zeros(1, 2, 3, 4))
    assert found in str(caught.value)


def test_a_view_for_another_shape_is_refused_by_the_shapes() -> None:
    with pytest.raises(GraphError, match=r"the shape \(24,\) by node 'head', and the shape \(12,\)"):
        to_nir(Model(lambda m, x: m.head(x.view(-1, 24))), sample=torch.zeros(1, 3, 4))


CASTS: list[Written] = [
    lambda m, x: m.layer(x.to(torch.float64)),
    lambda m, x: m.layer(x.to(x.device).double()),
    lambda m, x: m.layer(x.to(m.layer.weight.dtype)),
    lambda m, x: m.layer(x.type_as(m.layer.weight)).contiguous(),
    lambda m, x: m.layer(x.to(device=m.layer.weight.device, dtype=x.dtype).clone()),
    lambda m, x: m.layer(x.cpu().type(torch.float64).view(x.shape)),
]


@pytest.mark.parametrize("written", CASTS)
def test_a_cast_to_the_dtype_of_the_model_leaves_no_node(written: Written) -> None:
    graph = check_written(Model(written), inputs(4, steps=2), is_spiking=False)
    assert list(kinds(graph).values()) == ["Input", "Affine", "Output"]


AXES: list[Written] = [
    lambda m, x: m.layer(x.unsqueeze(1)).squeeze(1),
    lambda m, x: m.layer(torch.unsqueeze(x, 0))[0],
    lambda m, x: m.layer(x.unsqueeze(1))[:, -1],
    lambda m, x: torch.squeeze(m.layer(m.layer(x.unsqueeze(dim=1)).contiguous()), dim=1),
]


@pytest.mark.parametrize("written", AXES)
def test_a_time_axis_around_layers_leaves_no_node(written: Written) -> None:
    graph = check_written(Model(written), inputs(4, steps=2), is_spiking=False)
    assert set(kinds(graph).values()) == {"Input", "Affine", "Output"}


class Timed(torch.nn.Module):
    """Rockpool's modules take (batch, time, neurons)."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.layer = rockpool.LinearTorch((3, 3), has_bias=True)
        self.neurons = rockpool.ExpSynTorch((3,), tau=1e-3, dt=1e-4)
        self.axis = axis

    def forward(self, x: Tensor) -> Any:
        layer: Any = self.layer
        neurons: Any = self.neurons
        return neurons(layer(x.unsqueeze(self.axis))[0])[0].squeeze(self.axis)


def test_a_time_axis_is_that_of_the_framework() -> None:
    with_axis = to_nir(Timed(1), "rockpool", dt=1e-4)
    plain = to_nir(torch.nn.Sequential(Timed(1).layer), "rockpool", dt=1e-4)
    assert set(kinds(plain).values()) < set(kinds(with_axis).values())
    with pytest.raises(NirmapError, match=r"take it away before this module with squeeze\(0\)"):
        to_nir(Timed(0), "rockpool", dt=1e-4)

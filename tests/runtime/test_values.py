"""What a forward asks of the sizes of its input is known from a sample, and numbers may be those of numpy.

If these fail, a model that checks the shape of its input cannot be written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from nirmap.errors import TraceError
from written import check_written, inputs, lif, linear, to_nir

Tensor = torch.Tensor


class Model(torch.nn.Module):
    """A layer and a neuron, behind whatever ``prepared`` does with the input."""

    def __init__(self, prepared: Callable[[Any], Any], current: Callable[[Any], Any] = torch.clone) -> None:
        super().__init__()
        self.layer, self.neuron = linear(), lif()
        self.modules_in_a_list = [linear()]
        self.gain = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        self.prepared, self.current = prepared, current

    def forward(self, x: Tensor, v: Any = None) -> Any:
        return self.neuron(self.current(self.layer(self.prepared(x))), v)


def chosen(condition: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The input where the condition holds, as it has to."""
    return lambda x: x if condition(x) else -x


CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "x.dim() == 2": lambda x: x.dim() == 2,
    "x.ndim < 3": lambda x: x.ndim < 3,
    "x.shape[1] == 3": lambda x: x.shape[1] == 3,
    "x.size(-1) != 4": lambda x: x.size(-1) != 4,
    "x.size(dim=1) >= 3": lambda x: x.size(dim=1) >= 3,
    "x.shape == (2, 3)": lambda x: x.shape == (2, 3),
    "x.shape[1:] == (3,)": lambda x: x.shape[1:] == (3,),
    "x.size()[0] * 2 - 1 == 3": lambda x: x.size()[0] * 2 - 1 == 3,
    "not x.shape[1] % 3": lambda x: not x.shape[1] % 3,
    "3 > x.shape[0]": lambda x: x.shape[0] < 3,
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_a_condition_on_the_sizes_of_an_input_is_decided_by_the_sample(
    condition: Callable[[Any], Any],
) -> None:
    xs = inputs(3)
    check_written(Model(chosen(condition)), xs, carried=1, sample=xs[0])


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_without_a_sample_such_a_condition_is_refused(condition: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError, match=r"test_values\.py"):
        to_nir(Model(chosen(condition)))


ON_DATA: list[Callable[[Any], Any]] = [lambda x: x.sum() > 0, lambda x: x.max(), lambda x: x[0, 0] == 1]


@pytest.mark.parametrize("condition", ON_DATA)
def test_a_condition_on_data_is_refused(condition: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError, match=r"test_values\.py"):
        to_nir(Model(chosen(condition)), sample=inputs(3)[0])


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "x * float32": lambda x: x * np.float32(0.5),
    "float64 * x": lambda x: np.float64(0.5) * x,
    "x / int64": lambda x: x / np.int64(2),
    "float32 * x": lambda x: np.sqrt(np.float32(0.25)) * x,
    "x + float64": lambda x: x + np.float64(0.1),
    "x / math.sqrt": lambda x: x / math.sqrt(2),
}


@pytest.mark.parametrize("current", NUMBERS.values(), ids=NUMBERS)
def test_a_number_of_numpy_is_a_number(current: Callable[[Any], Any]) -> None:
    check_written(Model(lambda x: x, current), inputs(3), carried=1)


def test_a_parameter_that_is_made_a_number_is_refused_by_name() -> None:
    model = Model(lambda x: x)

    def scaled(current: Any) -> Any:
        return current * float(model.gain)

    model.current = scaled
    with pytest.raises(TraceError, match=r"test_values\.py.*'gain' is no size"):
        to_nir(model)


def test_a_module_in_a_plain_list_is_refused_with_what_to_do() -> None:
    model = Model(lambda x: x)
    model.current = torch.nn.Module.__call__.__get__(model.modules_in_a_list[0])
    with pytest.raises(TraceError, match=r"test_values\.py.*ModuleList"):
        to_nir(model)


class Detaching(Model):
    """State whose gradients end in place, as training scripts write it."""

    def forward(self, x: Tensor, v: Any = None) -> Any:
        current = self.layer(x)
        current.requires_grad_()
        out, v = self.neuron(current, v)
        return out.detach_(), v


def test_what_only_concerns_gradients_changes_nothing() -> None:
    check_written(Detaching(lambda x: x), inputs(3), carried=1)

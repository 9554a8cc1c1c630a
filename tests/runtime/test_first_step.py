"""What a model does in its first step, before which there is no state, is what its graph does.

If these fail, a model whose first step differs from the others becomes a graph that gives other numbers from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.errors import TraceError
from written import DT, check_written, inputs, li, lif, linear

Tensor = torch.Tensor
Forward = Callable[[Any, Tensor, Any], Any]


class Recurrent(torch.nn.Module):
    """``current`` is what the neuron is given, from the input and what it put out last."""

    def __init__(self, current: Forward, *, bias: bool = False) -> None:
        super().__init__()
        self.fc, self.other, self.lif = linear(seed=1), linear(seed=3), lif()
        self.back = linear(seed=2, bias=bias)
        self.current = current

    def forward(self, x: Tensor, state: Any = None) -> Any:
        last, inner = (None, None) if state is None else state
        out, inner = self.lif(self.current(self, x, last), inner)
        return out, (out, inner)


def left_out(model: Any, x: Tensor, last: Any) -> Tensor:
    current: Tensor = model.fc(x)
    return current if last is None else current - 0.3 * model.back(last)


def with_zeros(model: Any, x: Tensor, last: Any) -> Tensor:
    last = torch.zeros_like(x) if last is None else last
    current: Tensor = model.fc(x) - 0.3 * model.back(last)
    return current


@pytest.mark.parametrize("bias", [False, True])
def test_a_loop_that_begins_with_zeros_is_the_graph(bias: bool) -> None:
    check_written(Recurrent(with_zeros, bias=bias), inputs(3), carried=1)


def test_a_layer_without_bias_may_be_left_out_of_the_first_step() -> None:
    check_written(Recurrent(left_out), inputs(3), carried=1)


FIRST: dict[str, Forward] = {
    "another layer": lambda m, x, last: m.other(x) if last is None else m.fc(x) + m.back(last),
    "another weight": lambda m, x, last: 2 * m.fc(x) if last is None else m.fc(x) + m.back(last),
    "a constant that a layer takes in": lambda m, x, last: (
        m.fc(x) + 1.0 if last is None else m.fc(x) + m.back(last)
    ),
    "nothing but the input": lambda m, x, last: x if last is None else m.fc(x) + m.back(last),
    "ones in place of zeros": lambda m, x, last: m.fc(x) + m.back(torch.ones(3) if last is None else last),
}


@pytest.mark.parametrize("current", FIRST.values(), ids=FIRST)
def test_a_first_step_that_is_another_one_is_refused(current: Forward) -> None:
    with pytest.raises(TraceError):
        nirmap.to_nir(Recurrent(current), dt=DT)


def test_a_layer_with_bias_that_is_left_out_of_the_first_step_is_refused() -> None:
    """The bias would act in the first step of the graph, and does not in that of the model."""
    with pytest.raises(
        TraceError, match=r"module 'lif' .*in the first step.*begin with zeros in place of None"
    ):
        nirmap.to_nir(Recurrent(left_out, bias=True), dt=DT)


class Padded(torch.nn.Module):
    """A convolution that is padded in another way in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1, 1, 3, 3, dtype=torch.float64))
        self.lif = lif(1)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        padding = "same" if state is None else "valid"
        return self.lif(torch.nn.functional.conv2d(x, self.weight, padding=padding), state)


def test_a_first_step_that_differs_in_a_word_is_refused() -> None:
    with pytest.raises(TraceError, match="in the first step"):
        nirmap.to_nir(Padded(), dt=DT, sample=torch.zeros(1, 1, 6, 6))


class Own(torch.nn.Module):
    """A module of the user that hands its input on, and keeps nothing."""

    def forward(self, x: Tensor, state: Any = None) -> Any:
        return x, state


class WithOwn(torch.nn.Module):
    """A module that a function of the caller writes, before a neuron with state."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.lif = Own(), lif()

    def forward(self, x: Tensor, state: Any = None) -> Any:
        first, second = (None, None) if state is None else state
        current, first = self.own(x, first)
        out, second = self.lif(current, second)
        return out, (first, second)


def doubled(module: torch.nn.Module) -> nir.NIRGraph:
    """A sub-graph, made anew whenever it is asked for."""
    nodes: dict[str, nir.NIRNode] = {
        "input": nir.Input({"input": np.array([3])}),
        "double": nir.Scale(np.full(3, 2.0)),
        "output": nir.Output({"output": np.array([3])}),
    }
    return nir.NIRGraph(nodes, [("input", "double"), ("double", "output")])


def test_what_the_caller_writes_for_a_module_is_the_same_in_every_step() -> None:
    graph = nirmap.to_nir(WithOwn(), dt=DT, module_map={Own: doubled})
    assert set(graph.edges) == {("x", "own"), ("own", "lif"), ("lif", "output")}


class Begins(torch.nn.Module):
    """A neuron whose first state is not zero."""

    def __init__(self, first: Any) -> None:
        super().__init__()
        self.li, self.first = li(), first

    def forward(self, x: Tensor, state: Any = None) -> Any:
        return self.li(x, self.first if state is None else state)


def test_a_state_that_begins_with_zeros_is_that_of_the_node() -> None:
    zeros = {"v": torch.zeros(3, dtype=torch.float64)}
    check_written(Begins(zeros), inputs(3), carried=1, is_spiking=False)


def test_a_state_that_begins_with_other_numbers_is_refused() -> None:
    with pytest.raises(TraceError, match="the further argument"):
        nirmap.to_nir(Begins({"v": torch.full((3,), 0.4)}), dt=DT)


class Skips(torch.nn.Module):
    """A second neuron that is not called in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = lif(), li()

    def forward(self, x: Tensor, state: Any = None) -> Any:
        if state is None:
            out, one = self.first(x)
            return out, (one, None)
        out, one = self.first(x, state[0])
        slow, two = self.second(x, state[1])
        return out + slow, (one, two)


def test_a_neuron_that_is_not_called_in_the_first_step_is_refused() -> None:
    with pytest.raises(TraceError):
        nirmap.to_nir(Skips(), dt=DT)


class Kept(torch.nn.Module):
    """The last output is kept in an attribute, which is not put back between runs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.back, self.lif = linear(seed=1), linear(seed=2, bias=False), lif()
        self.last: Any = None
        self.inner: Any = None

    def forward(self, x: Tensor) -> Any:
        current = self.fc(x)
        if self.last is not None:
            current = current - 0.3 * self.back(self.last)
        self.last, self.inner = self.lif(current, self.inner)
        return self.last


def test_a_model_that_ran_before_is_written_as_a_new_one() -> None:
    """What is left in its attributes is no first state."""
    model = Kept()
    fresh = check_written(model, inputs(3))
    assert model.last is not None
    again = nirmap.to_nir(model, dt=DT)
    assert set(again.edges) == set(fresh.edges)
    assert again.nodes.keys() == fresh.nodes.keys()

"""A module with several state variables is given each of them back as what it was.

If these fail, a model that mixes up the current and the potential of a neuron is written as if it did not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import snntorch
import torch

from nirmap.errors import TraceError
from nirmap.oracle.interpreter import simulate
from written import DT, inputs, linear, to_nir

Tensor = torch.Tensor
Order = Callable[[Any, Any], tuple[Any, Any]]
STEPS = 12


class Model(torch.nn.Module):
    """A neuron with two state variables, of which the order is told when they are handed on."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        options: dict[str, Any] = {"reset_mechanism": "zero", "reset_delay": False}
        self.layer, self.neuron = linear().float(), snntorch.Synaptic(0.5, 0.8, threshold=1.0, **options)
        self.order = order
        self.kept: Any = (torch.zeros(2, 3), torch.zeros(2, 3))

    def step(self, x: Tensor, state: Any) -> Any:
        spikes, current, potential = self.neuron(self.layer(x), *state)
        return spikes, self.order(current, potential)


class InTuple(Model):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        return self.step(x, self.kept if state is None else (state[0], state[1]))


class InAttribute(Model):
    def forward(self, x: Tensor) -> Any:
        spikes, self.kept = self.step(x, self.kept)
        return spikes


class ByName(InTuple):
    def step(self, x: Tensor, state: Any) -> Any:
        spikes, current, potential = self.neuron(self.layer(x), mem=state[1], syn=state[0])
        return spikes, self.order(current, potential)


class InLoop(Model):
    def forward(self, x: Tensor) -> Any:
        state, outputs = self.kept, list[Tensor]()
        for step in range(STEPS):
            spikes, state = self.step(x[step], state)
            outputs.append(spikes)
        return torch.stack(outputs)


MODELS = [InTuple, InAttribute, ByName, InLoop]


def kept(current: Any, potential: Any) -> tuple[Any, Any]:
    return current, potential


def swapped(current: Any, potential: Any) -> tuple[Any, Any]:
    return potential, current


def one_twice(current: Any, potential: Any) -> tuple[Any, Any]:
    return current, current


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", [swapped, one_twice])
def test_a_variable_that_comes_back_as_another_one_is_refused(
    model: Callable[[Order], torch.nn.Module], order: Order
) -> None:
    with pytest.raises(TraceError, match=r"'neuron'.*argument '(syn|mem)' is given its state '(syn|mem)'"):
        to_nir(model(order), "snntorch", dt=DT)


@pytest.mark.parametrize("model", MODELS)
def test_variables_that_come_back_as_what_they_were_are_written(
    model: Callable[[Order], torch.nn.Module],
) -> None:
    net, xs = model(kept), inputs(3, steps=STEPS).float()
    graph = to_nir(net, "snntorch", dt=DT)
    with torch.no_grad():
        expected = net(xs) if model is InLoop else stepped(net, xs, with_state=model is not InAttribute)
    (found,) = simulate(graph, xs.numpy(), DT).outputs.values()
    np.testing.assert_array_equal(found, expected.numpy())
    assert 0.05 < float(expected.mean()) < 0.95


def stepped(net: torch.nn.Module, xs: Tensor, with_state: bool) -> Tensor:
    state: Any = None
    outputs: list[Tensor] = []
    for x in xs:
        spikes, state = net(x, state) if with_state else (net(x), None)
        outputs.append(spikes)
    return torch.stack(outputs)

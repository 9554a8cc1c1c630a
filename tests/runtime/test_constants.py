"""What a forward does to the state that its modules keep in themselves.

If these fail, a model that forgets is written as a network that remembers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sinabs.activation
import sinabs.layers
import snntorch
import spikingjelly.activation_based.functional
import spikingjelly.activation_based.neuron
import torch

from nirmap.errors import TraceError
from written import DT, edges, linear, to_nir

Tensor = torch.Tensor


class SetBack(torch.nn.Module):
    """A loop that sets the state of its neuron back in each step, or, as usual, before the first."""

    def __init__(
        self, neuron: torch.nn.Module, reset: Callable[[torch.nn.Module], None], *, each: bool
    ) -> None:
        super().__init__()
        self.layer, self.neuron = linear(3, 3).float(), neuron
        self.set_back, self.each = reset, each

    def step(self, x: Tensor) -> Tensor:
        if isinstance(self.neuron, sinabs.layers.LIF):  # it takes an axis of time
            output: Tensor = self.neuron(self.layer(x).unsqueeze(1)).squeeze(1)
            return output
        output = self.neuron(self.layer(x))
        return output

    def forward(self, xs: Tensor) -> Any:
        outputs: list[Tensor] = []
        self.set_back(self)
        for x in xs:
            if self.each:
                self.set_back(self)
            outputs.append(self.step(x))
        return torch.stack(outputs)


def zeroed(model: Any) -> None:
    model.neuron.mem.zero_()


def with_other_memory(model: Any) -> None:
    model.neuron.v_mem.data = torch.full((2, 3), 0.5)


def hidden() -> torch.nn.Module:
    kind: Any = snntorch.Leaky
    neuron: torch.nn.Module = kind(0.8, init_hidden=True, reset_mechanism="zero", reset_delay=False)
    return neuron


def of_spikingjelly() -> torch.nn.Module:
    kind: Any = spikingjelly.activation_based.neuron.LIFNode
    neuron: torch.nn.Module = kind(v_reset=0.0)
    return neuron


def of_sinabs() -> torch.nn.Module:
    kind: Any = sinabs.layers.LIF
    reset = sinabs.activation.MembraneReset()
    neuron: torch.nn.Module = kind(10.0, spike_fn=sinabs.activation.SingleSpike, reset_fn=reset)
    return neuron


SET_BACK: dict[str, tuple[str, Callable[[], torch.nn.Module], Callable[[Any], None]]] = {
    "snntorch, new zeros": ("snntorch", hidden, lambda model: model.neuron.reset_mem()),
    "snntorch, in place": ("snntorch", hidden, zeroed),
    "spikingjelly": ("spikingjelly", of_spikingjelly, spikingjelly.activation_based.functional.reset_net),
    "sinabs": ("sinabs", of_sinabs, lambda model: model.neuron.reset_states()),
    "sinabs, other memory": ("sinabs", of_sinabs, with_other_memory),
}


@pytest.mark.parametrize(("framework", "make", "reset"), SET_BACK.values(), ids=SET_BACK)
def test_a_state_that_is_set_back_in_each_step_is_refused(
    framework: str, make: Callable[[], torch.nn.Module], reset: Callable[[Any], None]
) -> None:
    """The neuron of the graph would go on from the step before."""
    xs = torch.zeros(4, 2, 3)
    with pytest.raises(TraceError, match=r"module 'neuron' at test_constants\.py:.*between two of its calls"):
        to_nir(SetBack(make(), reset, each=True), framework, dt=DT, sample=xs)
    graph = to_nir(SetBack(make(), reset, each=False), framework, dt=DT, sample=xs)
    assert edges(graph) == {("xs", "layer"), ("layer", "neuron"), ("neuron", "output")}


class SetBackInAStep(SetBack):
    """A single step that sets the state of its neuron back, before or after it."""

    def forward(self, xs: Tensor) -> Any:
        if self.each:
            self.set_back(self)
        output = self.step(xs)
        if not self.each:
            self.set_back(self)
        return output


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(("framework", "make", "reset"), SET_BACK.values(), ids=SET_BACK)
def test_a_state_that_is_set_back_by_a_forward_of_one_step_is_refused(
    framework: str, make: Callable[[], torch.nn.Module], reset: Callable[[Any], None], before: bool
) -> None:
    """It forgets in each step what the neuron of the graph would remember."""
    model = SetBackInAStep(make(), reset, each=before)
    with pytest.raises(
        TraceError, match=r"module 'neuron' at test_constants\.py:.*between two calls of forward"
    ):
        to_nir(model, framework, dt=DT, sample=torch.zeros(2, 3))


def detached(model: Any) -> None:
    model.neuron.mem = model.neuron.mem.detach()


DETACHED: dict[str, tuple[str, Callable[[], torch.nn.Module], Callable[[Any], None]]] = {
    "snntorch, by hand": ("snntorch", hidden, detached),
    "snntorch": ("snntorch", hidden, lambda model: model.neuron.detach_hidden()),
    "spikingjelly": ("spikingjelly", of_spikingjelly, spikingjelly.activation_based.functional.detach_net),
}


@pytest.mark.parametrize(("framework", "make", "detach"), DETACHED.values(), ids=DETACHED)
def test_a_state_may_be_detached_in_each_step(
    framework: str, make: Callable[[], torch.nn.Module], detach: Callable[[Any], None]
) -> None:
    """As for backpropagation through a part of the time only, which changes no number."""
    graph = to_nir(SetBack(make(), detach, each=True), framework, dt=DT, sample=torch.zeros(4, 2, 3))
    assert edges(graph) == {("xs", "layer"), ("layer", "neuron"), ("neuron", "output")}
    to_nir(SetBackInAStep(make(), detach, each=True), framework, dt=DT, sample=torch.zeros(2, 3))

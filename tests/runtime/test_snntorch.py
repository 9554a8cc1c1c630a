"""If these fail, a neuron of snnTorch is written as one that does something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import snntorch
import torch

import nirmap
from nirmap.oracle.interpreter import margin, simulate

DT, NEURONS, STEPS = 1e-3, 4, 60


class Model(torch.nn.Module):
    """A recurrent neuron behind a layer, with its spike and its potential handed in and out."""

    def __init__(self, neuron: torch.nn.Module) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(NEURONS, NEURONS).double()
        self.neuron = neuron

    def forward(self, x: torch.Tensor, spikes: Any = None, potential: Any = None) -> Any:
        spikes, potential = self.neuron(self.fc(x), spikes, potential)
        return spikes, potential


def recurrent(weight: torch.Tensor, beta: float = 0.8) -> Any:
    settings: dict[str, Any] = {
        "all_to_all": False,
        "V": weight,
        "reset_mechanism": "zero",
        "reset_delay": False,
    }
    return snntorch.RLeaky(beta, **settings).double()


@pytest.mark.parametrize("seed", range(5))
def test_one_to_one_recurrence_is_a_reset_to_another_value(seed: int) -> None:
    random = np.random.default_rng(seed)
    torch.default_generator.manual_seed(seed)  # of the weights of the layer
    model = Model(recurrent(torch.tensor(random.uniform(-0.4, 0.4, NEURONS)), random.uniform(0.5, 0.95)))
    xs = torch.tensor(random.uniform(-1, 4, (STEPS, 2, NEURONS)))
    state: Any = (torch.zeros_like(xs[0]), torch.zeros_like(xs[0]))
    spikes: list[torch.Tensor] = []
    with torch.no_grad():
        for x in xs:
            state = model(x, *state)
            spikes.append(state[0])
    graph = nirmap.to_nir(model, "snntorch", dt=DT, sample=xs[0])
    trace = simulate(graph, xs.numpy(), DT)
    (outputs,) = trace.outputs.values()
    assert margin(trace) > 1e-9
    assert outputs.any()
    np.testing.assert_array_equal(torch.stack(spikes).numpy(), outputs)


def test_a_reset_above_the_threshold_is_refused() -> None:
    """The neuron would be reset a second time, to zero, before its next step."""
    model = Model(recurrent(torch.full((NEURONS,), 2.0)))
    with pytest.raises(nirmap.ConstraintError, match="reset above its threshold"):
        nirmap.to_nir(model, "snntorch", dt=DT, sample=torch.zeros(2, NEURONS, dtype=torch.float64))


def test_spikes_of_an_integrator_are_not_written_as_its_potential() -> None:
    """It returns spikes first, for which its node has no output; the potential is asked for, or the node alone."""
    integrator = snntorch.Leaky(beta=0.5, reset_mechanism="none")
    model = torch.nn.Sequential(torch.nn.Linear(NEURONS, NEURONS), integrator)
    sample = torch.zeros(1, NEURONS)
    with pytest.raises(
        nirmap.TraceError, match="all that '1' returned, of which the first is not its output"
    ) as raised:
        nirmap.to_nir(model, "snntorch", dt=DT, sample=sample)
    assert "return the membrane potential of '1'" in raised.value.do
    alone = nirmap.to_nir(integrator, "snntorch", dt=DT, sample=sample)
    assert [type(node).__name__ for node in alone.nodes.values()] == ["Input", "LI", "Output"]

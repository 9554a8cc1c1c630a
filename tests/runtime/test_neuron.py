"""The base of the reference modules: if these fail, parameters are not saved, not moved, or trained unasked."""

from __future__ import annotations

import pytest
import torch

from nirmap.errors import ConstraintError
from nirmap.neuron import Neuron
from nirmap.reference import LIF, Delay
from runtime.suitable import backward


def lif() -> LIF:
    return LIF(
        tau=torch.tensor([0.01, 0.02]),
        r=torch.ones(2),
        v_leak=torch.zeros(2),
        v_threshold=torch.tensor([0.5, 0.5]),
        v_reset=torch.zeros(2),
        dt=1e-3,
    )


def test_parameters_are_buffers_in_the_state_dict() -> None:
    module = lif()
    assert not list(module.parameters())
    assert set(module.state_dict()) == set(LIF.parameter_names)
    assert module.to(torch.float64).tau.dtype == torch.float64


def test_trained_parameters_are_parameters_in_the_state_dict() -> None:
    module = lif()
    module.train_parameters(["tau", "v_threshold"])
    assert {name for name, _ in module.named_parameters()} == {"tau", "v_threshold"}
    assert set(module.state_dict()) == set(LIF.parameter_names)
    untrained = lif()
    untrained.load_state_dict(module.state_dict())
    assert torch.equal(untrained.tau, module.tau)


def test_training_of_the_threshold_and_the_time_constant_gets_a_gradient() -> None:
    module = lif()
    module.train_parameters(["tau", "v_threshold"])
    state, total = None, torch.zeros(())
    for _ in range(20):
        spikes, state = module(torch.full((3, 2), 2.0), state)
        total = total + spikes.sum()
    backward(total)
    for value in module.parameters():
        assert value.grad is not None
        assert bool((value.grad != 0).all())


def test_an_unknown_surrogate_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConstraintError, match=r"'boxcar'.*arctan, fast_sigmoid, sigmoid"):
        Neuron({}, surrogate="boxcar")


def test_each_module_fires_with_the_surrogate_it_was_given() -> None:
    for name, slope in {"fast_sigmoid": 1 / 3.5**2, "arctan": 1 / (1 + (torch.pi * 0.1) ** 2)}.items():
        module = Neuron({}, surrogate=name)
        distance = torch.tensor([0.1], requires_grad=True)
        backward(module.spike(distance))
        assert distance.grad is not None
        assert distance.grad.item() == pytest.approx(slope, rel=1e-5)


def test_its_text_shows_numbers_where_they_are_all_the_same_and_shapes_elsewhere() -> None:
    text = repr(lif())
    assert "tau=(2,)" in text
    assert "v_threshold=0.5" in text
    assert "dt=0.001" in text
    assert "tau=(2,)" in repr(lif().to("meta"))
    assert "delay" in repr(Delay(torch.zeros(0), dt=1e-3))

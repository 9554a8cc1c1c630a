"""The reference modules against closed forms: if these fail, the framework torch solves other equations than NIR's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nirmap.errors import ConstraintError
from nirmap.reference import IF, LI, LIF, CubaLI, CubaLIF, Delay, I, Scale, Threshold
from runtime.suitable import numbers

DT = 1e-3
time_constants = st.floats(2e-3, 1e-1)
levels = st.floats(-3, 3)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def run(module: Any, x: torch.Tensor, steps: int) -> tuple[torch.Tensor, Any]:
    outputs: list[torch.Tensor] = []
    state = None
    for _ in range(steps):
        output, state = module(x, state)
        outputs.append(output)
    return torch.stack(outputs), state


@given(time_constants, levels, levels, levels, st.integers(1, 60))
def test_li_decays_geometrically_towards_its_stationary_value(
    tau: float, r: float, v_leak: float, x: float, steps: int
) -> None:
    outputs, state = run(LI(tensor(tau), tensor(r), tensor(v_leak), DT), tensor(x), steps)
    expected = (v_leak + r * x) * (1 - (1 - DT / tau) ** steps)
    assert outputs[-1].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert torch.equal(state["v"], outputs[-1])


@given(time_constants, time_constants, levels, levels, levels, st.integers(1, 40))
def test_cuba_li_sees_the_current_of_the_same_step(
    tau_syn: float, tau_mem: float, r: float, w_in: float, x: float, steps: int
) -> None:
    module = CubaLI(tensor(tau_syn), tensor(tau_mem), tensor(r), tensor(0.0), tensor(w_in), DT)
    outputs, state = run(module, tensor(x), steps)
    a_syn, a_mem = 1 - DT / tau_syn, 1 - DT / tau_mem
    currents = [w_in * x * (1 - a_syn**n) for n in range(1, steps + 1)]
    expected = sum(DT / tau_mem * r * i * a_mem ** (steps - n) for n, i in enumerate(currents, 1))
    assert state["i"].item() == pytest.approx(currents[-1], rel=1e-9, abs=1e-12)
    assert outputs[-1].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.floats(-100, 100), levels, st.integers(1, 60))
def test_i_grows_in_proportion_to_time(r: float, x: float, steps: int) -> None:
    outputs, _ = run(I(tensor(r), DT), tensor(x), steps)
    assert outputs[-1].item() == pytest.approx(steps * DT * r * x, rel=1e-9, abs=1e-12)


def test_if_fires_every_so_many_steps() -> None:
    # 0.25 a step from 0 passes (strictly) 0.75 at the 4th step; from 0.5 at the 2nd after each spike.
    module = IF(r=tensor(0.25 / DT), v_threshold=tensor(0.75), v_reset=tensor(0.5), dt=DT)
    outputs, state = run(module, tensor(1.0), 9)
    assert numbers(outputs.flatten()) == [0, 0, 0, 1, 0, 1, 0, 1, 0]
    assert state["v"].item() == 0.75


def test_if_on_its_threshold_does_not_fire() -> None:
    module = IF(r=tensor(0.5 / DT), v_threshold=tensor(0.5), v_reset=tensor(0.0), dt=DT)
    output, state = module(tensor(1.0), None)
    assert (output.item(), state["v"].item()) == (0.0, 0.5)


@given(time_constants, st.floats(1.2, 5), st.floats(0.1, 1.0))
def test_lif_fires_first_when_its_closed_form_passes_the_threshold(
    tau: float, x: float, threshold: float
) -> None:
    # v(n) = x (1 - a^n) > threshold
    exact = math.log(1 - threshold / x) / math.log(1 - DT / tau)
    if abs(exact - round(exact)) < 1e-6:
        return
    first = math.ceil(exact)
    module = LIF(
        tau=tensor(tau),
        r=tensor(1.0),
        v_leak=tensor(0.0),
        v_threshold=tensor(threshold),
        v_reset=tensor(-0.5),
        dt=DT,
    )
    outputs, state = run(module, tensor(x), first)
    assert numbers(outputs.flatten()) == [0.0] * (first - 1) + [1.0]
    assert state["v"].item() == -0.5


def test_cuba_lif_resets_its_membrane_and_keeps_its_current() -> None:
    module = CubaLIF(
        tau_syn=tensor(2 * DT),
        tau_mem=tensor(2 * DT),
        r=tensor(1.0),
        v_leak=tensor(0.0),
        v_threshold=tensor(0.2),
        v_reset=tensor(0.1),
        w_in=tensor(1.0),
        dt=DT,
    )
    output, state = module(tensor(1.0), None)  # i = 1/2, v = 1/4
    assert (output.item(), state["i"].item(), state["v"].item()) == (1.0, 0.5, 0.1)


def test_threshold_is_strict_and_scale_multiplies_per_neuron() -> None:
    x = tensor(0.5, 1.0, 1.5)
    assert numbers(Threshold(tensor(0.5, 0.9, 2.0))(x)) == [0, 1, 0]
    assert numbers(Scale(tensor(2.0, -1.0, 0.0))(x)) == [1, -1, 0]


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
    st.integers(1, 12),
    st.sampled_from([1e-4, 1e-3, 0.7e-3, 1.0]),
)
def test_each_neuron_has_its_own_delay(steps: list[int], length: int, dt: float) -> None:
    module = Delay(torch.tensor([dt * step for step in steps]), dt)
    xs = torch.randn(length, 2, len(steps), dtype=torch.float64)
    state = None
    for n, x in enumerate(xs):
        output, state = module(x, state)
        for neuron, step in enumerate(steps):
            expected = xs[n - step, :, neuron] if n >= step else torch.zeros(2, dtype=torch.float64)
            assert torch.equal(output[:, neuron], expected)
        assert state["history"].shape == (2, len(steps), max(steps))


@pytest.mark.parametrize("delay", [0.5 * DT, 1.001 * DT, -DT, 1000.5 * DT])
def test_a_delay_that_is_not_a_whole_number_of_steps_is_refused(delay: float) -> None:
    with pytest.raises(ConstraintError, match=rf"a delay of {delay:g} s at a time step of 0\.001 s"):
        Delay(tensor(0.0, DT, delay), DT)


def test_rounding_of_a_delay_to_its_dtype_is_not_taken_for_a_fraction() -> None:
    for steps in (1, 3, 7, 10_000, 123_456):
        assert Delay(torch.tensor([steps * 1e-4]), 1e-4).longest == steps
    for steps in (1, 3, 7, 50):
        assert Delay(torch.tensor([steps * 1e-4], dtype=torch.bfloat16), 1e-4).longest == steps
    with pytest.raises(ConstraintError, match=r"a delay of about .* steps in torch.bfloat16"):
        Delay(torch.tensor([1000 * 1e-4], dtype=torch.bfloat16), 1e-4)


def test_a_delay_takes_its_length_from_the_state_dict() -> None:
    short, long = Delay(tensor(0.0, DT), DT), Delay(tensor(3 * DT, 2 * DT), DT)
    xs = torch.randn(6, 2, dtype=torch.float64)
    short.load_state_dict(long.state_dict())
    states: list[Any] = [None, None]
    for x in xs:
        outputs: list[torch.Tensor] = []
        for index, module in enumerate((short, long)):
            output, states[index] = module(x, states[index])
            outputs.append(output)
        assert torch.equal(*outputs)


def test_a_delay_without_numbers_says_what_to_do() -> None:
    with pytest.raises(ConstraintError, match=r"device 'meta'.*\.to\('meta'\)"):
        Delay(torch.zeros(2, device="meta"), DT)
    assert Delay(tensor(DT), DT).to("meta")(torch.zeros(1, device="meta"))[0].is_meta


NEURONS: dict[str, Callable[[torch.Tensor], torch.nn.Module]] = {
    "I": lambda p: I(p, DT),
    "IF": lambda p: IF(p / DT, p, p - p, DT),
    "LI": lambda p: LI(p, p, p, DT),
    "LIF": lambda p: LIF(p, p, p, p, p - p, DT),
    "CubaLI": lambda p: CubaLI(p, p, p, p, p, DT),
    "CubaLIF": lambda p: CubaLIF(p, p, p, p, p, p - p, p, DT),
}


@pytest.mark.parametrize("kind", NEURONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("batch", [(), (1,), (2, 3), (2, 1, 4)], ids=str)
def test_any_batch_and_precision(kind: str, dtype: torch.dtype, batch: tuple[int, ...]) -> None:
    parameter = torch.tensor([[0.5, 0.25, 0.75]] * 2, dtype=dtype)
    module = NEURONS[kind](parameter)
    x = torch.rand(*batch, 2, 3, dtype=dtype)
    output, state = run(module, x, 3)
    assert output.shape == (3, *batch, 2, 3)
    assert output.dtype == dtype
    for value in state.values():
        assert (value.shape, value.dtype) == (x.shape, dtype)
    scalar = NEURONS[kind](parameter[0, 0])
    assert run(scalar, x, 3)[0].shape == output.shape

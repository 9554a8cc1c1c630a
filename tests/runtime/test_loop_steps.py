"""However a loop takes one time step out of a sequence, it is the same loop.

If these fail, a model cannot be written because of how its author spells ``x[t]``, or steps get mixed up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

from nirmap.errors import TraceError
from nirmap.oracle.interpreter import simulate
from written import DT, inputs, lif, linear, to_nir

Tensor = torch.Tensor
STEPS = 12


class Loop(torch.nn.Module):
    """Two loops in a row, the second over what the first one put out."""

    def __init__(
        self,
        steps: Callable[[Tensor], Iterable[Any]],
        between: Callable[[list[Any]], Iterable[Any]] = iter,
        returned: Callable[[list[Any]], Any] = torch.stack,
        current: Callable[[Tensor], Tensor] = torch.clone,
    ) -> None:
        super().__init__()
        self.fc1, self.lif1, self.fc2, self.lif2 = linear(seed=1), lif(), linear(seed=2), lif()
        self.steps, self.between, self.returned, self.current = steps, between, returned, current

    def forward(self, x: Tensor) -> Any:
        u = v = None
        hidden, outputs = list[Tensor](), list[Tensor]()
        for now in self.steps(x):
            z, u = self.lif1(self.current(self.fc1(now)), u)
            hidden.append(z)
        for now in self.between(hidden):
            z, v = self.lif2(self.fc2(now), v)
            outputs.append(z)
        return self.returned(outputs)


def in_time(x: Tensor) -> Iterable[Tensor]:
    return (x[step] for step in range(STEPS))


def check(net: Loop, axis: int = 0) -> None:
    xs = inputs(3, steps=STEPS)
    given = xs.movedim(0, axis)
    graph = to_nir(net, dt=DT, sample=given)
    with torch.no_grad():
        expected = net(given)
    np.testing.assert_array_equal(simulate(graph, xs.numpy(), DT).outputs["output"], expected.numpy())
    assert 0.05 < float(expected.mean()) < 0.95


SPELLINGS: dict[str, tuple[Callable[[Tensor, int], Tensor], int]] = {
    "x[t, :]": (lambda x, t: x[t, :], 0),
    "x[t, :, :]": (lambda x, t: x[t, :, :], 0),
    "x[t, ...]": (lambda x, t: x[t, ...], 0),
    "x[:, t, :]": (lambda x, t: x[:, t, :], 1),
    "x[:, t, ...]": (lambda x, t: x[:, t, ...], 1),
    "x.select(0, t)": (lambda x, t: x.select(0, t), 0),
    "torch.select(x, 1, index=t)": (lambda x, t: torch.select(x, 1, index=t), 1),
    "torch.unbind(x, dim=1)[t]": (lambda x, t: torch.unbind(x, dim=1)[t], 1),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_step_is_one_however_it_is_taken(spelling: str) -> None:
    at, axis = SPELLINGS[spelling]
    check(Loop(lambda x: (at(x, step) for step in range(STEPS))), axis)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_loop_over_an_unbound_sequence_is_one_step(axis: int) -> None:
    check(Loop(lambda x: torch.unbind(x, axis)), axis)


BETWEEN: dict[str, Callable[[list[Any]], Iterable[Any]]] = {
    "the list": iter,
    "a stack": lambda values: (torch.stack(values)[step] for step in range(STEPS)),
    "a stack behind the batch": lambda values: (torch.stack(values, dim=1)[:, step] for step in range(STEPS)),
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_a_second_loop_takes_the_steps_of_the_first(between: Callable[[list[Any]], Iterable[Any]]) -> None:
    check(Loop(in_time, between))


def test_a_second_loop_that_begins_elsewhere_is_refused() -> None:
    with pytest.raises(TraceError, match="as by a loop over time steps"):
        to_nir(Loop(in_time, lambda values: (values[step - 1] for step in range(STEPS))), dt=DT)


@pytest.mark.parametrize(
    "index", [(0, 1), (slice(0, 1),), (0, slice(1, None)), (slice(None), slice(None), 0)]
)
def test_what_is_a_part_of_a_step_is_none(index: Any) -> None:
    with pytest.raises(TraceError):
        to_nir(Loop(lambda x: (x[index] for _ in range(STEPS))), dt=DT)


def test_a_sum_in_place_in_a_loop_is_a_sum() -> None:
    def raised(current: Tensor) -> Tensor:
        current += 0.1
        return current

    check(Loop(in_time, current=raised))


@pytest.mark.parametrize("dim", [0, -1])
def test_a_stack_inside_of_a_step_is_a_sum(dim: int) -> None:
    check(Loop(in_time, current=lambda current: torch.stack([current, current * 0.5], dim).mean(dim)))


MIXED: dict[str, Callable[[list[Any]], Any]] = {
    "with the last step": lambda values: torch.stack(values) + values[-1],
    "with the first step": lambda values: torch.stack(values) - values[0],
    "further on": lambda values: 2 * torch.stack(values) * 3 + values[-1] / 2,
}


@pytest.mark.parametrize("returned", MIXED.values(), ids=MIXED)
def test_the_values_of_all_steps_do_not_meet_those_of_one(returned: Callable[[list[Any]], Any]) -> None:
    """Each step of the graph would be added to itself."""
    with pytest.raises(TraceError, match=r"test_loop_steps\.py.*the values of all steps"):
        to_nir(Loop(in_time, returned=returned), dt=DT)


def test_what_is_done_with_the_values_of_all_steps_is_done_in_each() -> None:
    check(Loop(in_time, returned=lambda values: torch.stack(values) * 2 - torch.stack(values)))


class Images(torch.nn.Module):
    """A loop over images whose axes are joined, with the sizes that ``sizes`` takes from a sequence and a step."""

    def __init__(self, sizes: Callable[[Any, Any], tuple[Any, ...]], axis: int) -> None:
        super().__init__()
        self.fc, self.lif, self.sizes, self.axis = linear(8, 3), lif(), sizes, axis

    def forward(self, x: Tensor) -> Any:
        state, outputs = None, list[Tensor]()
        for now in x.unbind(self.axis):
            z, state = self.lif(self.fc(now.view(*self.sizes(x, now))), state)
            outputs.append(z)
        return torch.stack(outputs)


def batch_of_three(x: Any, now: Any) -> tuple[Any, ...]:
    _, batch, *_ = x.shape
    return batch, -1


SIZES: dict[str, tuple[Callable[[Any, Any], tuple[Any, ...]], int]] = {
    "the step's own": (lambda x, now: (now.shape[0], -1), 0),
    "the step's own, behind the batch": (lambda x, now: (now.size(0), -1), 1),
    "x.shape[1]": (lambda x, now: (x.shape[1], -1), 0),
    "x.size(1)": (lambda x, now: (x.size(1), -1), 0),
    "x.shape[0]": (lambda x, now: (x.shape[0], -1), 1),
    "_, batch, *_ = x.shape": (batch_of_three, 0),
    "-1 and all neurons": (lambda x, now: (-1, 8), 0),
}


@pytest.mark.parametrize(("sizes", "axis"), SIZES.values(), ids=SIZES)
def test_the_batch_is_known_by_the_sizes_of_the_sequence_too(
    sizes: Callable[[Any, Any], tuple[Any, ...]], axis: int
) -> None:
    net, xs = Images(sizes, axis), inputs(2, 4, steps=STEPS)
    given = xs.movedim(0, axis)
    graph = to_nir(net, dt=DT, sample=given)
    with torch.no_grad():
        expected = net(given)
    np.testing.assert_array_equal(simulate(graph, xs.numpy(), DT).outputs["output"], expected.numpy())


def test_the_number_of_steps_is_not_the_batch() -> None:
    with pytest.raises(TraceError, match="a view of the shape"):
        to_nir(Images(lambda x, now: (x.shape[0], -1), 0), dt=DT, sample=inputs(2, 4, steps=2))

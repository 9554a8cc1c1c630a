"""A forward that loops over time steps is written as one step.

If these fail, the models of most tutorials become chains of copies, or cannot be written at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import snntorch
import torch

from nirmap.errors import TraceError
from nirmap.oracle.interpreter import simulate
from written import DT, edges, inputs, is_tuple, li, lif, linear, to_nir

Tensor = torch.Tensor
STEPS = 12
CHAIN = {("x", "fc1"), ("fc1", "lif1"), ("lif1", "fc2"), ("fc2", "lif2"), ("lif2", "output")}


class Tutorial(torch.nn.Module):
    """Two layers of snnTorch, over a given number of steps."""

    def __init__(self) -> None:
        super().__init__()
        reset: dict[str, Any] = {"reset_mechanism": "zero", "reset_delay": False}
        self.fc1, self.lif1 = linear(4, 5).float(), snntorch.Leaky(0.8, threshold=2.0, **reset)
        self.fc2, self.lif2 = linear(5, 3).float(), snntorch.Leaky(0.9, threshold=2.5, **reset)

    def forward(self, x: Tensor) -> Any:
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes: list[Tensor] = []
        membranes: list[Tensor] = []
        for step in range(STEPS):
            spk1, mem1 = self.lif1(self.fc1(self.at(x, step)), mem1)
            spk2, mem2 = self.lif2(self.fc2(spk1), mem2)
            spikes.append(spk2)
            membranes.append(mem2)
        return self.returned(spikes, membranes)

    def at(self, x: Tensor, step: int) -> Tensor:
        return x

    def returned(self, spikes: list[Tensor], membranes: list[Tensor]) -> Any:
        return torch.stack(spikes, dim=0), torch.stack(membranes, dim=0)


class StepByStep(Tutorial):
    def at(self, x: Tensor, step: int) -> Tensor:
        return x[step]


class BehindTheBatch(Tutorial):
    def at(self, x: Tensor, step: int) -> Tensor:
        return x[:, step]


class ListOfSpikes(StepByStep):
    def returned(self, spikes: list[Tensor], membranes: list[Tensor]) -> Any:
        return spikes


class TwoLists(StepByStep):
    def returned(self, spikes: list[Tensor], membranes: list[Tensor]) -> Any:
        return spikes, membranes


class OnlySpikes(StepByStep):
    def returned(self, spikes: list[Tensor], membranes: list[Tensor]) -> Any:
        return torch.stack(spikes)


@pytest.mark.parametrize("model", [Tutorial, StepByStep, BehindTheBatch, ListOfSpikes, TwoLists, OnlySpikes])
def test_a_loop_over_time_is_one_step(model: Callable[[], Tutorial]) -> None:
    net = model()
    graph = to_nir(net, "snntorch", dt=DT)
    assert edges(graph) == CHAIN
    assert graph.nodes["x"].input_type["input"].tolist() == [4]
    xs = inputs(4, steps=STEPS).float()
    if model is Tutorial:
        xs = xs[:1].expand(STEPS, *xs.shape[1:])
    with torch.no_grad():
        returned: Any = net(
            xs[0] if model is Tutorial else xs.transpose(0, 1) if model is BehindTheBatch else xs
        )
    spikes = returned[0] if is_tuple(returned) else returned
    expected: Tensor = spikes if isinstance(spikes, torch.Tensor) else torch.stack(spikes)
    trace = simulate(graph, xs.numpy(), DT)
    np.testing.assert_array_equal(trace.outputs["output"], expected.numpy())
    assert 0.05 < float(expected.mean()) < 0.95


class Over(Tutorial):
    """A loop over as many steps as the input has."""

    def __init__(self, steps: Callable[[Tensor], Iterable[Any]], behind: bool) -> None:
        super().__init__()
        self.steps, self.behind = steps, behind

    def forward(self, x: Tensor) -> Tensor:
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes: list[Tensor] = []
        for now in self.steps(x):
            spk1, mem1 = self.lif1(self.fc1(now), mem1)
            spk2, mem2 = self.lif2(self.fc2(spk1), mem2)
            spikes.append(spk2)
        return torch.stack(spikes, dim=int(self.behind))


def unpacked(x: Tensor) -> Iterable[Tensor]:
    steps, _batch, _features = x.shape
    return (x[step] for step in range(steps))


SPELLINGS: dict[str, tuple[Callable[[Tensor], Iterable[Any]], bool]] = {
    "for now in x": (lambda x: x, False),
    "enumerate(x)": (lambda x: (now for _, now in enumerate(x)), False),
    "x.unbind(0)": (lambda x: x.unbind(0), False),
    "x.unbind(dim=1)": (lambda x: x.unbind(dim=1), True),
    "range(x.shape[0])": (lambda x: (x[step] for step in range(x.shape[0])), False),
    "range(x.size(0))": (lambda x: (x[step] for step in range(x.size(0))), False),
    "range(x.size()[0])": (lambda x: (x[step] for step in range(x.size()[0])), False),
    "range(len(x))": (lambda x: (x[step] for step in range(len(x))), False),
    "range(x.shape[1])": (lambda x: (x[:, step] for step in range(x.shape[1])), True),
    "range(x.size(-2))": (lambda x: (x[:, step] for step in range(x.size(-2))), True),
    "steps, batch, features = x.shape": (unpacked, False),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("steps", [2, STEPS])
def test_a_loop_over_as_many_steps_as_the_sample_has_is_one_step(spelling: str, steps: int) -> None:
    net = Over(*SPELLINGS[spelling])
    xs = inputs(4, steps=STEPS).float()
    given = xs.transpose(0, 1) if net.behind else xs
    sample = given[:, :steps] if net.behind else given[:steps]
    graph = to_nir(net, "snntorch", dt=DT, sample=sample)
    assert edges(graph) == CHAIN
    with torch.no_grad():
        spikes = net(given)
    expected = spikes.transpose(0, 1) if net.behind else spikes
    np.testing.assert_array_equal(simulate(graph, xs.numpy(), DT).outputs["output"], expected.numpy())
    assert 0.05 < float(expected.mean()) < 0.95


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_without_a_sample_the_number_of_steps_is_asked_for(spelling: str) -> None:
    with pytest.raises(TraceError) as raised:
        to_nir(Over(*SPELLINGS[spelling]), "snntorch", dt=DT)
    assert "test_loops.py" in raised.value.where
    assert "sample" in str(raised.value.do) + raised.value.expected


def test_a_sample_without_the_axis_of_time_is_refused() -> None:
    with pytest.raises(TraceError, match="an axis of time, over which forward loops"):
        to_nir(StepByStep(), "snntorch", dt=DT, sample=torch.zeros(4))


def test_steps_along_two_axes_are_no_loop() -> None:
    class Both(Tutorial):
        def at(self, x: Tensor, step: int) -> Tensor:
            return x[step] if step % 2 else x[:, step]

    with pytest.raises(TraceError):
        to_nir(Both(), "snntorch", dt=DT)


def test_only_the_last_step_is_the_output_of_one_step_too() -> None:
    class Last(StepByStep):
        def returned(self, spikes: list[Tensor], membranes: list[Tensor]) -> Any:
            return spikes[-1]

    assert edges(to_nir(Last(), "snntorch", dt=DT)) == CHAIN


class Looped(torch.nn.Module):
    """``written`` is the body of a loop: from the model, the input, the last output and the state to the latter two."""

    def __init__(self, body: Callable[..., Any], returned: Callable[[list[Any]], Any] = torch.stack) -> None:
        super().__init__()
        self.fc, self.rec, self.lif, self.li = linear(seed=1), linear(seed=2), lif(), li()
        self.body, self.returned = body, returned

    def forward(self, x: Tensor) -> Any:
        z, v = torch.zeros_like(x), None
        outputs: list[Any] = []
        for step in range(4):
            z, v = self.body(self, x, z, v, step)
            outputs.append(z)
        return self.returned(outputs)


class Recurrent(torch.nn.Module):
    """The loop of a recurrent network, as scripts of snnTorch have it."""

    def __init__(self, *, bias: bool, first: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        reset: dict[str, Any] = {"reset_mechanism": "zero", "reset_delay": False}
        self.fc, self.back = linear(4, 5).float(), linear(5, 5, seed=3, bias=bias).float()
        self.lif1, self.lif2 = snntorch.Leaky(0.8, threshold=2.0, **reset), snntorch.Leaky(0.7, **reset)
        self.out, self.first = linear(5, 3).float(), first

    def forward(self, x: Tensor) -> Any:
        spk1, mem1, mem2 = self.first(x), self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes: list[Tensor] = []
        hidden: list[Tensor] = []
        for now in x:
            spk1, mem1 = self.lif1(self.fc(now) - 0.4 * self.back(spk1), mem1)
            spk2, mem2 = self.lif2(self.out(spk1), mem2)
            spikes.append(spk2)
            hidden.append(spk1)
        return torch.stack(spikes), torch.stack(hidden)


FIRST: list[Callable[[Tensor], Tensor]] = [
    lambda x: torch.zeros(x.shape[1], 5),
    lambda x: torch.zeros(5),
    lambda x: x.new_zeros(x.shape[1], 5),
]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("first", FIRST)
def test_a_loop_that_feeds_back_is_one_step_with_a_recurrent_edge(
    bias: bool, first: Callable[[Tensor], Tensor]
) -> None:
    net = Recurrent(bias=bias, first=first)
    xs = inputs(4, steps=STEPS).float()
    graph = to_nir(net, "snntorch", dt=DT, sample=xs)
    assert ("lif1", "back") in edges(graph)
    with torch.no_grad():
        spikes, hidden = net(xs)
    outputs = simulate(graph, xs.double().numpy(), DT).outputs
    np.testing.assert_array_equal(outputs["output_0"], spikes.numpy())
    np.testing.assert_array_equal(outputs["output_1"], hidden.numpy())
    assert 0.05 < float(spikes.mean()) < 0.95
    assert 0.05 < float(hidden.mean()) < 0.95


class InPieces(torch.nn.Module):
    """A loop over a piece of a longer sequence, which begins with what the piece before left."""

    def __init__(self, kept: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.fc, self.back, self.lif, self.kept = linear(seed=1), linear(seed=2), lif(), kept

    def forward(self, x: Tensor, state: Any = None) -> Any:
        last, v = (torch.zeros(2, 3, dtype=torch.float64), None) if state is None else state
        before, outputs = last, list[Tensor]()
        for now in x:
            out, v = self.lif(self.fc(now) - 0.5 * self.back(last), v)
            before, last = last, out
            outputs.append(out)
        return torch.stack(outputs), (self.kept(before, last), v)


def test_a_loop_that_goes_on_from_the_piece_before_is_one_step() -> None:
    net, xs = InPieces(lambda before, last: last), inputs(3, steps=20)
    graph = to_nir(net, dt=DT, sample=xs[:5])
    with torch.no_grad():
        first, state = net(xs[:12])
        second, _ = net(xs[12:], state)
    found = simulate(graph, xs.numpy(), DT).outputs["output"]
    np.testing.assert_array_equal(found, torch.cat([first, second]).numpy())
    assert 0.05 < float(found.mean()) < 0.95


def test_a_loop_that_goes_on_from_something_else_is_refused() -> None:
    with pytest.raises(TraceError, match="loop over time steps"):
        to_nir(InPieces(lambda before, last: before), dt=DT, sample=inputs(3, steps=5))


class TwoStepsLate(torch.nn.Module):
    """What is fed back is two steps late."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.back, self.lif = linear(seed=1), linear(seed=2), lif()

    def forward(self, x: Tensor) -> Any:
        before = last = torch.zeros(2, 3, dtype=torch.float64)
        state = None
        outputs: list[Tensor] = []
        for now in x:
            out, state = self.lif(self.fc(now) - self.back(before), state)
            before, last = last, out
            outputs.append(out)
        return torch.stack(outputs)


def test_a_feedback_that_is_two_steps_late_is_refused() -> None:
    with pytest.raises(TraceError, match=r"module 'lif' at test_loops\.py:.*as by a loop over time steps"):
        to_nir(TwoStepsLate(), dt=DT, sample=inputs(3, steps=5))


class TwoLoops(torch.nn.Module):
    """Two neurons that drive each other, each a step late."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.one, self.two = linear(seed=1), lif(), lif()
        self.forth, self.back = linear(seed=2), linear(seed=3)

    def forward(self, x: Tensor) -> Any:
        a = b = torch.zeros(2, 3, dtype=torch.float64)
        u = v = None
        outputs: list[Tensor] = []
        for now in x:
            last = a
            a, u = self.one(self.fc(now) - 0.3 * self.back(b), u)
            b, v = self.two(self.forth(last), v)
            outputs.append(a + b)
        return torch.stack(outputs)


def test_neurons_that_drive_each_other_a_step_late_are_a_cycle() -> None:
    """Only one edge of a cycle can be late in a graph: a second one is refused, and never left out."""
    with pytest.raises(TraceError, match="one step late in the module"):
        to_nir(TwoLoops(), dt=DT, sample=inputs(3, steps=5))


def test_sums_and_scales_inside_of_a_loop_are_written_once() -> None:
    def body(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
        h = m.fc(x)
        return m.lif(h * 2 + x - torch.flatten(h, 1), v)

    graph = to_nir(Looped(body))
    assert sorted(type(node).__name__ for node in graph.nodes.values()) == [
        "Affine",
        "Flatten",
        "Input",
        "LIF",
        "Output",
        "Scale",
        "Scale",
    ]


def feeds_back_later(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
    """What is fed back is prepared in the step before."""
    out, v = m.lif(m.fc(x) - 0.5 * z, v)
    return out.contiguous(), v


def feeds_back(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
    return m.lif(m.fc(x) + m.rec(z), v)


def changes(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
    return m.lif(m.fc(x) * (step + 1), v)


def changes_its_state(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
    return m.lif(m.fc(x), None if v is None else {"v": v["v"] * 0.5})


def chains(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
    return m.lif(m.fc(x) if v is None else z, v)


def starts_anew(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
    return m.lif(m.fc(x), None)


def not_at_first(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
    return m.lif(m.fc(x) + m.rec(z) if step else m.fc(x), v)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (changes, "step 1 gives 'lif' something else than step 0"),
        (chains, "step 0 has no zeros there"),
        (not_at_first, "step 0 has no zeros there"),
        (changes_its_state, "the state of a module"),
        (starts_anew, "used twice"),
    ],
)
def test_a_loop_whose_steps_differ_is_refused_and_says_where(body: Callable[..., Any], found: str) -> None:
    with pytest.raises(TraceError, match=found) as raised:
        to_nir(Looped(body))
    assert "test_loops.py" in raised.value.where


def steady(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
    return m.lif(m.fc(x), v)


Returning = Callable[[list[Any]], Any]
MORE: list[Returning] = [sum, lambda zs: zs[-2], lambda zs: torch.stack(zs[1:])]


@pytest.mark.parametrize("returned", MORE)
def test_what_needs_more_than_one_step_is_refused(returned: Returning) -> None:
    with pytest.raises(TraceError, match="one step of the loop"):
        to_nir(Looped(steady, returned))


def test_an_analog_readout_may_be_stacked_as_well() -> None:
    def body(m: Any, x: Tensor, z: Tensor, v: Any, step: int) -> Any:
        return m.li(m.fc(x), v)

    assert edges(to_nir(Looped(body))) == {("x", "fc"), ("fc", "li"), ("li", "output")}

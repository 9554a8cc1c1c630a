"""A graph has one step: what a forward remembers elsewhere than in its state is refused, and never frozen.

If these fail, somebody's counter, random number or delay line becomes a constant in a file.
"""

from __future__ import annotations

import contextlib
import copy
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import snntorch
import torch
from spikingjelly.activation_based import neuron as sj_neuron

from nirmap.errors import TraceError
from written import check_written, inputs, lif, linear, stepped, to_nir

Tensor = torch.Tensor
NEURONS: Any = sj_neuron


class Holder:
    """An object that a model keeps something in."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Model(torch.nn.Module):
    """A layer and a neuron; ``current`` makes what the neuron is given of what the layer gives."""

    def __init__(
        self, current: Callable[[Any, Tensor], Any], after: Callable[[Any, Tensor], Any], **held: Any
    ) -> None:
        super().__init__()
        self.layer, self.neuron, self.current, self.after = linear(), lif(), current, after
        self.register_buffer("count", torch.ones(()))
        self.register_buffer("table", None)
        self.number, self.tensor, self.held = 1.0, torch.ones(()), held

    def forward(self, x: Tensor, v: Any = None) -> Any:
        out, v = self.neuron(self.current(self, self.layer(x)), v)
        self.after(self, out)
        return out, v


def plain(model: Any, current: Tensor) -> Tensor:
    return current


def counted(model: Any, out: Tensor) -> None:
    model.number += 1.0


def counted_in_place(model: Any, out: Tensor) -> None:
    model.count += 1.0
    model.tensor += 1.0


def counted_anew(model: Any, out: Tensor) -> None:
    model.count = model.count + 1.0
    model.tensor = model.tensor + 1.0


def pushed(model: Any, out: Tensor) -> None:
    model.held["line"].append(out)


def put_away(model: Any, out: Tensor) -> None:
    model.held["holder"].value = out


def zeros() -> Tensor:
    return torch.zeros(2, 3, dtype=torch.float64)


DIFFERENT: dict[str, Callable[[], Model]] = {
    "a counter": lambda: Model(lambda m, x: x * m.number, counted),
    "a number that falls": lambda: Model(lambda m, x: x / m.number, counted),
    "a buffer that counts": lambda: Model(lambda m, x: x * m.count, counted_in_place),
    "a buffer that is replaced": lambda: Model(lambda m, x: x * m.count, counted_anew),
    "a tensor that counts": lambda: Model(lambda m, x: x * m.tensor, counted_in_place),
    "a tensor that is replaced": lambda: Model(lambda m, x: x * m.tensor, counted_anew),
    "random numbers": lambda: Model(lambda m, x: x + torch.rand(3), lambda m, z: None),
    "a random factor": lambda: Model(lambda m, x: x * torch.randn(()), lambda m, z: None),
    "a value in an object": lambda: Model(
        lambda m, x: x + m.held["holder"].value, put_away, holder=Holder(zeros())
    ),
    "only every second call": lambda: Model(lambda m, x: x if m.number % 2 else -x, counted),
}


@pytest.mark.parametrize("make", DIFFERENT.values(), ids=DIFFERENT)
def test_what_changes_from_call_to_call_is_refused(make: Callable[[], Model]) -> None:
    with pytest.raises(TraceError, match="its next call does something else") as caught:
        to_nir(make())
    assert "test_next_call.py" in caught.value.where


class Late(torch.nn.Module):
    """What a neuron puts out comes back after some steps, from a queue."""

    def __init__(self, late: int, queue: Callable[[list[Tensor]], Any]) -> None:
        super().__init__()
        self.layer, self.neuron = linear(), lif()
        self.queue = queue([zeros() for _ in range(late)])

    def forward(self, x: Tensor, v: Any = None) -> Any:
        *after, before = reversed(self.queue)
        out, v = self.neuron(self.layer(x) - 0.5 * before, v)
        self.queue = type(self.queue)([*reversed(after), out])
        return out, v


class LateState(Late):
    """The same, with the queue in the state."""

    def forward(self, x: Tensor, v: Any = None) -> Any:
        (before, *after), v = (self.queue, None) if v is None else v
        out, v = self.neuron(self.layer(x) - 0.5 * before, v)
        return out, ((*after, out), v)


class LateInPlace(Late):
    """The same, with a queue that is changed."""

    def forward(self, x: Tensor, v: Any = None) -> Any:
        out, v = self.neuron(self.layer(x) - 0.5 * self.queue[0], v)
        self.queue.append(out)
        del self.queue[0]
        return out, v


class LateInAttributes(Late):
    """The same, with an attribute for each step."""

    def forward(self, x: Tensor, v: Any = None) -> Any:
        late = len(self.queue)
        held = [getattr(self, f"late_{step}", zeros()) for step in range(late)]
        out, v = self.neuron(self.layer(x) - 0.5 * held[0], v)
        for step, value in enumerate([*held[1:], out]):
            setattr(self, f"late_{step}", value)
        return out, v


QUEUES: dict[str, tuple[type[Late], Callable[[list[Tensor]], Any]]] = {
    "tuple": (Late, tuple),
    "list": (Late, list),
    "deque": (Late, deque),
    "state": (LateState, tuple),
    "list in place": (LateInPlace, list),
    "deque in place": (LateInPlace, deque),
    "attributes": (LateInAttributes, list),
}


@pytest.mark.parametrize(("model", "queue"), QUEUES.values(), ids=QUEUES)
def test_a_queue_of_one_step_is_a_recurrent_edge(
    model: type[Late], queue: Callable[[list[Tensor]], Any]
) -> None:
    graph = check_written(model(1, queue), inputs(3), carried=1)
    assert ("neuron_times", "neuron") in graph.edges


@pytest.mark.parametrize("late", [2, 3, 5])
@pytest.mark.parametrize(("model", "queue"), QUEUES.values(), ids=QUEUES)
def test_a_queue_of_several_steps_is_refused(
    model: type[Late], queue: Callable[[list[Tensor]], Any], late: int
) -> None:
    """An edge is one step late at most. The zeros with which a queue begins are none that stay."""
    with pytest.raises(TraceError, match=r"an entry of the state is used as a signal|its next call"):
        to_nir(model(late, queue))


def built_once(model: Any, current: Tensor) -> Tensor:
    if model.table is None:
        model.table = torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
    table: Tensor = model.table
    return current * table


SAME: dict[str, Callable[[], Model]] = {
    "a counter that nothing depends on": lambda: Model(plain, counted),
    "a record of what came out": lambda: Model(plain, pushed, line=deque(maxlen=3)),
    "a list of what came out": lambda: Model(plain, pushed, line=[]),
    "a value in an object that nothing reads": lambda: Model(plain, put_away, holder=Holder(0.0)),
    "random numbers that nothing reads": lambda: Model(plain, lambda m, z: torch.rand(3)),
    "a table that the first call makes": lambda: Model(built_once, lambda m, z: None),
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_what_makes_no_difference_is_written(make: Callable[[], Model]) -> None:
    check_written(make(), inputs(3), carried=1)


@pytest.mark.parametrize("make", [*SAME.values(), *DIFFERENT.values()], ids=[*SAME, *DIFFERENT])
def test_a_model_that_remembers_is_left_as_it_was(make: Callable[[], Model]) -> None:
    model, random = make(), torch.get_rng_state()
    before = copy.deepcopy(vars(model))
    with contextlib.suppress(TraceError):
        to_nir(model)
    assert torch.equal(torch.get_rng_state(), random)
    assert repr(vars(model)["_buffers"]) == repr(before["_buffers"])
    assert (model.number, model.tensor) == (before["number"], before["tensor"])
    assert repr(model.held.get("line")) == repr(before["held"].get("line"))


def test_a_constant_has_the_value_that_it_has_where_it_is_used() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.neuron = linear(), lif()

        def forward(self, x: Tensor, v: Any = None) -> Any:
            factor = torch.full((3,), 0.5, dtype=torch.float64)
            current = self.layer(x) * factor
            factor += 1.0
            return self.neuron(current * factor, v)

    check_written(Twice(), inputs(3), carried=1)


class InBuffers(torch.nn.Module):
    """State in buffers, as scripts have it that save it with the model."""

    def __init__(self, first: Tensor | None) -> None:
        super().__init__()
        options: dict[str, Any] = {"reset_mechanism": "zero", "reset_delay": False}
        self.layer, self.back = linear().float(), linear(seed=2, bias=False).float()
        self.neuron = snntorch.Leaky(0.8, **options)
        self.potential: Any
        self.last: Any
        self.register_buffer("potential", torch.zeros(2, 3))
        self.register_buffer("last", first)

    def forward(self, x: Tensor) -> Any:
        last = 0.0 if self.last is None else self.back(self.last)
        self.last, self.potential = self.neuron(self.layer(x) - last, self.potential)
        return self.last


@pytest.mark.parametrize("first", [torch.zeros(2, 3), None])
def test_state_in_buffers_is_state(first: Tensor | None) -> None:
    model = InBuffers(first)
    graph = check_written(model, inputs(3).float(), framework="snntorch", tolerance=1e-6)
    assert ("neuron", "back") in graph.edges


class Reading(torch.nn.Module):
    """A model that looks at what its neuron keeps in itself."""

    def __init__(self, neuron: torch.nn.Module, name: str) -> None:
        super().__init__()
        self.layer, self.neuron, self.name = linear().float(), neuron, name

    def forward(self, x: Tensor) -> Any:
        out = self.neuron(self.layer(x))
        return out + getattr(self.neuron, self.name)


KEEPING: dict[str, tuple[str, Callable[[], torch.nn.Module], str]] = {
    "spikingjelly": ("spikingjelly", lambda: NEURONS.LIFNode(tau=2.0, v_reset=0.0), "v"),
    "snntorch": (
        "snntorch",
        lambda: snntorch.Leaky(0.8, reset_mechanism="zero", reset_delay=False, init_hidden=True),
        "mem",
    ),
}


@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize(("framework", "make", "name"), KEEPING.values(), ids=KEEPING)
def test_state_that_a_module_keeps_in_itself_is_no_signal(
    framework: str, make: Callable[[], torch.nn.Module], name: str, has_run: bool
) -> None:
    """It is a number at first, and a tensor of zeros after a reset: both are other ones in the next step."""
    model = Reading(make(), name)
    if has_run:
        model(torch.ones(2, 3))
    with pytest.raises(TraceError, match=r"test_next_call\.py.*the state of a module"):
        to_nir(model, framework)


def test_state_that_a_module_keeps_in_itself_may_be_returned_beside_the_output() -> None:
    class Monitored(Reading):
        def forward(self, x: Tensor) -> Any:
            return self.neuron(self.layer(x)), getattr(self.neuron, self.name)

    framework, make, name = KEEPING["snntorch"]
    graph = to_nir(Monitored(make(), name), framework)
    assert [type(node).__name__ for node in graph.nodes.values()] == ["Input", "Affine", "LIF", "Output"]


def test_a_model_that_was_run_is_written_as_before() -> None:
    model, xs = Model(plain, pushed, line=[]), inputs(3)
    stepped(model, xs[:5], 1)
    graph = check_written(model, xs, carried=1)
    np.testing.assert_array_equal(graph.nodes["layer"].weight, model.layer.weight.detach().numpy())


CALLS = {"count": 0.0}


class Based(torch.nn.Module):
    """Its forward, which counts in a table of its file, is that of a class of its own."""

    layer: torch.nn.Module

    def forward(self, x: Tensor) -> Any:
        CALLS["count"] += 1.0
        return self.layer(x) * CALLS["count"]


class Inheriting(Based):
    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()


def test_a_counter_outside_of_the_model_is_seen_too() -> None:
    with pytest.raises(TraceError, match="its next call does something else"):
        to_nir(Inheriting())


def hooked() -> torch.nn.Module:
    """A container of torch whose hook counts."""
    model = torch.nn.Sequential(linear())

    def count(module: torch.nn.Module, given: Any, output: Any) -> Any:
        CALLS["count"] += 1.0
        return output * CALLS["count"]

    model.register_forward_hook(count)
    return model


def test_a_counter_in_a_hook_of_a_container_is_seen_too() -> None:
    with pytest.raises(TraceError, match="its next call does something else"):
        to_nir(hooked())


class Random(torch.nn.Module):
    """Random numbers of all kinds, which nothing depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()

    def forward(self, x: Tensor) -> Any:
        random.random()
        np.random.rand()
        torch.rand(1)
        return self.layer(x)


def test_random_numbers_go_on_as_if_nothing_was_written() -> None:
    model = Random()
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    to_nir(model)
    assert random.getstate() == before[0]
    np.testing.assert_equal(np.random.get_state(), before[1])
    assert torch.equal(torch.get_rng_state(), before[2])

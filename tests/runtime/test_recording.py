"""State in every form that users give it: what comes back as state is a recurrent edge, or leaves no trace.

If these fail, someone's recurrent connection is lost, or taken a step too late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from nirmap.errors import TraceError
from nirmap.oracle.interpreter import simulate
from written import DT, check_written, edges, inputs, lif, linear, stepped, to_nir

Tensor = torch.Tensor
RECURRENT = {("x", "fc"), ("fc", "lif"), ("lif", "rec"), ("rec", "lif"), ("lif", "output")}


class Base(torch.nn.Module):
    """Two inputs, three recurrent neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = linear(2, 3)
        self.lif = lif()
        self.rec = linear(3, 3, seed=5)


class Fed(NamedTuple):
    z: Any
    v: Any


@dataclass
class Kept:
    z: Any
    v: Any


class TupleState(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        z, v = (torch.zeros(x.shape[0], 3, dtype=x.dtype), None) if state is None else state
        z, v = self.lif(self.fc(x) + self.rec(z), v)
        return z, (z, v)


class OptionalFeedback(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        z, v = (None, None) if state is None else state
        h = self.fc(x)
        h = h + self.rec(torch.zeros(x.shape[0], 3, dtype=x.dtype) if z is None else z)
        z, v = self.lif(h, v)
        return z, (z, v)


class DictState(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        state = state or {"lif": None, "z": torch.zeros(1, 3, dtype=x.dtype)}
        z, v = self.lif(self.rec(state["z"]) + self.fc(x), state["lif"])
        return z, {"z": z, "lif": v}


class NamedState(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        if state is None:
            state = Fed(torch.zeros(1, 3, dtype=x.dtype), None)
        z, v = self.lif(self.fc(x) + self.rec(state.z), state.v)
        return z, state._replace(z=z, v=v)


class DataclassState(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        if state is None:
            state = Kept(torch.zeros(1, 3, dtype=x.dtype), None)
        z, v = self.lif(self.fc(x) + self.rec(state.z), state.v)
        return z, Kept(z, v)


class ListState(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        state = [torch.zeros(1, 3, dtype=x.dtype), None] if state is None else list(state)
        state[0], state[1] = self.lif(self.fc(x) + self.rec(state[0]), state[1])
        return state[0], state


class SeparateArguments(Base):
    def forward(self, x: Tensor, z: Any = None, v: Any = None) -> Any:
        h = self.fc(x) + self.rec(torch.zeros(1, 3, dtype=x.dtype) if z is None else z)
        z, v = self.lif(h, v)
        return z, z, v


class OutputIsState(Base):
    def forward(self, x: Tensor, z: Any = None, v: Any = None) -> Any:
        h = self.fc(x) + self.rec(torch.zeros(1, 3, dtype=x.dtype) if z is None else z)
        return self.lif(h, v)


class InAttributes(Base):
    z: Any = None
    v: Any = None

    def forward(self, x: Tensor) -> Any:
        z = torch.zeros(1, 3, dtype=x.dtype) if self.z is None else self.z
        self.z, self.v = self.lif(self.fc(x) + self.rec(z), self.v)
        return self.z


class InADictOfTheModel(Base):
    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Any] = {}

    def forward(self, x: Tensor) -> Any:
        z = self.kept.get("z", torch.zeros(1, 3, dtype=x.dtype))
        z, self.kept["v"] = self.lif(self.fc(x) + self.rec(z), self.kept.get("v"))
        self.kept["z"] = z
        return z


@pytest.mark.parametrize(
    ("model", "carried"),
    [
        (TupleState, 1),
        (OptionalFeedback, 1),
        (DictState, 1),
        (NamedState, 1),
        (DataclassState, 1),
        (ListState, 1),
        (SeparateArguments, 2),
        (OutputIsState, 2),
        (InAttributes, 0),
        (InADictOfTheModel, 0),
    ],
)
def test_an_output_that_comes_back_through_the_models_own_state_is_a_recurrent_edge(
    model: Callable[[], torch.nn.Module], carried: int
) -> None:
    graph = check_written(model(), inputs(2), carried=carried)
    assert edges(graph) == RECURRENT


class NeedsState(Base):
    def forward(self, x: Tensor, state: Any) -> Any:
        z, v = state
        z, v = self.lif(self.fc(x) + self.rec(z), v)
        return z, (z, v)


def test_a_state_without_default_is_known_by_its_use() -> None:
    model, xs = NeedsState(), inputs(2)
    graph = to_nir(model, dt=DT)
    assert edges(graph) == RECURRENT

    class Started(torch.nn.Module):
        def forward(self, x: Tensor, state: Any = None) -> Any:
            zeros = torch.zeros(2, 3, dtype=x.dtype)
            return model(x, (zeros, {"v": zeros}) if state is None else state)

    np.testing.assert_array_equal(
        simulate(graph, xs.numpy(), DT).outputs["output"], stepped(Started(), xs, 1).numpy()
    )


class Swapped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = lif(), lif()

    def forward(self, x: Tensor, state: Any = None) -> Any:
        first, second = (None, None) if state is None else state
        y, first = self.a(x, first)
        y, second = self.b(y, second)
        return y, (second, first)


def test_a_state_that_would_go_to_another_neuron_is_refused() -> None:
    with pytest.raises(TraceError, match=r"node 'a': its state becomes that of 'b' in the next step"):
        to_nir(Swapped())


class LateLayer(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        h, v = (torch.zeros(1, 3, dtype=x.dtype), None) if state is None else state
        z, v = self.lif(self.fc(x) + h, v)
        return z, (self.rec(z), v)


class TwoStepsLate(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        old, older, v = (
            (torch.zeros(1, 3, dtype=x.dtype), torch.zeros(1, 3), None) if state is None else state
        )
        z, v = self.lif(self.fc(x) + self.rec(older), v)
        return z, (z, old, v)


class PastOfAnOutput(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        old, v = (torch.zeros(1, 3, dtype=x.dtype), None) if state is None else state
        z, v = self.lif(self.fc(x), v)
        return self.rec(old), (z, v)


class Membrane(Base):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        state = {"v": torch.zeros(1, 3, dtype=x.dtype)} if state is None else state
        return self.lif(self.fc(x) + self.rec(state["v"]), state)


class NotReturned(Base):
    def forward(self, x: Tensor, z: Any) -> Any:
        y, _ = self.lif(self.fc(x) + self.rec(z[0]))
        return y


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LateLayer, r"edge 'lif' -> 'rec': it is not one step late in the module, unlike in the graph"),
        (TwoStepsLate, r"an entry of the state is used as a signal, and becomes something else"),
        (PastOfAnOutput, r"edge 'lif' -> 'rec': it is one step late in the module"),
        (Membrane, r"used as a signal|the state of a module"),
        (NotReturned, r"the state of a module"),
    ],
)
def test_a_feedback_that_nir_does_not_have_is_refused(
    model: Callable[[], torch.nn.Module], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        to_nir(model())


def test_a_layer_without_bias_may_be_fed_back_instead_of_the_spikes() -> None:
    model = LateLayer()
    model.rec = linear(bias=False, seed=5)
    assert edges(check_written(model, inputs(2), carried=1)) == RECURRENT

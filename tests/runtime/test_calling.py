"""Calling conventions, with modules as small as they can be: if these fail, state goes into a module in another way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import pytest
import torch

from nirmap.calling import CELLS, build_cell
from nirmap_registry.rows import Placement, Row, StateCall, Values, Variable
from runtime.suitable import DT, numbers


class Kept(NamedTuple):
    """The state as a record."""

    memory: torch.Tensor
    spare: torch.Tensor


class Explicit(torch.nn.Module):
    """The sum of all inputs, with the state in a dictionary."""

    def forward(self, x: torch.Tensor, state: dict[str, torch.Tensor]) -> Any:
        after = state["memory"] + x
        return after, {"memory": after}


class Recorded(torch.nn.Module):
    """The same with a record, of which one field is zero before each step."""

    def forward(self, x: torch.Tensor, state: Kept) -> Any:
        after = state.memory + x + state.spare
        return after, Kept(after, after)


class Positional(torch.nn.Module):
    """The same with an argument."""

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> Any:
        after = memory + x
        return after, after


class Hidden(torch.nn.Module):
    """The same with an attribute, and an axis of time in front."""

    memory: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.memory = self.memory + x.sum(0)
        return self.memory.unsqueeze(0)


def row_of(module: type[torch.nn.Module], state: StateCall) -> Row:
    """A row by which an integrator is built."""

    def build(node: Values, dt: float, to: Placement) -> torch.nn.Module:
        return module()

    def read(module: Any, dt: float) -> Values:
        return {"r": 1 / dt}

    return Row("I", module, module.__name__, "here", "forward_euler", build, read, state=state)


MEMORY = (Variable("v", "memory"),)
CONVENTIONS = {
    "explicit": row_of(Explicit, StateCall("explicit", "state", MEMORY)),
    "record": row_of(Recorded, StateCall("record", "state", MEMORY, record=Kept, zeroed=("spare",))),
    "positional": row_of(Positional, StateCall("positional", "memory", MEMORY)),
    "attributes": row_of(Hidden, StateCall("attributes", "", MEMORY, time_axis=0)),
}


def test_every_convention_of_the_declarations_has_a_cell_and_a_test() -> None:
    declared = set(get_args(get_type_hints(StateCall)["call"]))
    assert set(CELLS) == set(CONVENTIONS) == declared


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_state_goes_in_and_comes_out(convention: str) -> None:
    cell: Any = build_cell(CONVENTIONS[convention], {"r": np.full(3, 1 / DT)}, DT, Placement(torch.float64))
    before = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for state, expected in ((None, [0.5, 0.5, 0.5]), ({"v": before}, [1.5, 2.5, 3.5])):
        output, after = cell(torch.full((3,), 0.5, dtype=torch.float64), state)
        assert numbers(output) == numbers(after["v"]) == expected
    assert numbers(before) == [1.0, 2.0, 3.0]
    assert not hasattr(cell.module, "memory")
    np.testing.assert_array_equal(cell.read(CONVENTIONS[convention], DT)["r"], np.full(3, 1 / DT))


def test_a_row_that_is_stateless_or_never_built_has_no_cell() -> None:
    row = CONVENTIONS["explicit"]
    with pytest.raises(TypeError, match="stateless"):
        build_cell(replace(row, state=None), {}, DT, Placement())
    with pytest.raises(TypeError, match="never built"):
        build_cell(replace(row, build=None), {}, DT, Placement())
    broken = replace(row, state=StateCall("record", "state", MEMORY))
    cell = build_cell(broken, {"r": np.ones(1)}, DT, Placement())
    with pytest.raises(TypeError, match="without its record"):
        cell(torch.ones(1))

"""Modules that keep one sample's state: if these fail, a batch runs with another one's state, or leaves some behind."""

from __future__ import annotations

from typing import Any

import torch

from nirmap.stand_in import Allocating, StandIn, spread_already
from runtime.suitable import numbers


class Counting(torch.nn.Module):
    """A module whose forward sets and changes what it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.level = torch.zeros(1)
        self.record: dict[str, Any] = {}
        self.gain = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.level = self.level + self.gain * x
        self.record["last"] = self.level
        return self.level


def test_what_forward_sets_stays_in_the_stand_in() -> None:
    module: Any = Counting()
    stand_in: Any = StandIn(module, {"level": torch.ones(3)})
    output = Counting.forward(stand_in, torch.ones(3))
    assert numbers(output) == numbers(stand_in.level) == [3.0, 3.0, 3.0]
    assert stand_in.record.keys() == {"last"}
    assert (module.level.tolist(), module.record) == ([0.0], {})


def test_a_state_that_was_spread_is_a_copy() -> None:
    data, state = torch.ones(2), torch.zeros(2)
    same, (copied,) = spread_already(data, (state,))
    copied.add_(1)
    assert same is data
    assert numbers(state) == [0.0, 0.0]


def test_tensors_that_forward_makes_have_the_dtype_of_the_input() -> None:
    with Allocating(torch.float64, torch.device("cpu")):
        assert torch.zeros(1).dtype == torch.float64
        assert torch.ones(1, dtype=torch.float32).dtype == torch.float32
    assert torch.zeros(1).dtype == torch.get_default_dtype()


def test_tensors_that_forward_makes_are_where_the_input_is() -> None:
    with Allocating(torch.float32, torch.device("meta")):
        assert torch.zeros(1).is_meta
        assert not torch.zeros(1, device="cpu").is_meta
    assert not torch.zeros(1).is_meta

"""What torch wraps or compiles a model into is refused with the way back to the model.

If these fail, somebody who trained a compiled model gets an error from deep inside of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nirmap.errors import TraceError
from written import linear, to_nir

Module = torch.nn.Module
SWA: Any = torch.optim.swa_utils


def compiled(module: Module) -> Any:
    return torch.compile(module)


def scripted(module: Module) -> Any:
    jit: Any = torch.jit
    return jit.script(module)


WRAPPED: dict[str, tuple[Callable[[Module], Any], str]] = {
    "torch.compile": (compiled, "_orig_mod"),
    "torch.jit": (scripted, "the module from which torch.jit.script"),
    "DataParallel": (torch.nn.DataParallel, "has as module"),
    "AveragedModel": (SWA.AveragedModel, "has as module"),
    "meta": (lambda module: module.to("meta"), "load the weights"),
    "lazy": (lambda _: torch.nn.LazyLinear(3), "call the model once"),
}


@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize(("wrap", "do"), WRAPPED.values(), ids=WRAPPED)
def test_a_wrapped_model_is_refused_with_the_way_back(
    wrap: Callable[[Module], Any], do: str, is_part: bool
) -> None:
    part = wrap(linear())
    with pytest.raises(TraceError) as caught:
        to_nir(torch.nn.Sequential(linear(), part) if is_part else part)
    assert do in str(caught.value.do)
    assert ("'1'" in caught.value.where) == is_part


def test_a_model_that_was_made_in_inference_mode_is_written() -> None:
    class Model(Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = linear()
            self.gain: Any
            self.register_buffer("gain", torch.full((3,), 0.5, dtype=torch.float64))

        @torch.inference_mode()
        def forward(self, x: torch.Tensor) -> Any:
            current: torch.Tensor = self.layer(x)
            return current * self.gain + torch.zeros(3)

    with torch.inference_mode():
        model = Model()
    graph = to_nir(model)
    assert graph.nodes["gain"].scale.tolist() == [0.5, 0.5, 0.5]
    assert model.gain.tolist() == [0.5, 0.5, 0.5]

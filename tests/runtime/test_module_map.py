"""A caller's own functions make the nodes of modules that no table knows, and override the tables.

If these fail, a user's mapping is ignored and the module is written as the table has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import pytest
import torch

from nirmap.errors import TraceError
from written import DT, edges, kinds, lif, linear, to_nir

Tensor = torch.Tensor


class Unknown(torch.nn.Module):
    """v += (x - v) / 2, with a layer inside that is not to be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = linear()

    def forward(self, x: Tensor, state: Any = None) -> Any:
        v = torch.zeros_like(x) if state is None else state
        v = v + (self.inside(x) - v) / 2
        return torch.sigmoid(v), v


class UsesUnknown(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.neuron = linear(4, 3), Unknown()

    def forward(self, x: Tensor, state: Any = None) -> Any:
        return self.neuron(self.fc(x), state)


def leak(module: torch.nn.Module) -> nir.NIRNode:
    return nir.LI(np.array(0.02), np.array(1.0), np.array(0.0), metadata={"made": "by hand"})


def always(made: Any) -> Callable[[torch.nn.Module], Any]:
    return lambda module: made


def test_a_function_of_the_caller_makes_the_node_and_its_module_is_not_entered() -> None:
    graph = to_nir(UsesUnknown(), module_map={Unknown: leak})
    assert edges(graph) == {("x", "fc"), ("fc", "neuron"), ("neuron", "output")}
    assert graph.nodes["neuron"].tau.tolist() == [0.02] * 3
    assert graph.nodes["neuron"].metadata == {"made": "by hand"}


def test_a_function_of_the_caller_overrides_the_table() -> None:
    def halved(module: torch.nn.Module) -> nir.NIRNode:
        assert isinstance(module, torch.nn.Linear)
        return nir.Linear(module.weight.detach().numpy() / 2)

    layer = linear()
    graph = to_nir(torch.nn.Sequential(layer, torch.nn.Identity()), module_map={torch.nn.Linear: halved})
    np.testing.assert_array_equal(graph.nodes["0"].weight, layer.weight.detach().numpy() / 2)
    assert kinds(graph)["0"] == "Linear"
    graph = to_nir(
        torch.nn.Sequential(torch.nn.Identity()),
        module_map={torch.nn.Identity: always(nir.Scale(np.array([2.0, 3.0])))},
    )
    assert kinds(graph)["0"] == "Scale"


def test_a_function_of_the_caller_may_make_a_sub_graph() -> None:
    inner = to_nir(torch.nn.Sequential(linear(), lif()), dt=DT)
    graph = to_nir(UsesUnknown(), module_map={Unknown: always(inner)})
    assert kinds(graph)["neuron"] == "NIRGraph"


@pytest.mark.parametrize("made", [None, 3, torch.nn.Linear])
def test_a_function_of_the_caller_that_makes_no_node_is_refused(made: Any) -> None:
    with pytest.raises(TraceError, match=r"module 'neuron'.*the function in module_map returned"):
        to_nir(UsesUnknown(), module_map={Unknown: always(made)})


def test_a_stateful_module_of_the_caller_cannot_be_used_twice() -> None:
    class Twice(UsesUnknown):
        def forward(self, x: Tensor, state: Any = None) -> Any:
            y, _ = self.neuron(self.fc(x))
            return self.neuron(y)[0]

    with pytest.raises(TraceError, match="used twice"):
        to_nir(Twice(), module_map={Unknown: leak})

"""Users' models become graphs that compute what the models compute, whatever way they pass their state.

If these fail, someone's model is written as another network, or under names that they do not know, or is changed by it.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.errors import GraphError, TraceError
from written import DT, check_written, cuba, edges, inputs, is_tuple, kinds, li, lif, linear, to_nir

Tensor = torch.Tensor


class Recurrent(torch.nn.Module):
    """Two inputs, is_tuple, three recurrent neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lif, self.rec = linear(2, 3), lif(), linear(3, 3, seed=5)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        z, v = (torch.zeros(1, 3, dtype=x.dtype), None) if state is None else state
        z, v = self.lif(self.fc(x) + self.rec(z), v)
        return z, (z, v)


class KeepsAttributes(Recurrent):
    z: Any = None
    v: Any = None

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        z = torch.zeros(1, 3, dtype=x.dtype) if self.z is None else self.z
        self.z, self.v = self.lif(self.fc(x) + self.rec(z), self.v)
        return self.z


class KeepsADictionary(Recurrent):
    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Any] = {}

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        z = self.kept.get("z", torch.zeros(1, 3, dtype=x.dtype))
        z, self.kept["v"] = self.lif(self.fc(x) + self.rec(z), self.kept.get("v"))
        self.kept["z"] = z
        return z


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lif, self.out, self.li = linear(2, 3), lif(), linear(3, 2), li(2)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        first, second = (None, None) if state is None else (state["a"], state["b"])
        z, first = self.lif(self.fc(x), first)
        y, second = self.li(self.out(z), second)
        return y, {"a": first, "b": second}


def test_state_leaves_no_node_and_no_edge() -> None:
    graph = check_written(Plain(), inputs(2), carried=1, is_spiking=False)
    assert edges(graph) == {("x", "fc"), ("fc", "lif"), ("lif", "out"), ("out", "li"), ("li", "output")}
    assert kinds(graph)["out"] == "Affine"


def test_dt_is_in_the_metadata_and_the_input_has_no_batch() -> None:
    graph = to_nir(Plain(), dt=2.5e-4 * 0.4)
    assert graph.metadata == {"dt": pytest.approx(1e-4)}
    assert graph.nodes["x"].input_type["input"].tolist() == [2]
    assert graph.nodes["output"].output_type["output"].tolist() == [2]


def test_names_keep_the_hierarchy_of_the_modules() -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(linear(3, 3), torch.nn.Identity(), linear(3, 3))
            self.cell = lif()

        def forward(self, x: Tensor) -> Tensor:
            z: Tensor = self.cell(self.layers(x))[0]
            return z

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.ModuleList([Block(), Block()])
            self.heads = torch.nn.ModuleDict({"left": linear(3, 1)})

        def forward(self, x: Tensor) -> Tensor:
            for block in self.encoder:
                x = block(x)
            y: Tensor = self.heads["left"](x)
            return y

    assert list(to_nir(Whole()).nodes) == [
        "x",
        "encoder.0.layers.0",
        "encoder.0.layers.2",
        "encoder.0.cell",
        "encoder.1.layers.0",
        "encoder.1.layers.2",
        "encoder.1.cell",
        "heads.left",
        "output",
    ]


def test_several_inputs_and_outputs_go_by_the_names_of_the_model() -> None:
    class Answer(NamedTuple):
        spikes: Any
        level: Any

    class TwoByTwo(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.lif = linear(2, 3), linear(4, 3), lif()

        def forward(self, left: Tensor, right: Tensor, state: Any = None) -> Answer:
            h = self.a(left) + self.b(right)
            return Answer(self.lif(h, state)[0], h)

    graph = to_nir(TwoByTwo())
    assert {name for name, kind in kinds(graph).items() if kind == "Output"} == {"spikes", "level"}
    assert graph.nodes["right"].input_type["input"].tolist() == [4]
    assert {("left", "a"), ("right", "b"), ("a", "level"), ("b", "level"), ("a", "lif")} < edges(graph)


def test_unnamed_outputs_are_numbered() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = linear(2, 3), linear(2, 3)

        def forward(self, x: Tensor) -> Any:
            return self.a(x), self.b(x)

    assert {("a", "output_0"), ("b", "output_1")} < edges(to_nir(Two()))


def test_a_shared_stateless_layer_is_two_nodes_with_equal_weights() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k, self.k_1 = linear(), lif()

        def forward(self, x: Tensor) -> Any:
            return self.k_1(self.k(self.k(x)))[0]

    model = Twice()
    graph = to_nir(model)
    assert kinds(graph) == {"x": "Input", "k": "Affine", "k_1": "Affine", "k_1_1": "LIF", "output": "Output"}
    np.testing.assert_array_equal(graph.nodes["k"].weight, graph.nodes["k_1"].weight)
    graph.nodes["k"].weight[:] = 0
    assert graph.nodes["k_1"].weight.any()
    assert model.k.weight.any()


def test_a_default_that_is_no_state_is_used_as_it_is() -> None:
    class Gain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = linear()

        def forward(self, x: Tensor, gain: float = 2.0, *, double: bool = True) -> Tensor:
            y: Tensor = self.fc(x) * gain
            return y if double else x

    graph = check_written(Gain(), inputs(3), is_spiking=False)
    assert graph.nodes["fc_times"].scale.tolist() == [2, 2, 2]


def test_what_no_output_depends_on_is_not_written_and_an_unused_input_is_refused() -> None:
    class Aside(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.aside = linear(), linear()

        def forward(self, x: Tensor) -> Any:
            self.aside(x)
            return self.fc(x)

    assert set(to_nir(Aside()).nodes) == {"x", "fc", "output"}

    class Unused(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = linear()

        def forward(self, x: Tensor, y: Tensor) -> Any:
            return self.fc(x)

    with pytest.raises(TraceError, match="input 'y': no output depends on it"):
        to_nir(Unused())


def test_a_single_layer_is_a_model() -> None:
    assert kinds(to_nir(linear())) == {"input": "Input", "0": "Affine", "output": "Output"}
    assert kinds(to_nir(cuba()))["0"] == "CubaLIF"


@pytest.mark.parametrize("model", [Plain, KeepsAttributes, KeepsADictionary])
def test_writing_a_model_leaves_it_as_it_was(model: Callable[[], torch.nn.Module]) -> None:
    class Counting(torch.nn.Module):
        count: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.inner = model()
            self.register_buffer("count", torch.zeros(()))
            self.history: list[Any] = ["before"]

        def forward(self, x: Tensor) -> Any:
            self.count += 1
            self.history.append(x)
            self.last = x
            z: Any = self.inner(x)
            return z[0] if is_tuple(z) else z

    one = Counting().train()
    with torch.no_grad():
        one(inputs(2)[0])
    parts: dict[str, torch.nn.Module] = {"": one, "inner": one.inner}
    attributes = copy.deepcopy({name: {**vars(part)} for name, part in parts.items()})
    values = copy.deepcopy(one.state_dict())
    to_nir(one)
    assert one.training
    assert one.inner.training
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, values[name], rtol=0, atol=0)
    for name, part in parts.items():
        assert vars(part).keys() == attributes[name].keys()
        for attribute, value in vars(part).items():
            assert repr(value) == repr(attributes[name][attribute]), (name, attribute)


def test_a_model_in_bfloat16_or_with_gradients_is_written(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 1).to(torch.bfloat16)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.5, -2.0]]))
    neuron = lif(1).to(torch.bfloat16)
    neuron.train_parameters(["tau"])

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.lif = layer, neuron

        def forward(self, x: Tensor) -> Any:
            return self.lif(self.fc(x))[0]

    graph = to_nir(Model(), path=tmp_path / "a.nir")
    assert graph.nodes["fc"].weight.dtype == np.float32
    assert graph.nodes["fc"].weight.tolist() == [[1.5, -2.0]]
    assert nir.read(tmp_path / "a.nir").metadata["dt"] == 1e-4


def test_the_order_of_a_dictionary_of_modules_is_that_of_the_calls() -> None:
    class Dicts(torch.nn.Module):
        def __init__(self, names: str) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleDict(OrderedDict((name, linear(seed=ord(name))) for name in names))

        def forward(self, x: Tensor) -> Any:
            return self.parts["a"](x) + self.parts["b"](self.parts["c"](x))

    first, second = to_nir(Dicts("abc")), to_nir(Dicts("cba"))
    assert list(first.nodes) == list(second.nodes)
    assert list(first.edges) == list(second.edges)


def test_a_network_rebuilt_for_another_time_step_is_refused() -> None:
    net = nirmap.from_nir(to_nir(linear(), dt=1e-3))
    with pytest.raises(TraceError, match=r"0\.0001 s for a network that was rebuilt for 0\.001 s"):
        to_nir(net, dt=1e-4)


def test_a_rebuilt_network_inside_of_a_model_is_a_sub_graph() -> None:
    inner = nirmap.from_nir(to_nir(Recurrent(), dt=DT), dt=DT, dtype=torch.float64)

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pre, self.inner, self.post = linear(2, 2), inner, linear(3, 3)

        def forward(self, x: Tensor, state: Any = None) -> Any:
            z, state = self.inner(self.pre(x), state)
            return self.post(z), state

    graph = check_written(Outer(), inputs(2), carried=1, is_spiking=False)
    assert set(graph.nodes["inner"].nodes) == {"x", "fc", "lif", "rec", "output"}


@pytest.mark.parametrize("dt", [0.0, -1.0, float("nan")])
def test_a_time_step_that_is_none_is_refused(dt: float) -> None:
    with pytest.raises(TraceError, match="dt"):
        to_nir(linear(), dt=dt)


@pytest.mark.parametrize("sample", [torch.zeros(()), (torch.zeros(1, 3), torch.zeros(1, 3))])
def test_a_sample_that_does_not_fit_is_refused(sample: Any) -> None:
    with pytest.raises((TraceError, GraphError), match="sample"):
        to_nir(linear(), sample=sample)

"""Where the two functions of nirtorch 2.6 are wrong, and nirmap's are right: ``docs/from-nirtorch.md`` lists them.

If these fail, a user who switches from nirtorch keeps one of its faults. Where nirtorch gives a wrong result,
and not none, the test shows that too; where it never ends, nirmap alone is asked.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import nir
import nirtorch
import numpy as np
import pytest
import torch
from torch.package.importer import ObjNotFoundError

import nirmap

Tensor = torch.Tensor
Edges = list[tuple[str, str]]


def linear(*rows: tuple[float, ...]) -> nir.Linear:
    return nir.Linear(np.array(rows, dtype=np.float32))


def graph(
    nodes: dict[str, nir.NIRNode], edges: Edges, size: int = 1, after: int | None = None
) -> nir.NIRGraph:
    ends = {
        "input": nir.Input({"input": np.array([size])}),
        "output": nir.Output({"output": np.array([after or size])}),
    }
    return nir.NIRGraph({**ends, **nodes}, edges, type_check=False)


def series(**nodes: nir.NIRNode) -> nir.NIRGraph:
    names = ["input", *nodes, "output"]
    return graph(nodes, list(pairwise(names)))


def weight(written: nir.NIRGraph, name: str) -> np.ndarray[Any, Any]:
    node: Any = written.nodes[name]
    kept: np.ndarray[Any, Any] = node.weight
    return kept


def images(node: nir.NIRNode, before: tuple[int, ...], after: tuple[int, ...]) -> nir.NIRGraph:
    nodes = {
        "input": nir.Input({"input": np.array(before)}),
        "node": node,
        "output": nir.Output({"output": np.array(after)}),
    }
    return nir.NIRGraph(nodes, [("input", "node"), ("node", "output")], type_check=False)


class Leak(torch.nn.Module):
    """v += x, which it returns."""

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        v = x if state is None else state + x
        return v, v


def leak_node() -> nir.I:
    return nir.I(np.ones(1, np.float32))


LEAK: dict[Any, Callable[[Any], Any]] = {nir.I: lambda node: Leak()}


# From NIR


def test_the_bias_of_an_affine_node_is_used() -> None:
    whole = series(fc=nir.Affine(np.array([[2.0]], np.float32), np.array([70.0], np.float32)))
    x = torch.tensor([[1.0]])
    assert nirtorch.nir_to_torch(whole, {})(x)[0].item() < 10
    assert nirmap.nir_to_torch(whole, {})(x)[0].item() == 72


def test_a_sum_pool_is_padded() -> None:
    pool = nir.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([1, 1]))
    whole = images(pool, (1, 2, 2), (1, 2, 2))
    assert nirtorch.nir_to_torch(whole, {})(torch.ones(1, 1, 2, 2))[0].tolist() == [[[[4]]]]
    assert nirmap.nir_to_torch(whole, {})(torch.ones(1, 1, 2, 2))[0].tolist() == [[[[1, 1], [1, 1]]]]


def test_a_batch_is_not_flattened() -> None:
    whole = images(nir.Flatten({"input": np.array([2, 2])}, 0, -1), (2, 2), (4,))
    assert nirtorch.nir_to_torch(whole, {})(torch.ones(3, 2, 2))[0].shape == (12,)
    assert nirmap.nir_to_torch(whole, {})(torch.ones(3, 2, 2))[0].shape == (3, 4)


def test_a_grouped_convolution_is_rebuilt() -> None:
    kernel = np.array([2, 3], np.float32).reshape(2, 1, 1, 1)
    whole = images(nir.Conv2d((1, 1), kernel, 1, 0, 1, 2, np.zeros(2, np.float32)), (2, 1, 1), (2, 1, 1))
    with pytest.raises(ValueError, match="divisible"):
        nirtorch.nir_to_torch(whole, {})
    assert nirmap.nir_to_torch(whole, {})(torch.ones(1, 2, 1, 1))[0].flatten().tolist() == [2, 3]


@pytest.mark.parametrize("names", [("a.b", "a_b"), ("if", "nir_node_if")])
def test_names_that_become_alike_stay_two_nodes(names: tuple[str, str]) -> None:
    whole = series(**{names[0]: linear((2.0,)), names[1]: linear((5.0,))})
    x = torch.ones(1, 1)
    assert nirtorch.nir_to_torch(whole, {})(x)[0].item() != 10
    assert nirmap.nir_to_torch(whole, {})(x)[0].item() == 10


def test_the_name_of_a_node_is_never_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "ran", False, raising=False)
    whole = series(**{'x", setattr(torch, "ran", True)); #': linear((2.0,))})
    nirtorch.nir_to_torch(whole, {})(torch.ones(1, 1))
    assert vars(torch)["ran"] is True
    monkeypatch.setattr(torch, "ran", False)
    assert nirmap.nir_to_torch(whole, {})(torch.ones(1, 1))[0].item() == 2
    assert vars(torch)["ran"] is False


def test_several_inputs_are_arguments_in_the_order_of_their_names() -> None:
    nodes: dict[str, nir.NIRNode] = {
        "b": nir.Input({"input": np.array([1])}),
        "a": nir.Input({"input": np.array([1])}),
        "fc": linear((3.0,)),
        "output": nir.Output({"output": np.array([1])}),
    }
    whole = nir.NIRGraph(nodes, [("a", "fc"), ("fc", "output"), ("b", "output")], type_check=False)
    with pytest.raises(RuntimeError, match="redefined"):
        nirtorch.nir_to_torch(whole, {})
    assert nirmap.nir_to_torch(whole, {})(torch.ones(1, 1), 2 * torch.ones(1, 1))[0].item() == 5


def test_several_outputs_come_by_name() -> None:
    nodes: dict[str, nir.NIRNode] = {"fc": linear((3.0,)), "other": nir.Output({"output": np.array([1])})}
    whole = graph(nodes, [("input", "fc"), ("fc", "output"), ("input", "other")])
    output, _ = nirmap.nir_to_torch(whole, {})(torch.ones(1, 1))
    assert {name: value.item() for name, value in output.items()} == {"other": 1, "output": 3}


@pytest.mark.parametrize(
    ("edges", "named"),
    [
        ([("input", "fc"), ("fc", "output"), ("fc", "nowhere")], "nowhere"),
        ([("input", "output"), ("fc", "other"), ("other", "fc"), ("fc", "output")], "fc"),
        ([("input", "fc"), ("input", "fc"), ("fc", "other"), ("other", "output")], "fc"),
    ],
    ids=["an edge to nowhere", "a cycle without input", "an edge twice"],
)
def test_a_malformed_graph_is_refused_at_once(edges: Edges, named: str) -> None:
    whole = graph({"fc": linear((3.0,)), "other": linear((1.0,))}, edges)
    whole.edges = list(edges)
    with pytest.raises(nirmap.GraphError, match=named):
        nirmap.nir_to_torch(whole, {})


def test_what_arrives_at_an_output_is_added() -> None:
    whole = graph({"fc": linear((3.0,))}, [("input", "fc"), ("fc", "output"), ("input", "output")])
    assert len(nirtorch.nir_to_torch(whole, {})(torch.ones(1, 1))) == 3
    output, state = nirmap.nir_to_torch(whole, {})(torch.ones(1, 1))
    assert (output.item(), state) == (4, {})


def test_the_state_that_is_passed_in_is_not_changed() -> None:
    whole = series(leak=leak_node())
    x = torch.ones(1, 1)
    for library, expected in ((nirtorch, 2), (nirmap, 1)):
        net = library.nir_to_torch(whole, LEAK)
        _, state = net(x)
        net(x, state)
        assert state["leak"].item() == expected


def test_the_state_has_entries_for_nodes_with_state_alone() -> None:
    whole = series(fc=linear((2.0,)), leak=leak_node())
    assert nirtorch.nir_to_torch(whole, LEAK)(torch.ones(1, 1))[1].keys() == {"input", "fc", "leak", "output"}
    assert nirmap.nir_to_torch(whole, LEAK)(torch.ones(1, 1))[1].keys() == {"leak"}


def test_what_is_fed_back_first_has_the_dtype_of_the_network() -> None:
    nodes: dict[str, nir.NIRNode] = {"fc": linear((1.0,)), "back": linear((0.5,)), "leak": leak_node()}
    edges = [("input", "leak"), ("leak", "fc"), ("fc", "output"), ("leak", "back"), ("back", "leak")]
    net = nirmap.nir_to_torch(graph(nodes, edges), LEAK, dtype=torch.bfloat16)
    output, state = net(torch.ones(1, 1, dtype=torch.bfloat16))
    output, state = net(torch.ones(1, 1, dtype=torch.bfloat16), state)
    assert (output.item(), output.dtype) == (2.5, torch.bfloat16)


def test_a_network_can_be_pickled() -> None:
    whole = series(fc=linear((2.0,)))
    with pytest.raises(ObjNotFoundError):
        pickle.loads(pickle.dumps(nirtorch.nir_to_torch(whole, {})))
    again = pickle.loads(pickle.dumps(nirmap.nir_to_torch(whole, {})))
    assert again(torch.ones(1, 1))[0].item() == 2


def test_training_does_not_change_the_graph() -> None:
    for library, expected in ((nirtorch, 7), (nirmap, 2)):
        whole = series(fc=linear((2.0,)))
        with torch.no_grad():
            library.nir_to_torch(whole, {}).fc.weight.fill_(7)
        assert weight(whole, "fc").item() == expected


def test_an_entry_for_graphs_is_used() -> None:
    whole = series(part=series(fc=linear((2.0,))))
    entry: dict[Any, Callable[[Any], Any]] = {nir.NIRGraph: lambda node: torch.nn.Tanh()}
    assert isinstance(nirtorch.nir_to_torch(whole, entry).part, torch.fx.GraphModule)
    assert isinstance(nirmap.nir_to_torch(whole, entry).get_submodule("part"), torch.nn.Tanh)


def test_a_node_without_an_entry_is_built_from_the_table() -> None:
    whole = series(scale=nir.Scale(np.array([3.0], np.float32)))
    with pytest.raises(ValueError, match="Unknown node type"):
        nirtorch.nir_to_torch(whole, {})
    assert nirmap.nir_to_torch(whole, {})(torch.ones(1, 1))[0].item() == 3


def test_a_node_alone_has_the_dtype_that_is_asked_for() -> None:
    for library, expected in ((nirtorch, torch.float32), (nirmap, torch.float64)):
        assert library.nir_to_torch(linear((2.0,)), {}, dtype=torch.float64).weight.dtype is expected


@pytest.mark.parametrize("made", [None, 3])
def test_a_function_that_builds_no_module_is_named(made: Any) -> None:
    whole = series(leak=leak_node())
    entry: dict[Any, Callable[[Any], Any]] = {nir.I: lambda node: made}
    with pytest.raises((KeyError, TypeError, AttributeError)):
        nirtorch.nir_to_torch(whole, entry)(torch.ones(1, 1))
    with pytest.raises(nirmap.ConstraintError, match=r"node 'leak'.*function in node_map returned"):
        nirmap.nir_to_torch(whole, entry)


# To NIR


class Two(torch.nn.Module):
    def __init__(self, combine: Any) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
        self.p = torch.nn.Parameter(torch.ones(1))
        self.combine = combine
        with torch.no_grad():
            self.a.weight.fill_(2)
            self.b.weight.fill_(5)

    def forward(self, x: Tensor) -> Tensor:
        combined: Tensor = self.combine(self, x)
        return combined


SUMS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "a number": lambda net, x: net.a(x) + 1.0,
    "a parameter": lambda net, x: net.a(x) + net.p,
    "a factor": lambda net, x: net.a(x).add(net.b(x), alpha=3),
    "a difference": lambda net, x: net.a(x) - net.b(x),
    "a multiple": lambda net, x: net.a(x) * 2,
    "a value and itself": lambda net, x: (y := net.a(x)) + y,
    "torch.add": lambda net, x: torch.add(net.a(x), net.b(x)),
}


@pytest.mark.parametrize("name", SUMS)
def test_no_term_is_lost(name: str) -> None:
    module = Two(SUMS[name])
    x = torch.tensor([[3.0]])
    written = nirmap.torch_to_nir(module, {})
    torch.testing.assert_close(nirmap.nir_to_torch(written, {})(x)[0], module(x))
    if name in ("torch.add", "a difference", "a multiple"):
        with pytest.raises(ValueError, match="only supported function"):
            nirtorch.torch_to_nir(module, {})
    else:
        lost = nirtorch.torch_to_nir(module, {})
        assert not torch.equal(nirtorch.nir_to_torch(lost, {})(x)[0], module(x))


def test_an_entry_of_the_caller_overrides_the_defaults() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(1, 1))
    entry: dict[Any, Callable[[Any], Any]] = {torch.nn.Linear: lambda module: linear((9.0,))}
    assert type(nirtorch.torch_to_nir(module, entry).nodes["_0"]) is nir.Affine
    assert weight(nirmap.torch_to_nir(module, entry), "0").item() == 9


def test_a_second_input_is_not_left_out() -> None:
    class Inputs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            combined: Tensor = self.a(x) + self.b(y)
            return combined

    assert ("y", "b") not in nirtorch.torch_to_nir(Inputs(), {}).edges
    assert set(nirmap.torch_to_nir(Inputs(), {}).edges) >= {("x", "a"), ("y", "b")}


def test_layers_without_an_entry_are_read_from_the_table() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1, bias=False), torch.nn.Dropout(), torch.nn.Flatten())
    with pytest.raises(KeyError):
        nirtorch.torch_to_nir(module.eval(), {})
    written = nirmap.torch_to_nir(module, {}, sample=torch.ones(1, 1, 2, 2))
    assert sorted(type(node).__name__ for node in written.nodes.values()) == [
        "Conv2d", "Flatten", "Input", "Output",
    ]  # fmt: skip


def test_layers_in_half_precision_are_written() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(1, 1, dtype=torch.bfloat16))
    with pytest.raises(TypeError):
        nirtorch.torch_to_nir(module, {})
    (kept, _) = module.parameters()
    assert weight(nirmap.torch_to_nir(module, {}), "0").item() == kept.item()


def test_training_does_not_change_a_written_graph() -> None:
    for library, name, changed in ((nirtorch, "_0", True), (nirmap, "0", False)):
        module = torch.nn.Sequential(torch.nn.Linear(1, 1))
        written = library.torch_to_nir(module, {})
        before = copy.deepcopy(written.nodes[name].weight)
        with torch.no_grad():
            next(module.parameters()).add_(1)
        assert bool((written.nodes[name].weight != before).any()) is changed


def test_the_names_of_nodes_keep_the_hierarchy() -> None:
    module = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(1, 1)))
    assert set(nirtorch.torch_to_nir(module, {}).nodes) == {"input_1", "_0_0", "output"}
    assert set(nirmap.torch_to_nir(module, {}).nodes) == {"input", "0.0", "output"}


def test_an_argument_may_have_a_value() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(1, 1)

        def forward(self, x: Tensor, twice: bool) -> Tensor:
            y: Tensor = self.fc(x)
            return y * 2 if twice else y

    with pytest.raises(ValueError, match="only supported function"):
        nirtorch.torch_to_nir(Scaled(), {}, concrete_args={"twice": False})
    assert len(nirmap.torch_to_nir(Scaled(), {}, concrete_args={"twice": False}).nodes) == 3
    assert len(nirmap.torch_to_nir(Scaled(), {}, concrete_args={"twice": True}).nodes) == 4
    with pytest.raises(nirmap.TraceError, match=r"concrete_args: 'once'.*x, twice"):
        nirmap.torch_to_nir(Scaled(), {}, concrete_args={"once": True})


def test_what_returns_state_need_not_be_named() -> None:
    class Uses(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.leak = Leak()

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.leak(x)[0]
            return y

    entry: dict[Any, Callable[[Any], Any]] = {Leak: lambda module: nir.I(np.ones(2, np.float32))}
    with pytest.raises(ValueError, match="getitem"):
        nirtorch.torch_to_nir(Uses(), entry)
    assert set(nirmap.torch_to_nir(Uses(), entry).edges) == {("x", "leak"), ("leak", "output")}


def test_a_module_with_state_is_not_written_twice() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.leak = Leak()

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.leak(self.leak(x)[0])[0]
            return y

    entry: dict[Any, Callable[[Any], Any]] = {Leak: lambda module: leak_node()}
    assert len(nirtorch.torch_to_nir(Twice(), entry, stateful_modules={Leak}).nodes) == 4
    with pytest.raises(nirmap.TraceError, match="used twice"):
        nirmap.torch_to_nir(Twice(), entry)


def test_a_single_number_is_a_layer_of_any_size() -> None:
    """Its size is asked for, where it does not follow from another layer."""
    module = torch.nn.Sequential(torch.nn.Identity(), Leak())
    entry: dict[Any, Callable[[Any], Any]] = {Leak: lambda module: leak_node()}
    with pytest.raises(nirmap.GraphError, match="pass sample="):
        nirmap.torch_to_nir(module, entry)
    written = nirmap.torch_to_nir(module, entry, sample=torch.ones(1, 3))
    node: Any = written.nodes["1"]
    assert node.r.tolist() == [1, 1, 1]


def test_a_graph_without_types_is_written_only_if_asked_for() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.Conv2d(1, 1, 1))
    with pytest.raises(nirmap.GraphError, match="pass sample="):
        nirmap.torch_to_nir(module, {})
    written = nirmap.torch_to_nir(module, {}, type_check=False)
    node: Any = written.nodes["0"]
    assert node.input_shape is None

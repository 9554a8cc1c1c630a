"""The same dictionaries through nirtorch 2.6 and nirmap.

If these fail, a package that uses nirtorch cannot switch by changing an import.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nir
import nirtorch
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nirmap

Tensor = torch.Tensor
BOTH = pytest.mark.parametrize("library", [nirtorch, nirmap], ids=["nirtorch", "nirmap"])


class Leak(torch.nn.Module):
    """v += a (x - v), which it returns; its state is an argument that has to be named."""

    def __init__(self, a: float, size: int = 2) -> None:
        super().__init__()
        self.a, self.size = a, size

    def forward(self, x: Tensor, *, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        v = torch.zeros_like(x) if state is None else state
        v = v + self.a * (x - v)
        return v, v


class Stack(torch.nn.Module):
    """A layer, a leak whose state is handed on, and a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.leak, self.out = torch.nn.Linear(3, 2), Leak(0.5), torch.nn.Linear(2, 2, bias=False)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        y, _ = self.leak(self.fc(x), state=state)
        return self.out(y) + y


def integrator(size: int = 2, tau: float = 0.25) -> nir.LI:
    one = np.ones(size, np.float32)
    return nir.LI(tau * one, one, 0 * one)


def linear(size: int = 2, seed: int = 0) -> nir.Linear:
    return nir.Linear(np.random.default_rng(seed).uniform(-0.5, 0.5, (size, size)).astype(np.float32))


def graph(nodes: Mapping[str, nir.NIRNode], edges: list[tuple[str, str]], size: int = 2) -> nir.NIRGraph:
    ends = {
        "input": nir.Input({"input": np.array([size])}),
        "output": nir.Output({"output": np.array([size])}),
    }
    return nir.NIRGraph({**ends, **nodes}, edges)


def recurrent() -> nir.NIRGraph:
    nodes = {"leak": integrator(), "back": linear(), "out": linear(seed=1)}
    edges = [("input", "leak"), ("leak", "back"), ("back", "leak"), ("leak", "out"), ("out", "output")]
    return graph(nodes, edges)


def leak_of(node: Any) -> torch.nn.Module:
    return Leak(float(node.tau[0]), len(node.tau))


def node_of(module: torch.nn.Module) -> nir.NIRNode:
    assert isinstance(module, Leak)
    return integrator(module.size, module.a)


def stepped(net: torch.nn.Module, xs: Tensor) -> tuple[Tensor, Any]:
    state, outputs = None, list[Tensor]()
    for x in xs:
        output, state = net(x, state)
        outputs.append(output)
    return torch.stack(outputs), state


@pytest.mark.parametrize("name", ["nir_to_torch", "torch_to_nir"])
def test_the_arguments_are_those_of_nirtorch(name: str) -> None:
    theirs = inspect.signature(getattr(nirtorch, name)).parameters
    ours = inspect.signature(getattr(nirmap, name)).parameters
    positional = [entry for entry in ours.values() if entry.kind is entry.POSITIONAL_OR_KEYWORD]
    assert [entry.name for entry in positional] == list(theirs)
    defaults = {entry.name: entry.default for entry in positional if not entry.name.startswith("default_")}
    assert defaults == {key: theirs[key].default for key in defaults}


@given(seed=st.integers(0, 2**31 - 1), batch=st.integers(1, 4), size=st.integers(1, 5))
@settings(max_examples=15, deadline=None)
def test_a_recurrent_graph_gives_the_numbers_and_state_that_nirtorch_gives(
    seed: int, batch: int, size: int
) -> None:
    nodes = {"leak": integrator(size), "back": linear(size, seed), "out": linear(size, seed + 1)}
    edges = [("input", "leak"), ("leak", "back"), ("back", "leak"), ("leak", "out"), ("out", "output")]
    whole = graph(nodes, edges, size)
    xs = torch.randn(6, batch, size, generator=torch.Generator().manual_seed(seed))
    entry: dict[Any, Callable[[Any], Any]] = {nir.LI: leak_of}
    expected, theirs = stepped(nirtorch.nir_to_torch(whole, entry), xs)
    found, ours = stepped(nirmap.nir_to_torch(whole, entry), xs)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours["leak"]["state"], theirs["leak"])
    torch.testing.assert_close(ours["leak"]["output"], theirs["leak_prev_output"])


@BOTH
def test_the_result_of_nir_to_torch(library: Any, tmp_path: Path) -> None:
    """A graph module whose submodules are the caller's, under the names of the nodes."""
    nir.write(tmp_path / "net.nir", recurrent())
    net = library.nir_to_torch(
        str(tmp_path / "net.nir"), node_map={nir.LI: leak_of}, device="cpu", dtype=torch.float64
    )
    assert isinstance(net, torch.fx.GraphModule)
    assert type(net.leak) is Leak
    assert set(net.state_dict()) == {"back.weight", "out.weight"}
    assert {value.dtype for value in net.state_dict().values()} == {torch.float64}


@BOTH
def test_the_state_of_a_node_is_what_its_module_returned(library: Any) -> None:
    net = library.nir_to_torch(
        graph({"leak": integrator()}, [("input", "leak"), ("leak", "output")]), {nir.LI: leak_of}
    )
    x = torch.tensor([[1.0, 2.0]])
    output, state = net(x)
    torch.testing.assert_close(state["leak"], 0.25 * x)
    output, state = net(x, state=state)
    torch.testing.assert_close(output, 0.4375 * x)


@BOTH
def test_a_nested_graph_is_a_submodule_with_its_own_state(library: Any) -> None:
    inner = graph({"leak": integrator()}, [("input", "leak"), ("leak", "output")])
    net = library.nir_to_torch(
        graph({"part": inner}, [("input", "part"), ("part", "output")]), {nir.LI: leak_of}
    )
    _, state = net(torch.ones(1, 2))
    assert state["part"]["leak"].tolist() == [[0.25, 0.25]]
    assert type(net.part.leak) is Leak


@BOTH
def test_a_node_alone_is_a_module_alone(library: Any) -> None:
    assert type(library.nir_to_torch(integrator(), {nir.LI: leak_of})) is Leak
    module = library.nir_to_torch(linear(), {})
    assert type(module) is torch.nn.Linear
    np.testing.assert_array_equal(module.weight.detach().numpy(), linear().weight)
    assert type(library.nir_to_torch(nir.Input({"input": np.array([2])}), {})) is torch.nn.Identity


@BOTH
def test_defaults_of_the_caller_serve_where_his_dictionary_has_no_entry(library: Any) -> None:
    defaults: dict[Any, Callable[[Any], Any]] = {
        nir.Input: lambda node: torch.nn.Identity(),
        nir.Output: lambda node: torch.nn.Identity(),
        nir.LI: lambda node: Leak(1.0),
        nir.Linear: lambda node: torch.nn.Identity(),
    }
    net = library.nir_to_torch(recurrent(), {nir.LI: leak_of}, defaults)
    assert (type(net.out), net.leak.a) == (torch.nn.Identity, 0.25)


@BOTH
def test_a_module_is_written_with_the_nodes_of_the_caller(library: Any) -> None:
    module = Stack()
    written = library.torch_to_nir(
        module, {Leak: node_of}, stateful_modules={Leak}, concrete_args={"state": None}
    )
    edges = {("x", "fc"), ("fc", "leak"), ("leak", "out"), ("leak", "output"), ("out", "output")}
    assert set(written.edges) == edges
    assert {name: type(node).__name__ for name, node in written.nodes.items()} == {
        "x": "Input",
        "fc": "Affine",
        "leak": "LI",
        "out": "Linear",
        "output": "Output",
    }
    assert written.nodes["leak"].tau.tolist() == [0.5, 0.5]
    np.testing.assert_array_equal(written.nodes["fc"].weight, module.fc.weight.detach().numpy())
    assert [int(size) for size in written.nodes["x"].input_type["input"]] == [3]


@BOTH
def test_a_module_alone_is_a_node_alone(library: Any) -> None:
    assert type(library.torch_to_nir(torch.nn.Linear(3, 2), {})) is nir.Affine
    assert type(library.torch_to_nir(Leak(0.5), {Leak: node_of})) is nir.LI


def test_there_and_back() -> None:
    net = nirmap.nir_to_torch(recurrent(), {nir.LI: leak_of})
    again = nirmap.torch_to_nir(net, {Leak: node_of})
    assert set(again.edges) == set(recurrent().edges)
    xs = torch.randn(5, 3, 2)
    expected, _ = stepped(net, xs)
    torch.testing.assert_close(stepped(nirmap.nir_to_torch(again, {nir.LI: leak_of}), xs)[0], expected)


# The older form


def test_a_function_for_all_nodes_still_works_and_says_what_to_write() -> None:
    def build(node: nir.NIRNode) -> torch.nn.Module | None:
        if isinstance(node, nir.NIRGraph):
            return None
        return leak_of(node) if isinstance(node, nir.LI) else torch.nn.Linear(2, 2, bias=False)

    part = graph({"part": recurrent()}, [("input", "part"), ("part", "output")])
    with pytest.warns(DeprecationWarning, match=r"nir_to_torch\(graph, \{nir.LIF: function") as caught:
        net = nirmap.nir_to_torch(part, build)
    assert caught[0].filename == __file__
    assert type(net.get_submodule("part.leak")) is Leak


def test_a_function_for_all_modules_still_works_and_is_called_once_for_each() -> None:
    called: list[torch.nn.Module] = []

    def write(module: torch.nn.Module) -> nir.NIRNode | None:
        called.append(module)
        return node_of(module) if isinstance(module, Leak) else None

    module = Stack()
    with pytest.warns(DeprecationWarning, match=r"torch_to_nir\(module, \{torch.nn.Linear: ") as caught:
        written = nirmap.torch_to_nir(module, write)
    assert caught[0].filename == __file__
    assert type(written.nodes["leak"]) is nir.LI
    assert type(written.nodes["fc"]) is nir.Affine
    assert sorted(map(id, called)) == sorted(map(id, module.children()))

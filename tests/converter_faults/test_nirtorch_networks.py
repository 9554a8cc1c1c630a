"""Networks with cycles and with state through nirtorch 2.6 and nirmap: where both run, they give the same.

If these fail, a network that ran with nirtorch gives other numbers with nirmap, or one that it cannot run is lost.
Graphs are held against the oracle. That nirtorch ends is not left to chance: its queue of nodes is counted.
"""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import nir
import nirtorch
import numpy as np
import pytest
import snntorch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nirtorch import nir_interpreter

import nirmap
from nirmap.oracle.interpreter import simulate

Tensor = torch.Tensor
Map = dict[Any, Callable[[Any], Any]]
DT, SIZE = 1e-3, 2
BOTH = pytest.mark.parametrize("library", [nirtorch, nirmap], ids=["nirtorch", "nirmap"])


class NeverEndsError(Exception):
    """nirtorch has put nodes off more often than any order of them would need."""


class Counted(collections.deque[Any]):
    """nirtorch's queue of nodes."""

    taken = 0

    def popleft(self) -> Any:
        self.taken += 1
        if self.taken > 1000:
            raise NeverEndsError
        return super().popleft()


@pytest.fixture(autouse=True, scope="module")
def nirtorch_ends() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nir_interpreter, "collections", SimpleNamespace(deque=Counted))
        yield


class Leak(torch.nn.Module):
    """v += a (x - v), which it returns."""

    def __init__(self, a: float) -> None:
        super().__init__()
        self.a = a

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        v = torch.zeros_like(x) if state is None else state
        v = v + self.a * (x - v)
        return v, v


LEAK: Map = {nir.LI: lambda node: Leak(DT / float(node.tau[0]))}


def integrator() -> nir.LI:
    one = np.ones(SIZE)
    return nir.LI(0.004 * one, one, 0 * one)


def graph(nodes: dict[str, nir.NIRNode], edges: list[tuple[str, str]]) -> nir.NIRGraph:
    return nir.NIRGraph(nodes, edges, type_check=False)


def ends(before: int = SIZE, after: int = SIZE) -> dict[str, nir.NIRNode]:
    return {
        "input": nir.Input({"input": np.array([before])}),
        "output": nir.Output({"output": np.array([after])}),
    }


@st.composite
def with_cycles(draw: st.DrawFn) -> nir.NIRGraph:
    """Integrators in a row, and two or three edges back, each direct or through a layer; nodes in any order."""
    count = draw(st.integers(2, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**31 - 1)))
    nodes = {**ends(), **{f"l{number}": integrator() for number in range(count)}}
    back = [(start, end) for start in range(count) for end in range(start + 1)]
    pairs = [(number, number + 1) for number in range(count - 1)]
    pairs += draw(st.lists(st.sampled_from(back), min_size=2, max_size=3, unique=True))
    edges = [("input", "l0"), (f"l{count - 1}", "output")]
    for number, (start, end) in enumerate(pairs):
        if draw(st.booleans()):
            edges.append((f"l{start}", f"l{end}"))
        else:
            nodes[f"b{number}"] = nir.Linear(random.uniform(-0.5, 0.5, (SIZE, SIZE)))
            edges += [(f"l{start}", f"b{number}"), (f"b{number}", f"l{end}")]
    return graph({name: nodes[name] for name in draw(st.permutations(list(nodes)))}, edges)


def run(net: torch.nn.Module, xs: Tensor) -> Tensor:
    state, outputs = None, list[Tensor]()
    for x in xs:
        output, state = net(x, state)
        outputs.append(output.detach())
    return torch.stack(outputs)


def inputs(size: int = SIZE, seed: int = 0) -> Tensor:
    return torch.rand(20, 3, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def simulated(whole: nir.NIRGraph, xs: Tensor, dt: float = DT) -> Tensor:
    (output,) = simulate(whole, xs.double().numpy(), dt).outputs.values()
    return torch.tensor(output)


@given(with_cycles())
@settings(max_examples=40, deadline=None)
def test_several_cycles_give_the_numbers_of_the_graph_and_those_of_nirtorch_where_it_runs(
    whole: nir.NIRGraph,
) -> None:
    xs = inputs()
    expected = simulated(whole, xs)
    torch.testing.assert_close(run(nirmap.nir_to_torch(whole, LEAK, dtype=torch.float64), xs), expected)
    try:
        theirs = run(nirtorch.nir_to_torch(whole, LEAK, dtype=torch.float64), xs)
    except RuntimeError as error:  # the first value that is fed back has a single entry
        assert any(text in str(error) for text in ("(1x1 and 2x2)", "got [1] at entry"))  # noqa: PT017
    else:
        torch.testing.assert_close(theirs, expected)


def against_the_order(size: int) -> nir.NIRGraph:
    """A graph that lists l1, which has a layer from its output back, before l0, which leads to it."""
    one = np.ones(size)
    integrators = {name: nir.LI(0.004 * one, one, 0 * one) for name in ("l1", "l0")}
    nodes = {"l1": integrators["l1"], "back": nir.Linear(np.full((size, size), 0.5)), "l0": integrators["l0"]}
    edges = [("input", "l0"), ("l0", "l1"), ("l1", "back"), ("back", "l1"), ("l1", "l0"), ("l1", "output")]
    return graph({**ends(size, size), **nodes}, edges)


def test_what_is_fed_back_first_has_the_shape_of_the_layer() -> None:
    """nirtorch begins with a single zero, from which a neuron without other input has a single entry."""
    whole, xs = against_the_order(SIZE), inputs()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run(nirtorch.nir_to_torch(whole, LEAK, dtype=torch.float64), xs)
    found = run(nirmap.nir_to_torch(whole, LEAK, dtype=torch.float64), xs)
    torch.testing.assert_close(found, simulated(whole, xs))


def test_the_order_of_nodes_in_a_graph_does_not_decide_which_edge_is_late() -> None:
    """In nirtorch the one into the node that is listed first is."""
    whole, xs = against_the_order(1), inputs(1)[:, 0].float()
    expected = simulated(whole, xs[:, None])[:, 0].float()
    assert not torch.allclose(run(nirtorch.nir_to_torch(whole, LEAK), xs), expected)
    torch.testing.assert_close(run(nirmap.nir_to_torch(whole, LEAK), xs), expected)


# Modules that keep state in another way


def alone() -> nir.NIRGraph:
    return graph({**ends(), "leak": integrator()}, [("input", "leak"), ("leak", "output")])


LAYERS = [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM, torch.nn.RNNCell, torch.nn.GRUCell, torch.nn.LSTMCell]


@pytest.mark.parametrize("kind", LAYERS)
def test_a_recurrent_layer_of_torch_is_refused_and_not_run_without_its_state(kind: Any) -> None:
    """nirtorch calls an RNN with an argument that it does not have, and a cell anew in every step."""
    entry: Map = {nir.LI: lambda node: kind(SIZE, SIZE)}
    if issubclass(kind, torch.nn.RNNBase):
        with pytest.raises(TypeError, match="'state'"):
            nirtorch.nir_to_torch(alone(), entry)(torch.ones(1, SIZE))
    elif kind is not torch.nn.LSTMCell:
        net, x = nirtorch.nir_to_torch(alone(), entry), torch.ones(1, SIZE)
        output, state = net(x)
        assert torch.equal(net(x, state)[0], output)
    with pytest.raises(
        nirmap.ConstraintError, match=r"every step anew.*state=None.*hands state on"
    ) as caught:
        nirmap.nir_to_torch(alone(), entry)
    error = caught.value
    assert error.where == "node 'leak'"
    assert kind.__name__ in error.found
    assert error.expected
    assert error.do


@BOTH
def test_a_recurrent_cell_of_torch_in_a_module_with_state_is_run_with_it(library: Any) -> None:
    class Cell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = torch.nn.GRUCell(SIZE, SIZE, dtype=torch.float64)

        def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
            hidden = self.cell(x, state)
            return hidden, hidden

    made = Cell()
    entry: Map = {nir.LI: lambda node: made}
    xs = inputs()
    expected = torch.nn.GRU(SIZE, SIZE, dtype=torch.float64)
    expected.load_state_dict({f"{name}_l0": value for name, value in made.cell.state_dict().items()})
    found = run(library.nir_to_torch(alone(), entry, dtype=torch.float64), xs)
    torch.testing.assert_close(found, expected(xs)[0].detach())


def test_a_traced_module_without_state_is_called_without_it() -> None:
    traced: Any = torch.fx.symbolic_trace(torch.nn.Tanh())
    entry: Map = {nir.LI: lambda node: traced}
    with pytest.raises(TypeError, match="'state'"):
        nirtorch.nir_to_torch(alone(), entry)(torch.ones(1, SIZE))
    net = nirmap.nir_to_torch(alone(), entry)
    torch.testing.assert_close(net(torch.ones(1, SIZE))[0], torch.ones(1, SIZE).tanh())


@BOTH
def test_a_network_as_the_module_of_a_node_has_its_state_there(library: Any) -> None:
    entry: Map = {nir.LI: lambda node: library.nir_to_torch(alone(), LEAK, dtype=torch.float64)}
    xs = inputs()
    found = run(library.nir_to_torch(alone(), entry, dtype=torch.float64), xs)
    torch.testing.assert_close(found, simulated(alone(), xs))


# Shapes that contradict each other


def test_type_check_false_does_not_let_contradicting_shapes_pass() -> None:
    """Torch cannot run the module, and nothing else could run the graph."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(4, 1))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        module(torch.ones(1, 2))
    assert len(nirtorch.torch_to_nir(module, {}, type_check=False).nodes) == 4
    with pytest.raises(nirmap.GraphError, match=r"node '1': its input has the last axis \(4,\).*\(3,\)"):
        nirmap.torch_to_nir(module, {}, type_check=False)


def test_type_check_false_leaves_axes_open_that_nir_has_no_types_for() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Flatten(), torch.nn.Linear(12, 1))
    assert module(torch.ones(5, 3, 2)).shape == (5, 1)
    with pytest.raises(nirmap.GraphError, match="the shape"):
        nirmap.torch_to_nir(module, {})
    assert len(nirmap.torch_to_nir(module, {}, type_check=False).nodes) == 5
    sample = torch.ones(1, 4, 2)
    with pytest.raises(nirmap.GraphError, match=r"\(16,\); expected 12 entries along the last axis"):
        nirmap.torch_to_nir(module, {}, type_check=False, sample=sample)


# Frameworks


def recurrent() -> nir.NIRGraph:
    """A layer, and spiking neurons with a layer from their spikes back."""
    one, random = np.ones(4, np.float32), np.random.default_rng(0)
    nodes: dict[str, nir.NIRNode] = {
        **ends(3, 4),
        "fc": nir.Affine(random.uniform(-0.5, 1, (4, 3)).astype(np.float32), 0.1 * one),
        "lif.lif": nir.LIF(0.01 * one, 10 * one, 0 * one, 0.6 * one, 0 * one),
        "lif.w_rec": nir.Linear(random.uniform(-0.5, 0.5, (4, 4)).astype(np.float32)),
    }
    edges = [("input", "fc"), ("fc", "lif.lif"), ("lif.lif", "lif.w_rec"), ("lif.w_rec", "lif.lif")]
    return graph(nodes, [*edges, ("lif.lif", "output")])


def leaky(node: Any, **options: Any) -> Any:
    kind: Any = snntorch.Leaky
    beta, threshold = 0.9, float(node.v_threshold[0])  # 1 - dt / tau
    return kind(beta, threshold=threshold, reset_mechanism="zero", reset_delay=False, **options)


class Stepped(torch.nn.Module):
    """A Leaky whose membrane potential is an argument."""

    def __init__(self, node: Any) -> None:
        super().__init__()
        self.leaky = leaky(node)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        spikes, v = self.leaky(x, torch.zeros_like(x) if state is None else state)
        return spikes, v


def affine(node: Any) -> torch.nn.Module:
    layer = torch.nn.Linear(3, 4)
    layer.load_state_dict({"weight": torch.tensor(node.weight), "bias": torch.tensor(node.bias)})
    return layer


MODULES: dict[str, Callable[[Any], Any]] = {
    "hidden in the module": lambda node: leaky(node, init_hidden=True),
    "an argument": Stepped,
}


@BOTH
@pytest.mark.parametrize("name", MODULES)
def test_a_recurrent_network_of_snntorch_fires_as_the_graph(library: Any, name: str) -> None:
    xs = inputs(3).float()
    net = library.nir_to_torch(recurrent(), {nir.LIF: MODULES[name], nir.Affine: affine})
    expected = simulated(recurrent(), xs)
    assert expected.any()
    torch.testing.assert_close(run(net, xs).double(), expected)


def test_the_import_of_snntorch_leads_the_input_into_the_recurrent_layer_with_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It rewrites the graph before it calls either library: nirmap.from_nir reads the one that it was given."""
    from snntorch import import_nir

    def slow() -> nir.NIRGraph:
        """At the time step that snnTorch takes for granted."""
        whole = recurrent()
        node: Any = whole.nodes["lif.lif"]
        node.tau = 0.1 * node.tau
        return whole

    xs = inputs(3).float()
    expected = simulated(slow(), xs, 1e-4)
    theirs = run(import_nir.import_from_nir(slow()), xs)
    names = {name: value for name, value in vars(nirtorch).items() if not name.startswith("__")}
    exchanged = SimpleNamespace(**{**names, "nir_to_torch": nirmap.nir_to_torch})
    monkeypatch.setattr(import_nir, "nirtorch", exchanged)
    torch.testing.assert_close(run(import_nir.import_from_nir(slow()), xs), theirs)
    assert not torch.equal(theirs.double(), expected)
    torch.testing.assert_close(run(nirmap.from_nir(slow(), "snntorch", dt=1e-4), xs).double(), expected)
    capsys.readouterr()


def of_rockpool(name: str) -> Any:
    """A module of Rockpool, whose annotations are incomplete."""
    return importlib.import_module(f"rockpool.nn.{name}")


def rockpool_kinds() -> list[Any]:
    modules = of_rockpool("modules.torch")
    return [modules.LinearTorch, modules.LIFTorch, modules.ExpSynTorch]


def rockpool_map() -> Map:
    """Rockpool's own function for each of them."""
    function = of_rockpool("modules.torch.nir")._extract_rockpool_module
    return {kind: function for kind in rockpool_kinds()}  # noqa: C420  (fromkeys loses the type of the function)


def rockpool_layers() -> list[Any]:
    linear, neuron, synapse = rockpool_kinds()
    return [linear((3, 4)), neuron(4, dt=DT), linear((4, 2)), synapse(2, tau=torch.full((2,), 0.02), dt=DT)]


def test_modules_of_rockpool_are_written_with_the_same_nodes() -> None:
    model = torch.nn.Sequential(*rockpool_layers())
    theirs = nirtorch.torch_to_nir(model, rockpool_map())
    ours = nirmap.torch_to_nir(model, rockpool_map(), framework="rockpool", dt=DT)
    renamed = {"input_1": "input", "output": "output", **{f"_{number}": str(number) for number in range(4)}}
    assert {(renamed[start], renamed[end]) for start, end in theirs.edges} == set(ours.edges)
    for name, node in theirs.nodes.items():
        other: Any = ours.nodes[renamed[name]]
        assert type(other) is type(node)
        for parameter in ("weight", "tau", "tau_mem", "tau_syn", "r", "v_leak", "v_threshold", "w_in"):
            if hasattr(node, parameter):
                value: Any = getattr(node, parameter)
                expected = value.detach().numpy() if isinstance(value, Tensor) else value
                found = np.asarray(getattr(other, parameter))
                np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-6)


def test_modules_of_rockpool_that_are_said_to_return_their_state_need_a_call_that_unpacks_it() -> None:
    model = torch.nn.Sequential(*rockpool_layers())
    stateful = {rockpool_kinds()[1]}
    assert len(nirtorch.torch_to_nir(model, rockpool_map(), stateful_modules=stateful).nodes) == 6
    with pytest.raises(nirmap.TraceError, match=r"all that '1' returned.*forward of your own"):
        nirmap.torch_to_nir(model, rockpool_map(), stateful_modules=stateful, framework="rockpool", dt=DT)


def test_the_combinator_of_rockpool_is_written_by_nirmap() -> None:
    """It returns a dictionary of what its modules recorded, too."""
    model = of_rockpool("combinators").Sequential(*rockpool_layers())
    with pytest.raises(TypeError, match="Proxy"):
        nirtorch.torch_to_nir(model, rockpool_map())
    graph = nirmap.torch_to_nir(model, rockpool_map(), framework="rockpool", dt=DT)
    assert [type(node).__name__ for node in graph.nodes.values()] == [
        "Input",
        "Linear",
        "CubaLIF",
        "Linear",
        "LI",
        "Output",
    ]

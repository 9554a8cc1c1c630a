"""Rockpool: NIR nodes as its torch modules, and its torch modules as NIR nodes.

If these fail, the samples of a batch share a state, gradients end at the step before, or a spiking neuron that Rockpool
cannot express is built as something else, and nothing says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import nir
import numpy as np
import pytest
import rockpool.nn.modules.torch
import torch

import nirmap
from nirmap.building import Builder
from nirmap.oracle.interpreter import Trace, margin, simulate
from nirmap.registry import load_registry
from nirmap_registry.rows import Placement
from oracle.building import chain
from runtime.suitable import backward, numbers

DT = 1e-3
WIDTH = 5
# Rockpool publishes no types.
rp: Any = rockpool.nn.modules.torch
Tensor = torch.Tensor
Random = np.random.Generator
NAMES = ("input", "node", "output")


def drawn(random: Random, low: float, high: float) -> Any:
    """One number per neuron."""
    return random.uniform(low, high, WIDTH)


def sequence(steps: int, *batch: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers around 0.7, some of them negative: (time, *batch, neuron), other ones in each sample."""
    values = np.random.default_rng(seed).uniform(-0.6, 2.0, (steps, *(batch or (3,)), WIDTH))
    return torch.tensor(values, dtype=dtype)


def leaky(random: Random) -> dict[str, Any]:
    """Two of the neurons lose all within a step, or more than that."""
    tau = DT * drawn(random, 4, 20)
    tau[:2] = [0.7 * DT, DT]
    return {"tau": tau, "r": drawn(random, -2, 3), "v_leak": drawn(random, -0.3, 0.3)}


def cuba(random: Random) -> dict[str, Any]:
    values = leaky(random)
    return {
        "tau_mem": values.pop("tau"),
        "tau_syn": DT * drawn(random, 1, 8),
        "w_in": drawn(random, -1.5, 2.5),
        **values,
    }


def layer(random: Random, *, bias: bool) -> nir.NIRNode:
    """Three neurons behind five, so that a matrix the wrong way round does not fit."""
    weight = random.uniform(-1, 1, (3, WIDTH))
    return nir.Affine(weight=weight, bias=random.uniform(-1, 1, 3)) if bias else nir.Linear(weight=weight)


Make = Callable[[Random], nir.NIRNode]
STATEFUL: dict[str, Make] = {
    "I": lambda random: nir.I(r=drawn(random, -20, 20)),
    "LI": lambda random: nir.LI(**leaky(random)),
    "CubaLI": lambda random: nir.CubaLI(**cuba(random)),
}
STATELESS: dict[str, Make] = {
    "Linear": lambda random: layer(random, bias=False),
    "Affine": lambda random: layer(random, bias=True),
    "Threshold": lambda random: nir.Threshold(threshold=drawn(random, 0.1, 1.5)),
}
NODES = {**STATEFUL, **STATELESS}
MODULES = {
    "I": ["ExpSynTorch"],
    "LI": ["RateTorch"],
    "CubaLI": ["RateTorch", "RateTorch"],
    "Linear": ["LinearTorch"],
    "Affine": ["LinearTorch"],
    "Threshold": ["LIFNeuronTorch"],
}
DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)], ids=str
)
each_node = pytest.mark.parametrize("name", NODES)
each_stateful = pytest.mark.parametrize("name", STATEFUL)


def graph_of(name: str, seed: int = 0) -> nir.NIRGraph:
    after = (3,) if name in ("Linear", "Affine") else (WIDTH,)
    return chain([NODES[name](np.random.default_rng(seed))], (WIDTH,), after, names=NAMES)


def built(graph: nir.NIRGraph, dtype: torch.dtype = torch.float64, framework: str = "rockpool") -> Any:
    return nirmap.from_nir(graph, framework, dt=DT, dtype=dtype)


def of_rockpool(net: torch.nn.Module) -> list[Any]:
    """Rockpool's own modules in a network."""
    parts: Iterator[torch.nn.Module] = net.modules()
    return [part for part in parts if isinstance(part, rp.TorchModule)]


def output_of(trace: Trace) -> Any:
    return trace.outputs["output"]


def stepped(net: torch.nn.Module, xs: Tensor) -> Any:
    """The outputs of a network as an array."""
    with torch.no_grad():
        return nirmap.run(net, xs)[0].numpy()


# From NIR


@DTYPES
@each_node
def test_a_node_gives_the_oracles_values(name: str, dtype: torch.dtype, tolerance: float) -> None:
    """Also after the way back to NIR: there, the parameters are those of the node."""
    graph, xs = graph_of(name), sequence(60, dtype=dtype)
    trace = simulate(graph, xs.double().numpy(), DT)
    net = built(graph, dtype)
    assert [type(part).__name__ for part in of_rockpool(net)] == MODULES[name]
    back = nirmap.to_nir(net)
    assert type(back.nodes["node"]) is type(graph.nodes["node"])
    for network in (net, built(back, dtype)):
        outputs = stepped(network, xs)
        assert outputs.dtype == xs.numpy().dtype
        if trace.thresholds:
            assert margin(trace) > 1e-6
            assert 0 < output_of(trace).mean() < 1
            np.testing.assert_array_equal(outputs, output_of(trace))
        scale = max(1.0, float(np.abs(output_of(trace)).max()))
        assert float(np.abs(outputs - output_of(trace)).max()) < tolerance * scale


@each_stateful
def test_the_state_is_that_of_the_node(name: str) -> None:
    """In the node's own units: those of the module are others."""
    graph, xs = graph_of(name), sequence(30)
    _, state = nirmap.run(built(graph), xs)
    expected = simulate(graph, xs.numpy(), DT).states[("node",)]
    assert state["node"].keys() == expected.keys()
    for variable, values in expected.items():
        np.testing.assert_allclose(state["node"][variable].numpy(), values[-1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["Linear", "Affine"])
def test_weights_are_kept_the_other_way_round(name: str) -> None:
    """LinearTorch computes x W, and NIR W x."""
    graph = graph_of(name)
    net = built(graph)
    (module,) = of_rockpool(net)
    node: Any = graph.nodes["node"]
    weight = node.weight
    assert weight.shape == (3, WIDTH)
    np.testing.assert_array_equal(module.weight.detach().numpy(), weight.T)
    assert (module.bias is None) == (name == "Linear")
    with torch.no_grad():
        module.weight[0, 2] = 7.0
    back: Any = nirmap.to_nir(net).nodes["node"]
    assert back.weight[2, 0] == 7.0
    assert back.weight[0, 1] == weight[0, 1]


def test_a_synapse_and_a_membrane_are_reported_as_a_series() -> None:
    report = built(graph_of("CubaLI")).meta["nirmap"].nodes["node"]
    assert (report.how, report.rules) == ("rewritten", ("cuba_li_as_series",))


def test_an_exponential_synapse_is_a_leaky_integrator_too() -> None:
    """RateTorch comes first; users' ExpSynTorch are written as this, and the row has to hold in both directions."""
    registry = load_registry("rockpool")
    (row,) = (row for row in registry.rows if row.node == "LI" and row.path.endswith("ExpSynTorch"))
    random = np.random.default_rng(0)
    node = nir.LI(**{**leaky(random), "tau": DT * drawn(random, 2, 20)})
    builder = Builder(replace(registry, rows=(row,)), DT, Placement(torch.float64))
    cell: Any = builder.build(node, "node 'n'").module
    xs, state = sequence(40), None
    outputs: list[Tensor] = []
    for x in xs:
        output, state = cell(x, state)
        outputs.append(output)
    expected = output_of(simulate(chain([node], (WIDTH,), names=NAMES), xs.numpy(), DT))
    np.testing.assert_allclose(torch.stack(outputs).numpy(), expected, rtol=0, atol=1e-12)
    builder = Builder(replace(registry, rows=(row,)), DT, Placement(torch.float64))
    with pytest.raises(nirmap.ConstraintError, match="tau > dt"):
        builder.build(nir.LI(**leaky(random)), "node 'n'")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_an_input_that_meets_the_threshold_does_not_fire(dtype: torch.dtype) -> None:
    """Rockpool compares with >=, and NIR with >; and a NIR node spikes once, however far it is above."""
    xs = torch.tensor([2, 3, 4, 3, 50, 6, 3, -4], dtype=dtype).reshape(8, 1, 1)
    net = built(chain([nir.Threshold(threshold=np.array([3.0]))]), dtype)
    assert numbers(nirmap.run(net, xs)[0].flatten()) == [0, 0, 1, 0, 1, 1, 0, 0]


def test_a_threshold_that_rockpool_would_divide_by_is_refused() -> None:
    with pytest.raises(nirmap.ConstraintError, match="divides by it"):
        built(chain([nir.Threshold(threshold=np.array([0.0]))]))


# State, batches, gradients


@pytest.mark.parametrize(
    "make",
    [
        lambda: rp.ExpSynTorch(WIDTH, tau=20 * DT, dt=DT),
        lambda: rp.RateTorch(WIDTH, tau=20 * DT, activation_func=torch.sub, dt=DT),
    ],
    ids=["ExpSynTorch", "RateTorch"],
)
def test_rockpools_own_modules_keep_the_state_of_the_first_sample(make: Callable[[], Any]) -> None:
    """And without gradient: what the next tests show would be nothing if it were not for this."""
    xs = sequence(6, dtype=torch.float32).requires_grad_()
    module, whole = make().to_torch(), make().to_torch()
    one_by_one = torch.cat([module(x[:, None]) for x in xs], dim=1)
    at_once = whole(xs.transpose(0, 1))
    torch.testing.assert_close(one_by_one[0], at_once[0])
    assert not torch.isclose(one_by_one[1:, 1:], at_once[1:, 1:]).any()
    backward(one_by_one[0, -1])
    gradient = xs.grad
    assert gradient is not None
    assert gradient[-1, 0].all()
    assert not gradient[:-1].any()


@each_stateful
def test_each_sample_of_a_batch_keeps_its_own_state(name: str) -> None:
    graph, xs = graph_of(name), sequence(80, 4)
    net = built(graph)
    together, state = nirmap.run(net, xs)
    for sample in range(4):
        alone, own = nirmap.run(net, xs[:, sample : sample + 1])
        torch.testing.assert_close(together[:, sample : sample + 1], alone, rtol=1e-13, atol=1e-13)
        for variable, value in own["node"].items():
            torch.testing.assert_close(
                state["node"][variable][sample : sample + 1], value, rtol=1e-13, atol=1e-13
            )
    last: Tensor = state["node"]["v"]
    assert all(not torch.isclose(last[0], last[sample]).all() for sample in range(1, 4))


@pytest.mark.parametrize("batch", [(), (1,), (2, 3), (2, 1, 2)], ids=str)
@each_node
def test_batch_axes_of_any_number(name: str, batch: tuple[int, ...]) -> None:
    net, shape = built(graph_of(name)), (12, *batch, WIDTH)
    xs = torch.tensor(np.random.default_rng(3).uniform(-0.6, 2.0, shape))
    outputs = nirmap.run(net, xs)[0]
    folded = nirmap.run(net, xs.reshape(12, -1, WIDTH))[0]
    assert outputs.shape == (12, *batch, 3 if name in ("Linear", "Affine") else WIDTH)
    torch.testing.assert_close(outputs, folded.reshape(outputs.shape), rtol=1e-13, atol=1e-13)


@each_node
def test_two_streams_through_one_network_do_not_meet(name: str) -> None:
    """The state is the caller's, also of batches of different sizes."""
    net = built(graph_of(name))
    streams = [sequence(20, batch, seed=batch) for batch in (2, 3)]
    alone = [nirmap.run(net, stream)[0] for stream in streams]
    states: list[Any] = [None, None]
    together: list[list[Tensor]] = [[], []]
    for step in range(20):
        for number, stream in enumerate(streams):
            output, states[number] = net(stream[step], states[number])
            together[number].append(output)
    for expected, outputs in zip(alone, together, strict=True):
        torch.testing.assert_close(torch.stack(outputs), expected, rtol=0, atol=0)


@each_stateful
def test_a_state_that_was_given_is_not_written_to(name: str) -> None:
    """Rockpool adds to its state in place; whoever goes on twice from one state has to get the same twice."""
    net, xs = built(graph_of(name)), sequence(3)
    _, state = net(xs[0])
    before = {variable: value.clone() for variable, value in state["node"].items()}
    first, _ = net(xs[1], state)
    second, _ = net(xs[1], state)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    for variable, value in before.items():
        torch.testing.assert_close(state["node"][variable], value, rtol=0, atol=0)


def attributes(module: Any) -> dict[str, Any]:
    """All that a module holds, its tables copied and its tensors with their values."""
    held: dict[str, Any] = {}
    owned = cast("dict[str, Any]", module.__dict__)
    for name, value in sorted(owned.items()):
        table: dict[Any, Any] = cast("Any", value) if isinstance(value, dict) else {None: value}
        for key, entry in table.items():
            held[f"{name}.{key}"] = (entry, entry.clone() if isinstance(entry, Tensor) else repr(entry))
    return held


@each_node
def test_a_call_leaves_the_module_as_it_was(name: str) -> None:
    """Whatever state the module has itself is neither used nor changed."""
    net, xs = built(graph_of(name)), sequence(4)
    expected = nirmap.run(net, xs)[0]
    modules = of_rockpool(net)
    for module in modules:
        for buffer in ("isyn", "x", "vmem"):
            if hasattr(module, buffer):
                getattr(module, buffer).fill_(7.0)
    before = [attributes(module) for module in modules]
    torch.testing.assert_close(nirmap.run(net, xs)[0], expected, rtol=0, atol=0)
    for module, held in zip(modules, before, strict=True):
        after = attributes(module)
        assert after.keys() == held.keys()
        for key, (entry, value) in held.items():
            assert after[key][0] is entry, key
            same = torch.equal(value, after[key][1]) if isinstance(value, Tensor) else value == after[key][1]
            assert same, key


@each_stateful
def test_gradients_go_through_the_state_over_time(name: str) -> None:
    """The last output's gradient in each input of each step is that of the equations."""
    graph = graph_of(name)
    found: list[Tensor] = []
    for framework in ("rockpool", "torch"):
        xs = sequence(10).requires_grad_()
        backward(nirmap.run(built(graph, framework=framework), xs)[0][-1])
        assert xs.grad is not None
        found.append(xs.grad)
    assert found[0][0].any(), "the first step acts on the last one"
    assert found[0][0, 2].any()
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["Linear", "Affine"])
def test_weights_are_trained_through_time(name: str) -> None:
    random = np.random.default_rng(0)
    integrator = nir.LI(tau=DT * np.array([3.0, 5.0, 9.0]), r=np.ones(3), v_leak=np.zeros(3))
    graph = chain([NODES[name](random), integrator], (WIDTH,), (3,), names=("input", "node", "li", "output"))
    found: list[Tensor] = []
    for framework in ("rockpool", "torch"):
        net = built(graph, framework=framework)
        backward(nirmap.run(net, sequence(10))[0][-1])
        module: Any = next(part for part in net.modules() if hasattr(part, "weight"))
        gradient = module.weight.grad
        found.append(gradient.T if framework == "rockpool" else gradient)
        assert all(not part.tau.requires_grad for part in of_rockpool(net) if hasattr(part, "tau"))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)


# What Rockpool cannot do


def spiking(kind: str) -> nir.NIRNode:
    random = np.random.default_rng(0)
    values: dict[str, Any] = {"r": drawn(random, 1, 3)}
    if kind == "IF":
        values["r"] = values["r"] / (10 * DT)
    else:
        values["v_leak"] = drawn(random, 0, 0.3)
    values |= {"v_threshold": drawn(random, 0.4, 0.8), "v_reset": drawn(random, -0.4, 0.2)}
    if kind == "LIF":
        values["tau"] = DT * drawn(random, 4, 20)
    if kind == "CubaLIF":
        values |= {
            "tau_mem": DT * drawn(random, 4, 20),
            "tau_syn": DT * drawn(random, 3, 8),
            "w_in": drawn(random, 1, 2),
        }
    node: nir.NIRNode = getattr(nir, kind)(**values)
    return node


@pytest.mark.parametrize("kind", ["IF", "LIF", "CubaLIF"])
def test_a_neuron_that_is_reset_to_a_value_is_refused(kind: str) -> None:
    """With the reason, and with what to do; doing it gives the oracle's spikes."""
    graph, xs = chain([spiking(kind)], (WIDTH,), names=NAMES), sequence(60)
    with pytest.raises(nirmap.NirmapError, match="cannot be reset to a value") as raised:
        built(graph)
    assert "node 'node'" in str(raised.value)
    assert "fallback='torch'" in str(raised.value)
    net = nirmap.from_nir(graph, "rockpool", dt=DT, dtype=torch.float64, fallback="torch")
    report = net.meta["nirmap"].nodes["node"]
    assert report.how == "fallback"
    assert "cannot be reset to a value" in report.because
    trace = simulate(graph, xs.numpy(), DT)
    assert margin(trace) > 1e-9
    assert (output_of(trace).sum(axis=(0, 1)) > 0).all(), "a silent neuron proves nothing"
    np.testing.assert_array_equal(stepped(net, xs), output_of(trace))


def test_only_the_node_that_rockpool_lacks_is_a_fallback() -> None:
    random = np.random.default_rng(0)
    nodes = [
        nir.Linear(weight=random.uniform(0.2, 1, (WIDTH, WIDTH))),
        spiking("LIF"),
        STATEFUL["LI"](random),
    ]
    graph = chain(nodes, (WIDTH,), names=("input", "layer", "neuron", "readout", "output"))
    net = nirmap.from_nir(graph, "rockpool", dt=DT, dtype=torch.float64, fallback="torch")
    how = {name: net.meta["nirmap"].nodes[name].how for name in ("layer", "neuron", "readout")}
    assert how == {"layer": "native", "neuron": "fallback", "readout": "normal form"}
    xs = sequence(60)
    trace = simulate(graph, xs.numpy(), DT)
    assert margin(trace) > 1e-9
    assert trace.values[("neuron",)].any()
    np.testing.assert_allclose(stepped(net, xs), output_of(trace), rtol=0, atol=1e-12)


def test_more_than_one_axis_of_neurons_is_refused() -> None:
    node = nir.LI(tau=np.full((2, 3), 5 * DT), r=np.ones((2, 3)), v_leak=np.zeros((2, 3)))
    with pytest.raises(nirmap.ConstraintError, match="one axis of neurons"):
        built(chain([node], (2, 3)))


# To NIR


def weights(rows: int, columns: int) -> Tensor:
    """All different, and some negative."""
    return torch.linspace(-0.7, 1.0, rows * columns).reshape(rows, columns)


USERS: dict[str, tuple[Callable[[], Any], type[Any]]] = {
    "LinearTorch": (lambda: rp.LinearTorch((WIDTH, 3), weight=weights(WIDTH, 3)), nir.Linear),
    "LinearTorch, bias": (
        lambda: rp.LinearTorch((WIDTH, 3), weights(WIDTH, 3), torch.arange(3.0), has_bias=True),
        nir.Affine,
    ),
    "ExpSynTorch": (lambda: rp.ExpSynTorch(WIDTH, tau=torch.linspace(2, 20, WIDTH) * DT, dt=DT), nir.LI),
    "ExpSynTorch, one tau": (lambda: rp.ExpSynTorch(WIDTH, tau=7 * DT, dt=DT), nir.LI),
    "ExpSynTorch, no decay": (lambda: rp.ExpSynTorch(WIDTH, tau=float("inf"), dt=DT), nir.I),
    "RateTorch": (
        lambda: rp.RateTorch(
            WIDTH,
            tau=torch.linspace(0.5, 20, WIDTH) * DT,
            bias=torch.linspace(-1, 1, WIDTH),
            activation_func=torch.sub,
            dt=DT,
        ),
        nir.LI,
    ),
    "LIFNeuronTorch": (
        lambda: rp.LIFNeuronTorch(
            WIDTH, tau_mem=DT / 1000, threshold=torch.linspace(0.2, 1.5, WIDTH), max_spikes_per_dt=1, dt=DT
        ),
        nir.Threshold,
    ),
}


@pytest.mark.parametrize("name", USERS)
def test_a_users_module_is_written_as_it_behaves(name: str) -> None:
    """What it gives for a whole sequence, the way Rockpool means it, is what the oracle gives for the graph."""
    make, kind = USERS[name]
    module, xs = make().to_torch(), sequence(50, dtype=torch.float32)
    graph = nirmap.to_nir(module, "rockpool", dt=DT, sample=xs[0])
    as_it_comes = nirmap.to_nir(make(), "rockpool", dt=DT, sample=xs[0])  # with its state behind its output
    assert {name: type(node) for name, node in as_it_comes.nodes.items()} == {
        name: type(node) for name, node in graph.nodes.items()
    }
    (written,) = (node for node in graph.nodes.values() if not isinstance(node, nir.Input | nir.Output))
    assert type(written) is kind
    with torch.no_grad():
        expected = module(xs.transpose(0, 1)).transpose(0, 1)
    assert expected.any()
    (by_oracle,) = simulate(graph, xs.double().numpy(), DT).outputs.values()
    np.testing.assert_allclose(by_oracle, expected.numpy(), rtol=1e-4, atol=1e-4)
    again = nirmap.run(nirmap.from_nir(graph, "rockpool", dt=DT), xs)[0].detach()
    torch.testing.assert_close(again, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("unpacks", [False, True], ids=["to_torch", "output, state, record"])
def test_a_users_network_is_written_whichever_way_its_modules_are_called(unpacks: bool) -> None:
    """Rockpool's modules return three values, unless to_torch was called."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            parts = (
                rp.LinearTorch((WIDTH, 3), weight=weights(WIDTH, 3)),
                rp.ExpSynTorch(3, tau=5 * DT, dt=DT),
                rp.LinearTorch((3, 2), weight=weights(3, 2)),
            )
            first, synapse, second = parts if unpacks else (part.to_torch() for part in parts)
            self.first, self.synapse, self.second = first, synapse, second

        def forward(self, x: Tensor) -> Any:
            if not unpacks:
                return self.second(self.synapse(self.first(x)))
            x, _, _ = self.first(x)
            x, _, _ = self.synapse(x)
            return self.second(x)[0]

    xs = sequence(20, dtype=torch.float32)
    net = Net()
    with torch.no_grad():
        expected = net(xs.transpose(0, 1)).transpose(0, 1)
    graph = nirmap.to_nir(net, "rockpool", dt=DT, sample=xs[0])
    assert {"first", "synapse", "second"} <= graph.nodes.keys()
    (by_oracle,) = simulate(graph, xs.double().numpy(), DT).outputs.values()
    np.testing.assert_allclose(by_oracle, expected.numpy(), rtol=1e-4, atol=1e-4)


FORGETS: dict[str, Any] = {"tau_mem": DT / 1000, "max_spikes_per_dt": 1}
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "ExpSynTorch with noise": (lambda: rp.ExpSynTorch(WIDTH, noise_std=0.1), "NIR has no noise"),
    "ExpSynTorch of another time step": (lambda: rp.ExpSynTorch(WIDTH, dt=1e-4), "another time step"),
    "ExpSynTorch that forgets": (lambda: rp.ExpSynTorch(WIDTH, tau=1e-9), "gives nothing"),
    "RateTorch with noise": (
        lambda: rp.RateTorch(WIDTH, activation_func=torch.sub, noise_std=0.1),
        "NIR has no noise",
    ),
    "RateTorch, recurrent": (
        lambda: rp.RateTorch(WIDTH, activation_func=torch.sub, has_rec=True),
        "more than one node",
    ),
    "RateTorch, rectified": (lambda: rp.RateTorch(WIDTH), "the output of a NIR integrator is its state"),
    "RateTorch, threshold": (
        lambda: rp.RateTorch(WIDTH, activation_func=torch.sub, threshold=0.5),
        "the output of a NIR integrator is its state",
    ),
    "LIFNeuronTorch with noise": (
        lambda: rp.LIFNeuronTorch(WIDTH, noise_std=0.1, **FORGETS),
        "NIR has no noise",
    ),
    "LIFNeuronTorch, multi-spike": (
        lambda: rp.LIFNeuronTorch(WIDTH, tau_mem=DT / 1000),
        "at most once in a step",
    ),
    "LIFNeuronTorch that remembers": (
        lambda: rp.LIFNeuronTorch(WIDTH, max_spikes_per_dt=1),
        "reset by subtraction; expected a neuron that is reset to a value",
    ),
    "LIFNeuronTorch with bias": (
        lambda: rp.LIFNeuronTorch(WIDTH, bias=0.1, **FORGETS),
        "reset by subtraction; expected a neuron that is reset to a value",
    ),
    "LIFTorch": (lambda: rp.LIFTorch(WIDTH), "LIFTorch"),
    "LIFTorch, recurrent": (lambda: rp.LIFTorch(WIDTH, has_rec=True), "LIFTorch"),
    "LIFBitshiftTorch": (lambda: rp.LIFBitshiftTorch(WIDTH), "LIFBitshiftTorch"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nir_does_not_have_is_refused(name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(nirmap.NirmapError, match=reason):
        nirmap.to_nir(make().to_torch(), "rockpool", dt=DT, sample=torch.ones(1, WIDTH))

"""Nodes rebuilt as several modules in a row: if these fail, such a node spikes otherwise, or is not read back.

Every rewrite is forced on every framework, whether or not it has a module of its own for the node: each pair is one
that another version of the framework may need.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

import nirmap
from nirmap.building import Builder
from nirmap.oracle.interpreter import Trace, margin, simulate
from nirmap.registry import load_registry
from nirmap.series import Series
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rewrites import REWRITES
from nirmap_registry.rows import Placement, Registry, Rewrite
from oracle.building import chain, input_node, output_node
from oracle.parameters import node as drawn_node
from oracle.strategies import graph_inputs
from runtime.suitable import (
    DT,
    FRAMEWORKS,
    NEURONS,
    elementwise_rows,
    inputs,
    same_state,
    suitable_node,
    weight,
)

NAMES = ("in", "n", "out")
MARGIN = 1e-8
STEPS = 12
# The spiking neurons of Rockpool cannot be reset to a value.
IMPOSSIBLE = {("rockpool", "threshold_as_neuron"), ("rockpool", "cuba_lif_as_series")}

CASES = [
    pytest.param(framework, rewrite, id=f"{framework}-{rewrite.name}")
    for framework in FRAMEWORKS
    for rewrite in REWRITES
    if (framework, rewrite.name) not in IMPOSSIBLE
]
each_case = pytest.mark.parametrize(("framework", "rewrite"), CASES)


def forced(framework: str, rewrites: Sequence[Rewrite]) -> Registry:
    """The table of a framework without the rows of the nodes that are to be rewritten."""
    registry = load_registry(framework)
    nodes = {rewrite.node for rewrite in rewrites}
    return replace(registry, rows=tuple(row for row in registry.rows if row.node not in nodes))


def rebuilt(
    graph: nir.NIRGraph, framework: str, *rewrites: Rewrite, dtype: torch.dtype = torch.float64, **wishes: Any
) -> nirmap.Network:
    """A network in which exactly these rewrites were applied."""

    def load(name: str) -> Registry:
        return forced(framework, rewrites)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nirmap.rebuilding.load_registry", load)
        patch.setattr("nirmap.building.REWRITES", rewrites)
        return nirmap.from_nir(graph, framework, dt=DT, dtype=dtype, **wishes)


def named(name: str) -> Rewrite:
    return next(rewrite for rewrite in REWRITES if rewrite.name == name)


def example(rewrite: Rewrite, seed: int = 0) -> nir.NIRGraph:
    """A node that can be rewritten, with a number of its own for each neuron, between Input and Output."""
    if rewrite.node == "Linear":
        return chain([nir.Linear(weight(seed=seed))], (NEURONS,), names=NAMES)
    row = next(row for row in elementwise_rows("torch") if row.node == rewrite.node)
    return chain([suitable_node(row, seed)], (NEURONS,), names=NAMES)


def node_of(graph: nir.NIRGraph, name: str = "n") -> Any:
    return graph.nodes[name]


def series_of(net: nirmap.Network, name: str = "n") -> Series:
    module = net.get_submodule(net.meta["nirmap"].identifiers[name])
    assert isinstance(module, Series)
    return module


def run(net: Any, xs: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
    with torch.no_grad():
        return nirmap.run(net, xs, state)


def check_close(found: torch.Tensor, expected: Any) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)


def check_same_node(found: Any, expected: Any, relative: float = 1e-9) -> None:
    assert type(found) is type(expected)
    for parameter in PRIMITIVES[type(expected).__name__].declared:
        value = getattr(expected, parameter.name)
        assert getattr(found, parameter.name).shape == value.shape
        np.testing.assert_allclose(getattr(found, parameter.name), value, rtol=relative, atol=1e-9)


def state_after(trace: Trace, step: int) -> dict[str, dict[str, torch.Tensor]]:
    """The oracle's state after a step, as the state of a network."""
    variables = trace.states.get(("n",), {})
    return {"n": {name: torch.tensor(value[step]) for name, value in variables.items()}} if variables else {}


@pytest.mark.parametrize(("framework", "name"), sorted(IMPOSSIBLE))
def test_what_cannot_be_rewritten_is_refused_with_the_reason(framework: str, name: str) -> None:
    rewrite = named(name)
    with pytest.raises(nirmap.UnsupportedNodeError) as raised:
        rebuilt(example(rewrite), framework, rewrite)
    assert raised.value.where == "node 'n'"
    assert f"no rewrite helps: {name} needs" in raised.value.do
    assert load_registry(framework).not_mapped["LIF"] in raised.value.do


@each_case
def test_a_series_is_the_node_over_drawn_parameters_and_inputs(framework: str, rewrite: Rewrite) -> None:
    shape = (2, 3) if rewrite.node == "Linear" else (3,)
    graphs = drawn_node(rewrite.node, shape).map(
        lambda node: chain([node], (3,), shape[:1] if rewrite.node == "Linear" else (3,), names=NAMES)
    )

    @settings(max_examples=4)
    @given(graphs.flatmap(lambda graph: graph_inputs(graph).map(lambda streams: (graph, streams))))
    def check(network: tuple[nir.NIRGraph, dict[str, Any]]) -> None:
        graph, streams = network
        trace = simulate(graph, streams, DT)
        assume(margin(trace) > MARGIN)
        net = rebuilt(graph, framework, rewrite)
        xs = torch.tensor(streams["in"])
        outputs, state = run(net, xs)
        check_close(outputs, trace.outputs["out"])
        # The state is in the node's own variables, and a run goes on from one that came from elsewhere.
        expected = state_after(trace, -1)
        assert state.keys() == expected.keys()
        for name, value in expected.get("n", {}).items():
            check_close(state["n"][name], value)
        middle = len(xs) // 2
        later, _ = run(net, xs[middle:], state_after(trace, middle - 1) or None)
        check_close(later, trace.outputs["out"][middle:])
        check_same_node(nirmap.to_nir(net).nodes["n"], graph.nodes["n"])

    check()


@each_case
def test_the_graph_comes_back_in_every_dtype(framework: str, rewrite: Rewrite) -> None:
    graph = example(rewrite)
    for dtype, relative in ((torch.float64, 1e-9), (torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        net = rebuilt(graph, framework, rewrite, dtype=dtype)
        floating = [value for value in net.state_dict().values() if value.is_floating_point()]
        assert {value.dtype for value in floating} <= {dtype}
        output, state = net(inputs(2, NEURONS, dtype=dtype))
        kept = [value for entry in state.values() for value in entry.values()]
        assert {value.dtype for value in (output, *kept)} == {dtype}
        written = nirmap.to_nir(net)
        assert written.nodes.keys() == graph.nodes.keys()
        assert written.edges == graph.edges
        check_same_node(written.nodes["n"], graph.nodes["n"], relative)


@each_case
def test_copies_and_saved_states_are_the_same_network(framework: str, rewrite: Rewrite) -> None:
    net = rebuilt(example(rewrite), framework, rewrite)
    xs = inputs(STEPS, 2, NEURONS)
    expected, state = run(net, xs)
    other = rebuilt(example(rewrite, seed=1), framework, rewrite)
    assert not torch.equal(run(other, xs)[0], expected)
    other.load_state_dict(net.state_dict())
    assert f"nir.{rewrite.node}, {rewrite.name}" in repr(net)
    pickled = pickle.loads(pickle.dumps(net))
    assert series_of(pickled).rewrite is rewrite
    for copied in (copy.deepcopy(net), pickled, other):
        outputs, after = run(copied, xs)
        assert torch.equal(outputs, expected)
        assert same_state(after, state)
    for copied in (copy.deepcopy(net), pickled, other):
        check_same_node(nirmap.to_nir(copied).nodes["n"], example(rewrite).nodes["n"])


@each_case
def test_a_step_changes_neither_the_state_given_nor_the_modules(framework: str, rewrite: Rewrite) -> None:
    """A part that begins every step anew may keep nothing of the step before either."""
    net = rebuilt(example(rewrite), framework, rewrite)
    xs = inputs(STEPS, 2, NEURONS)
    with torch.no_grad():
        first, state = net(xs[0])
        given = copy.deepcopy(state)
        for x in xs[1:]:
            net(x, state)
        assert same_state(state, given)
        assert torch.equal(net(xs[0])[0], first)


@each_case
def test_gradients_reach_the_input(framework: str, rewrite: Rewrite) -> None:
    net = rebuilt(example(rewrite), framework, rewrite)
    xs = inputs(STEPS, 2, NEURONS).requires_grad_()
    nirmap.run(net, xs)[0].sum().backward()
    assert xs.grad is not None
    assert torch.isfinite(xs.grad).all()
    assert (xs.grad != 0).any()


@each_case
def test_only_weights_are_trained_and_what_else_is_asked_for_is_refused(
    framework: str, rewrite: Rewrite
) -> None:
    """An optimiser would else train the whole matrix of a Scale."""
    trained = rebuilt(example(rewrite), framework, rewrite).parameters()
    assert any(parameter.requires_grad for parameter in trained) == (rewrite.node == "Linear")
    for parameter in PRIMITIVES[rewrite.node].declared:
        if parameter.kind == "neuron":
            with pytest.raises(nirmap.ConstraintError, match=f"^node 'n': {parameter.name} cannot") as raised:
                rebuilt(example(rewrite), framework, rewrite, trainable=(parameter.name,))
            assert "leave it out of trainable" in raised.value.do


@each_case
def test_the_report_says_what_was_done_and_why(framework: str, rewrite: Rewrite) -> None:
    graph = example(rewrite)
    net = rebuilt(graph, framework, rewrite)
    entry = net.meta["nirmap"].nodes["n"]
    assert (entry.node, entry.how, entry.rules) == (rewrite.node, "rewritten", (rewrite.name,))
    assert entry.source == rewrite.source
    assert entry.because.startswith(f"node 'n': a nir.{rewrite.node}; expected a node that {framework} has")
    assert "no rewrite helps" not in entry.because
    assert entry.module.count(" -> ") == len(rewrite.series) - 1
    rows = load_registry(framework).rows
    for path, (_, node) in zip(entry.module.split(" -> "), rewrite.series, strict=True):
        assert node in {row.node for row in rows if row.path == path}, path
    assert entry.before.keys() == {parameter.name for parameter in PRIMITIVES[rewrite.node].declared}
    for name, value in entry.before.items():
        np.testing.assert_array_equal(value, getattr(graph.nodes["n"], name))
    assert entry.after.keys() == {
        f"{part}.{parameter.name}" for part, node in rewrite.series for parameter in PRIMITIVES[node].declared
    }
    parts = {
        part: {p.name: entry.after[f"{part}.{p.name}"] for p in PRIMITIVES[node].declared}
        for part, node in rewrite.series
    }
    for name, value in rewrite.read(parts, DT).items():
        np.testing.assert_allclose(value, entry.before[name])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_matrix_with_an_entry_off_its_diagonal_is_written_as_a_matrix(framework: str) -> None:
    rewrite = named("scale_as_linear")
    graph = example(rewrite)
    net = rebuilt(graph, framework, rewrite)
    product = framework_module(series_of(net), "product")
    # On the diagonal it is another Scale.
    with torch.no_grad():
        product.weight.diagonal().mul_(2)
    check_same_node(nirmap.to_nir(net).nodes["n"], nir.Scale(2 * node_of(graph).scale))
    add(product.weight, (0, 1), 0.25)
    written = nirmap.to_nir(net)
    assert set(written.edges) == {("in", "n_product"), ("n_product", "out")}
    matrix: Any = np.diag(2 * node_of(graph).scale)
    # Rockpool keeps the transpose.
    matrix[(1, 0) if framework == "rockpool" else (0, 1)] = 0.25
    check_same_node(written.nodes["n_product"], nir.Linear(matrix))
    check_same_outputs(net, written)


def framework_module(series: Series, part: str) -> Any:
    """The framework's own module of a part."""
    module = series.part(part)
    return getattr(module, "module", module)


def add(tensor: torch.Tensor, index: tuple[int, ...], number: float) -> None:
    with torch.no_grad():
        tensor[index] += number


def check_same_outputs(net: nirmap.Network, written: nir.NIRGraph) -> None:
    """The network gives what the oracle makes of the graph that was written."""
    xs = inputs(STEPS, 2, NEURONS)
    check_close(run(net, xs)[0], simulate(written, xs, DT).outputs["out"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_bias_that_was_trained_is_written_as_a_layer_with_a_bias(framework: str) -> None:
    rewrite = named("linear_as_affine")
    graph = example(rewrite)
    net = rebuilt(graph, framework, rewrite)
    layer = framework_module(series_of(net), "layer")
    add(layer.bias, (1,), 0.25)
    written = nirmap.to_nir(net)
    assert set(written.edges) == {("in", "n_layer"), ("n_layer", "out")}
    bias = np.array([0, 0.25, 0, 0])
    check_same_node(written.nodes["n_layer"], nir.Affine(node_of(graph).weight, bias))
    check_same_outputs(net, written)


def test_a_part_that_was_changed_is_still_part_of_the_node_where_one_says_it() -> None:
    rewrite = named("cuba_lif_as_series")
    graph = example(rewrite)
    net = rebuilt(graph, "torch", rewrite)
    framework_module(series_of(net), "synapse").tau.mul_(2)
    written = nirmap.to_nir(net)
    np.testing.assert_allclose(node_of(written).tau_syn, 2 * node_of(graph).tau_syn)
    check_same_outputs(net, written)


def test_a_series_in_a_feedback_loop_is_written_as_its_parts() -> None:
    """The edge that leads back has to lead to the first of them, and to leave the last."""
    lif: Any = suitable_node(next(row for row in elementwise_rows("torch") if row.node == "LIF"))
    nodes: Any = {
        "in": input_node(NEURONS),
        "lif": lif,
        "n": nir.Linear(weight()),
        "out": output_node(NEURONS),
    }
    edges = [("in", "lif"), ("lif", "n"), ("n", "lif"), ("lif", "out")]
    graph = nir.NIRGraph(nodes, edges)
    net = rebuilt(graph, "torch", named("linear_as_affine"))
    assert set(nirmap.to_nir(net).edges) == set(edges)
    layer = framework_module(series_of(net), "layer")
    add(layer.bias, (0,), 0.25)
    written = nirmap.to_nir(net)
    assert set(written.edges) == {("in", "lif"), ("lif", "n_layer"), ("n_layer", "lif"), ("lif", "out")}
    check_same_outputs(net, written)


@pytest.mark.parametrize("name", ["cuba_li_as_series", "cuba_lif_as_series"])
@pytest.mark.parametrize("recurrent", [False, True])
def test_a_synapse_with_a_resting_value_is_written_as_two_nodes(name: str, recurrent: bool) -> None:
    """No CubaLI says it; its parts do, and their state and their feedback go on."""
    rewrite = named(name)
    graph, after = example(rewrite), rewrite.series[1][0]
    if recurrent:
        graph = nir.NIRGraph(
            {**graph.nodes, "back": nir.Linear(0.25 * weight())},
            [("in", "n"), ("n", "back"), ("back", "n"), ("n", "out")],
        )
    net, node = rebuilt(graph, "torch", rewrite), node_of(graph)
    synapse: Any = series_of(net).part("synapse")
    synapse.tau.mul_(2)
    written = nirmap.to_nir(net)
    assert written.nodes.keys() == graph.nodes.keys()
    np.testing.assert_allclose(node_of(written).tau_syn, 2 * node.tau_syn)
    synapse.v_leak.add_(0.25)
    written = nirmap.to_nir(net)
    last = f"n_{after}"
    expected = {("in", "n_synapse"), ("n_synapse", last), (last, "out")}
    assert set(written.edges) == expected | ({(last, "back"), ("back", "n_synapse")} if recurrent else set())
    np.testing.assert_allclose(node_of(written, "n_synapse").v_leak, 0.25)
    np.testing.assert_allclose(node_of(written, last).tau, node.tau_mem)
    check_same_outputs(net, written)


class Around(torch.nn.Module):
    """A user's own network around a rebuilt one, with its state and a neighbour."""

    def __init__(self, inner: torch.nn.Module, n_synapse: torch.nn.Module) -> None:
        super().__init__()
        self.n, self.n_synapse = inner, n_synapse

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        y, state = self.n(x, state)
        return self.n_synapse(y), state


def test_in_a_users_network_too_the_parts_take_the_state_and_no_name_of_another() -> None:
    rewrite = named("cuba_lif_as_series")
    series: Any = series_of(rebuilt(example(rewrite), "torch", rewrite))
    series.part("synapse").v_leak.add_(0.25)
    layer = torch.nn.Linear(NEURONS, NEURONS, dtype=torch.float64)
    written = nirmap.to_nir(Around(series, layer), dt=DT, sample=inputs(1, NEURONS))
    assert set(written.edges) == {
        ("x", "n_synapse_1"),
        ("n_synapse_1", "n_neuron"),
        ("n_neuron", "n_synapse"),
        ("n_synapse", "output"),
    }


ANEW = {
    ("scale_as_leaky_integrator", "product"): {"tau": "0.0002", "v_leak": "0.25"},
    ("threshold_as_neuron", "neuron"): {"tau": "0.0002", "v_leak": "0.25", "v_reset": "0.25"},
}


@pytest.mark.parametrize(
    ("name", "part", "parameter", "found"),
    [(*key, parameter, found) for key, changes in ANEW.items() for parameter, found in changes.items()],
)
def test_a_part_that_begins_every_step_anew_is_not_written_as_a_node_that_remembers(
    name: str, part: str, parameter: str, found: str
) -> None:
    net = rebuilt(example(named(name)), "torch", named(name))
    with torch.no_grad():
        getattr(framework_module(series_of(net), part), parameter)[1] = float(found)
    with pytest.raises(nirmap.ConstraintError) as raised:
        nirmap.to_nir(net)
    error = raised.value
    assert (error.where, error.found) == (f"node 'n' ({name}: {part})", f"{parameter} = {found}")
    assert error.expected.startswith("0.0001, which" if parameter == "tau" else "0, which")
    assert "begins every step anew" in error.expected
    assert "set it back" in error.do


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("factor", [1e-9, 5.0])
def test_an_entry_off_the_diagonal_is_kept_however_small(size: float, factor: float) -> None:
    graph = chain([nir.Scale(np.full(NEURONS, size))], (NEURONS,), names=NAMES)
    net = rebuilt(graph, "torch", named("scale_as_linear"))
    add(framework_module(series_of(net), "product").weight, (0, 1), factor * size)
    written = nirmap.to_nir(net)
    np.testing.assert_allclose(node_of(written, "n_product").weight[0, :2], [size, factor * size])


def test_parts_leave_all_other_nodes_their_names() -> None:
    """Whoever looks for a node of the graph by its name finds that node."""
    nodes: dict[str, Any] = {
        "n_product_2": input_node(NEURONS),
        "n": nir.Scale(np.arange(1.0, 1 + NEURONS)),
        "n_product": nir.Linear(weight()),
        "n_product_1": output_node(NEURONS),
    }
    edges = [("n_product_2", "n"), ("n", "n_product"), ("n_product", "n_product_1")]
    net = rebuilt(nir.NIRGraph(nodes, edges), "torch", named("scale_as_linear"))
    add(framework_module(series_of(net), "product").weight, (0, 1), 0.25)
    written = nirmap.to_nir(net)
    assert written.nodes.keys() == {"n_product", "n_product_1", "n_product_2", "n_product_3"}
    assert {name: type(written.nodes[name]) for name in nodes if name != "n"} == {
        name: type(node) for name, node in nodes.items() if name != "n"
    }
    np.testing.assert_allclose(node_of(written, "n_product").weight, weight())
    xs = inputs(STEPS, 2, NEURONS)
    check_close(run(net, xs)[0], simulate(written, xs, DT).outputs["n_product_1"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_part_may_be_rewritten_itself(framework: str) -> None:
    rewrites = named("scale_as_linear"), named("linear_as_affine")
    graph = example(rewrites[0])
    net = rebuilt(graph, framework, *rewrites)
    entry = net.meta["nirmap"].nodes["n"]
    assert (entry.how, entry.rules) == ("rewritten", ("scale_as_linear", "linear_as_affine"))
    assert not any(parameter.requires_grad for parameter in net.parameters())
    check_same_outputs(net, graph)
    check_same_node(nirmap.to_nir(net).nodes["n"], graph.nodes["n"])
    inner = series_of(net).part("product")
    assert isinstance(inner, Series)
    layer = framework_module(inner, "layer")
    add(layer.bias, (0,), 0.25)
    with pytest.raises(nirmap.ConstraintError) as raised:
        nirmap.to_nir(net)
    assert raised.value.where == "node 'n_product' (linear_as_affine: layer)"
    assert raised.value.found == "bias = 0.25"
    assert "it is itself a part of a node" in raised.value.expected


def test_a_rewrite_is_taken_only_where_no_module_serves() -> None:
    """A matrix in the place of a Scale has the square of its numbers."""
    scale, images = np.arange(1.0, 5.0), np.ones((2, 3))
    for framework in FRAMEWORKS:
        builder = Builder(load_registry(framework), DT, Placement())
        own = {row.node for row in load_registry(framework).rows if row.build is not None}
        report = builder.build(nir.Scale(scale), "node 'n'").report
        assert report.rules == (() if "Scale" in own else ("scale_as_linear",)), framework
        assert builder.build(nir.Linear(weight()), "node 'n'").report.rules == ()
    # The order is that of preference, and what a rewrite requires is looked at.
    builder = Builder(load_registry("norse"), DT, Placement())
    for node in (nir.Scale(images), nir.Scale(np.ones(1025))):
        report = builder.build(node, "node 'n'").report
        assert report.rules == ("scale_as_leaky_integrator",)

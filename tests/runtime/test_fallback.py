"""The built-in modules in the place of what a framework cannot express.

If these fail, a network cannot be run in a framework at all, or runs in modules of which nobody told the user.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.oracle.interpreter import margin, simulate
from nirmap.registry import load_registry, rows_for_node
from nirmap_registry.catalogue import PRIMITIVES
from oracle.building import chain, input_node, output_node
from runtime.suitable import DT, FRAMEWORKS, NEURONS, inputs, suitable_node, weight

# nir works out another shape for some convolutions when it reads them from a file.
pytestmark = pytest.mark.filterwarnings("ignore::nirmap.errors.ReadBackWarning")

STEPS = 15
MARGIN = 1e-9
REFUSALS = (nirmap.UnsupportedNodeError, nirmap.ConstraintError)
ADVICE = "fallback='torch' takes the built-in module for this node"


def general(kind: str, seed: int = 0) -> Any:
    """A neuron, every parameter per neuron and none at a value that makes it vanish."""
    return suitable_node(next(row for row in load_registry("torch").rows if row.node == kind), seed)


def layers() -> dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]]:
    """The other primitives, each with the shapes of its input and output."""
    random = np.random.default_rng(0)
    image = (2, 6, 5)
    stride, padding = np.array([2, 1]), np.array([1, 0])
    return {
        "Linear": (nir.Linear(weight(3)), (NEURONS,), (3,)),
        "Affine": (nir.Affine(weight(3), random.uniform(-1, 1, 3)), (NEURONS,), (3,)),
        "Conv1d": (
            nir.Conv1d(None, random.uniform(-1, 1, (4, 1, 3)), 2, "valid", 1, 2, random.uniform(-1, 1, 4)),
            (2, 7),
            (4, 3),
        ),
        "Conv2d": (
            nir.Conv2d(
                None, random.uniform(-1, 1, (3, 2, 3, 2)), (2, 1), (1, 0), 1, 1, random.uniform(-1, 1, 3)
            ),
            image,
            (3, 3, 4),
        ),
        "SumPool2d": (nir.SumPool2d(np.array([3, 2]), stride, padding), image, (2, 3, 4)),
        "AvgPool2d": (nir.AvgPool2d(np.array([3, 2]), stride, padding), image, (2, 3, 4)),
        "Flatten": (nir.Flatten({"input": np.array(image)}, 0, -1), image, (60,)),
    }


def awkward() -> dict[str, nir.NIRGraph]:
    """Nodes that some framework refuses for their parameters or their shape."""
    leaky: dict[str, Any] = {"r": np.full(2, 1.5), "v_leak": np.full(2, 0.25)}
    above, reset = np.full(2, 0.7), np.full(2, 0.1)
    current: dict[str, Any] = {
        **leaky,
        "tau_syn": np.full(2, 7e-4),
        "tau_mem": np.full(2, 8e-4),
        "w_in": np.full(2, 1.5),
    }
    silent: dict[str, Any] = {**current, "r": np.zeros(2)}
    faster = np.full(2, 0.75 * DT)
    nodes: dict[str, Any] = {
        "LI faster than a step": nir.LI(tau=faster, **leaky),
        "LIF faster than a step": nir.LIF(tau=faster, **leaky, v_threshold=above, v_reset=reset),
        "CubaLI without resistance": nir.CubaLI(**silent),
        "CubaLIF without resistance": nir.CubaLIF(**silent, v_threshold=above, v_reset=reset),
        "LIF that rests above its threshold": nir.LIF(
            tau=np.full(2, 9e-4), r=np.ones(2), v_leak=np.full(2, 0.9), v_threshold=above, v_reset=reset
        ),
        "IF that starts above its threshold": nir.IF(np.full(2, 900.0), -above, -2 * above),
        "Threshold below zero": nir.Threshold(-above),
    }
    graphs = {name: chain([node], (2,), names=["in", "n", "out"]) for name, node in nodes.items()}
    for kind in ("I", "LI", "LIF", "CubaLI", "CubaLIF", "Threshold", "Scale"):
        node = general(kind)
        for parameter in PRIMITIVES[kind].declared:
            setattr(node, parameter.name, getattr(node, parameter.name).reshape(2, 2))
        graphs[f"{kind} on two axes"] = chain([node], (2, 2), names=["in", "n", "out"])
    return graphs


def graph_of(kind: str) -> nir.NIRGraph:
    """A graph of one node of a primitive."""
    if kind in layers():
        node, before, after = layers()[kind]
        return chain([node], before, after, names=["in", "n", "out"])
    return chain([general(kind)], (NEURONS,), names=["in", "n", "out"])


GRAPHS = {**{kind: graph_of(kind) for kind in PRIMITIVES}, **awkward()}
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)
each_graph = pytest.mark.parametrize("name", GRAPHS)


def rebuilt(graph: nir.NIRGraph, framework: str, **wishes: Any) -> nirmap.Network:
    return nirmap.from_nir(graph, framework, dt=DT, dtype=torch.float64, **wishes)


def refusal(graph: nir.NIRGraph, framework: str) -> nirmap.NirmapError | None:
    """The error without a fallback; None where the framework can do it."""
    try:
        rebuilt(graph, framework)
    except REFUSALS as error:
        return error
    return None


def refused() -> Iterator[Any]:
    for framework in FRAMEWORKS:
        for name, graph in GRAPHS.items():
            if refusal(graph, framework) is not None:
                yield pytest.param(framework, name, id=f"{framework}-{name}")


REFUSED = list(refused())
each_refused = pytest.mark.parametrize(("framework", "name"), REFUSED)


def check_runs(net: nirmap.Network, graph: nir.NIRGraph) -> None:
    """Outputs and last state are those of the oracle."""
    (shape,) = (tuple(map(int, node.input_type["input"])) for node in graph.nodes.values() if is_input(node))
    xs = inputs(STEPS, 2, *shape)
    trace = simulate(graph, xs, DT)
    assert margin(trace) > MARGIN
    with torch.no_grad():
        outputs, state = nirmap.run(net, xs)
    np.testing.assert_allclose(outputs.numpy(), trace.outputs["out"], rtol=1e-9, atol=1e-9)
    for path, variables in trace.states.items():
        kept = state
        for key in path:
            kept = kept[key]
        for variable, expected in variables.items():
            np.testing.assert_allclose(kept[variable].numpy(), expected[-1], rtol=1e-9, atol=1e-9)


def is_input(node: nir.NIRNode) -> bool:
    return isinstance(node, nir.Input)


def check_same_graph(written: Any, graph: nir.NIRGraph) -> None:
    assert written.nodes.keys() == graph.nodes.keys()
    assert set(written.edges) == set(graph.edges)
    for name, node in graph.nodes.items():
        found = written.nodes[name]
        assert type(found) is type(node)
        if isinstance(node, nir.NIRGraph):
            check_same_graph(found, node)
        elif type(node).__name__ in PRIMITIVES:
            for parameter in PRIMITIVES[type(node).__name__].declared:
                value, again = getattr(node, parameter.name), getattr(found, parameter.name)
                if isinstance(value, str):
                    assert again == value
                else:
                    np.testing.assert_allclose(
                        np.broadcast_to(again, np.shape(value)), value, rtol=1e-9, atol=1e-9
                    )


def report_of(net: nirmap.Network, name: str = "n") -> nirmap.NodeReport:
    report: nirmap.NodeReport = net.meta["nirmap"].nodes[name]
    return report


@each_framework
@each_graph
def test_with_a_fallback_every_primitive_runs_and_is_what_the_oracle_says(framework: str, name: str) -> None:
    graph = GRAPHS[name]
    net = rebuilt(graph, framework, fallback="torch")
    check_runs(net, graph)
    check_same_graph(nirmap.to_nir(net), graph)


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_no_node_is_silent(kind: str) -> None:
    """A network whose neurons never fire would be right whatever they are."""
    graph = GRAPHS[kind]
    (shape,) = (tuple(map(int, node.input_type["input"])) for node in graph.nodes.values() if is_input(node))
    outputs = simulate(graph, inputs(STEPS, 2, *shape), DT).outputs["out"]
    assert (outputs.std(axis=(0, 1)) > 0).all()


@each_framework
@each_graph
def test_nothing_falls_back_that_the_framework_can_do(framework: str, name: str) -> None:
    graph = GRAPHS[name]
    entry = report_of(rebuilt(graph, framework, fallback="torch"))
    without = refusal(graph, framework)
    assert (entry.how == "fallback") == (without is not None)
    if without is None:
        assert entry == report_of(rebuilt(graph, framework))
        assert entry.how in ("native", "normal form", "rewritten")


@each_refused
def test_a_refusal_names_the_node_the_reason_and_the_fallback(framework: str, name: str) -> None:
    graph = GRAPHS[name]
    kind = type(graph.nodes["n"]).__name__
    path = PRIMITIVES[kind].path
    error = refusal(graph, framework)
    assert error is not None
    assert error.where == "node 'n'"
    assert error.found.startswith((f"a {path}", f"{path} with"))
    assert error.do.endswith(ADVICE)
    registry = load_registry(framework)
    if rows_for_node(registry, kind):
        assert isinstance(error, nirmap.ConstraintError)
        reasons = [one.because for row in rows_for_node(registry, kind) for one in row.requires]
        assert any(reason in error.expected for reason in reasons)
    else:
        assert isinstance(error, nirmap.UnsupportedNodeError)
        declared = [row.not_built for row in registry.rows if row.node == kind]
        # A table gives a reason for each primitive that NIR has.
        mapped = [
            registry.not_mapped.get(kind, "" if hasattr(nir, kind) else f"{framework} has no module for it")
        ]
        assert any(reason in error.expected for reason in (*mapped, *declared) if reason)


@each_refused
def test_the_report_says_what_fell_back_and_why(framework: str, name: str) -> None:
    graph = GRAPHS[name]
    node: Any = graph.nodes["n"]
    kind = type(node).__name__
    entry = report_of(rebuilt(graph, framework, fallback="torch"))
    (row,) = rows_for_node(load_registry("torch"), kind)
    assert (entry.node, entry.how, entry.rules) == (kind, "fallback", ())
    assert (entry.module, entry.source) == (row.path, row.source)
    error = refusal(graph, framework)
    assert error is not None
    assert entry.because.startswith(f"{error.where}: {error.found}; expected {error.expected}")
    # What to do about it has been done.
    assert "fallback" not in entry.because
    assert entry.before.keys() == {parameter.name for parameter in PRIMITIVES[kind].declared}
    for parameter, value in entry.before.items():
        np.testing.assert_array_equal(value, getattr(node, parameter))


def test_both_kinds_of_refusal_are_among_them() -> None:
    """Else the tests above would say nothing about one of them."""
    kinds = {type(refusal(GRAPHS[str(case.values[1])], str(case.values[0]))) for case in REFUSED}
    assert kinds == set(REFUSALS)
    assert {case.values[0] for case in REFUSED} == set(FRAMEWORKS) - {"torch"}


@each_refused
def test_a_network_with_a_fallback_is_copied_and_saved_as_any_other(framework: str, name: str) -> None:
    graph = GRAPHS[name]
    net = rebuilt(graph, framework, fallback="torch")
    pickled = pickle.loads(pickle.dumps(net))
    assert report_of(pickled) == report_of(net)
    again = rebuilt(graph, framework, fallback="torch")
    again.load_state_dict(net.state_dict())
    for other in (copy.deepcopy(net), pickled, again):
        check_runs(other, graph)
        check_same_graph(nirmap.to_nir(other), graph)


@each_framework
@pytest.mark.parametrize("fallback", ["norse", "Torch", "", True, "no such framework"])
def test_another_fallback_is_refused(framework: str, fallback: Any) -> None:
    """Only the built-in modules express every node; one that is not known may not be taken for none."""
    with pytest.raises(nirmap.ConstraintError) as raised:
        rebuilt(GRAPHS["Scale"], framework, fallback=fallback)
    assert raised.value.where == "fallback"
    assert repr(fallback) in raised.value.found
    assert "'torch'" in raised.value.expected


@each_framework
def test_a_fallback_is_for_the_nodes_that_need_it_alone(framework: str) -> None:
    """In a network with feedback and a sub-graph, whose report says what fell back in it."""
    inner = chain([general("Delay", 1)], (NEURONS,), names=["i", "late", "o"])
    nodes: Any = {
        "in": input_node(NEURONS),
        "linear": nir.Linear(0.25 * weight()),
        "late": general("Delay"),
        "li": general("LI"),
        "inner": inner,
        "out": output_node(NEURONS),
    }
    edges = [("in", "linear"), ("linear", "li"), ("li", "late"), ("late", "inner"), ("late", "linear")]
    graph = nir.NIRGraph(nodes, [*edges, ("inner", "out")], type_check=False)
    net = rebuilt(graph, framework, fallback="torch")
    expected = "native" if framework == "torch" else "fallback"
    assert report_of(net, "late").how == expected
    report = net.meta["nirmap"]
    assert report.framework == framework
    assert report.graphs["inner"].nodes["late"].how == expected
    assert "fallback" not in (report_of(net, "linear").how, report_of(net, "li").how)
    if framework != "torch":
        because = report.graphs["inner"].nodes["late"].because
        assert because.startswith("node 'inner' / node 'late': ")
        assert "nir.Delay" in because
    check_runs(net, graph)
    check_same_graph(nirmap.to_nir(net), graph)


@each_framework
def test_what_the_built_in_modules_cannot_express_is_refused_all_the_same(framework: str) -> None:
    between = chain([nir.Delay(np.array([1.5 * DT]))], (1,), names=["in", "n", "out"])
    with pytest.raises(nirmap.ConstraintError, match=r"node 'n' .*0\.00015"):
        rebuilt(between, framework, fallback="torch")
    stacked = chain([nir.Linear(np.ones((2, 3, 3)))], (2, 3), names=["in", "n", "out"])
    with pytest.raises(nirmap.ConstraintError) as raised:
        rebuilt(stacked, framework, fallback="torch")
    assert raised.value.where == "node 'n'"
    malformed: Any = chain([general("LIF")], (NEURONS,), names=["in", "n", "out"])
    malformed.nodes["n"].tau = np.zeros(NEURONS)
    with pytest.raises(nirmap.GraphError, match="tau above 0"):
        rebuilt(malformed, framework, fallback="torch")


@each_framework
def test_what_the_caller_gives_takes_precedence_over_a_fallback(framework: str) -> None:
    def given(node: nir.NIRNode) -> torch.nn.Module:
        return torch.nn.Identity()

    net = rebuilt(GRAPHS["Delay"], framework, fallback="torch", node_map={nir.Delay: given})
    assert report_of(net).how == "given"


def test_a_parameter_of_a_fallback_can_be_trained() -> None:
    """The built-in modules can, whatever the framework."""
    graph = GRAPHS["LIF on two axes"]
    assert refusal(graph, "rockpool") is not None
    net = rebuilt(graph, "rockpool", fallback="torch", trainable=("tau",))
    assert [name.rpartition(".")[2] for name, _ in net.named_parameters()] == ["tau"]

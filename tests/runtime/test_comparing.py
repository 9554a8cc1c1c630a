"""Comparing frameworks: if these fail, a wrong framework passes for right, or its fault is looked for elsewhere."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nirmap
from nirmap.comparison import OUTPUT
from nirmap.oracle.interpreter import simulate
from nirmap.registry import load_registry
from nirmap.stimuli import read_columns
from nirmap_registry import FRAMEWORKS
from nirmap_registry.rows import Placement, Registry, Row
from oracle import architectures
from oracle.building import chain, input_node, output_node

DT = 1e-3
STEPS, BATCH, SIZE = 12, 2, 3
NODES = ("fc", "lif", "gain", "li")


def lif(size: int = SIZE, tau: float = 0.02) -> nir.NIRNode:
    ones = np.ones(size)
    return nir.LIF(ones * tau, ones * 8, ones * 0, ones * 0.25, v_reset=ones * 0)


def network() -> nir.NIRGraph:
    """A layer, neurons that fire, a gain, and a read-out: every kind of value there is."""
    ones = np.ones(SIZE)
    weight = np.random.default_rng(1).uniform(0.1, 1, (SIZE, SIZE))
    nodes = [nir.Linear(weight), lif(), nir.Scale(ones * 2), nir.LI(ones * 0.01, ones, ones * 0)]
    return chain(nodes, (SIZE,), names=["input", *NODES, "output"])


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0, 1, shape)


class Faulty(torch.nn.Module):
    """A node's own module, which adds something to one element of its output in one step."""

    def __init__(self, inner: torch.nn.Module, step: int, place: tuple[int, ...], error: float) -> None:
        super().__init__()
        self.inner, self.step, self.place, self.error = inner, step, place, error

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        step, kept = (0, None) if state is None else (state["step"], state["kept"])
        if "state" in inspect.signature(self.inner.forward).parameters:
            output, kept = self.inner(x, kept)
        else:
            output = self.inner(x)
        output = output.clone()
        if step == self.step:
            output[self.place] += self.error
        shown: dict[str, Any] = kept or {}
        return output, {**shown, "step": step + 1, "kept": kept}


def faulty_network(
    graph: nir.NIRGraph, node: str, step: int, place: tuple[int, ...], error: float
) -> nirmap.Network:
    """The graph rebuilt with torch, one of its nodes faulty."""
    right = nirmap.from_nir(graph, dt=DT, dtype=torch.float64)
    inner: Any = right.get_submodule(right.meta["nirmap"].identifiers[node])
    kind = type(graph.nodes[node])

    def make(_: nir.NIRNode) -> torch.nn.Module:
        return Faulty(inner, step, place, error)

    return nirmap.from_nir(graph, dt=DT, dtype=torch.float64, node_map={kind: make})


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_is_equal_to_the_equations(framework: str) -> None:
    xs = numbers(60, BATCH, SIZE)
    comparison = nirmap.compare(network(), xs, [framework], dt=DT, fallback="torch")
    (result,) = comparison.results
    assert result.error is None
    assert result.equal
    assert comparison.equal
    spikes = simulate(network(), torch.tensor(xs, dtype=torch.float32), DT).spike_counts()
    assert result.spikes == sum(spikes.values()) > 20
    assert [path for path in result.nodes if path[0] in NODES] == [(name,) for name in NODES]
    assert result.nodes[("lif",)].largest.keys() == {OUTPUT, "v"}
    assert result.nodes[("li",)].largest["v"] < 1e-5


@settings(max_examples=30)
@given(
    node=st.sampled_from(NODES),
    step=st.integers(0, STEPS - 1),
    row=st.integers(0, BATCH - 1),
    neuron=st.integers(0, SIZE - 1),
    error=st.sampled_from([-2.0, 0.5, 1.0, float("nan"), float("inf")]),
)
def test_the_first_difference_is_at_the_node_step_and_neuron_that_is_wrong(
    node: str, step: int, row: int, neuron: int, error: float
) -> None:
    graph, xs = network(), numbers(STEPS, BATCH, SIZE)
    wrong = faulty_network(graph, node, step, (row, neuron), error)
    comparison = nirmap.compare(graph, xs, {"right": "torch", "wrong": wrong}, dt=DT, dtype=torch.float64)
    assert [result.equal for result in comparison.results] == [True, False]
    assert not comparison.equal
    first = comparison.results[1].first
    assert first is not None
    assert (first.node, first.variable) == ((node,), OUTPUT)
    assert (first.step, first.row, first.neuron) == (step, row, (neuron,))
    assert first.time == pytest.approx(step * DT)
    expected = simulate(graph, xs, DT).values[(node,)][step, row, neuron]
    assert first.reference == pytest.approx(expected)
    np.testing.assert_allclose(first.value, expected + error)
    text = json.dumps(comparison.summary(), allow_nan=False)
    assert json.loads(text)["frameworks"][1]["first_difference"]["node"] == [node]


def test_of_two_nodes_in_one_step_the_earlier_is_named() -> None:
    """The other is wrong because of it."""
    ones = np.ones(SIZE)
    graph = chain(
        [nir.Scale(ones), nir.Scale(ones * 2)], (SIZE,), names=["input", "z first", "a last", "output"]
    )
    wrong = chain(
        [nir.Scale(ones * 3), nir.Scale(ones * 2)], (SIZE,), names=["input", "z first", "a last", "output"]
    )
    comparison = nirmap.compare(graph, numbers(4, SIZE), {"wrong": nirmap.from_nir(wrong, dt=DT)}, dt=DT)
    first = comparison.results[0].first
    assert first is not None
    assert (first.node, first.step) == (("z first",), 0)


def test_a_wrong_row_of_a_registry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time constant is ten per cent too long: the potential is wrong before the spikes are."""
    load = load_registry
    registry = load("norse")

    def slower(row: Row) -> Row:
        right = row.build
        if row.node != "LIF" or right is None:
            return row

        def build(values: Any, dt: float, to: Placement) -> torch.nn.Module:
            return right({**values, "tau": values["tau"] * 1.1}, dt, to)

        return dataclasses.replace(row, build=build)

    def load_wrong(name: str) -> Registry:
        return wrong if name == "norse" else load(name)

    wrong = dataclasses.replace(registry, rows=tuple(map(slower, registry.rows)))
    monkeypatch.setattr("nirmap.rebuilding.load_registry", load_wrong)
    xs = numbers(40, SIZE) / 4
    xs[:5] = 0
    comparison = nirmap.compare(network(), xs, ["torch", "norse"], dt=DT)
    right, found = comparison.results
    assert right.equal
    first = found.first
    assert first is not None
    assert (first.node, first.variable, first.step, first.neuron) == (("lif",), "v", 5, (0,))
    assert first.value == pytest.approx(first.reference / 1.1, rel=1e-5)
    largest = found.largest()
    assert largest is not None
    assert largest[0] > 0.01
    assert found.nodes[("fc",)].largest[OUTPUT] < 1e-6


def test_the_reference_says_how_near_a_wrong_spike_was() -> None:
    graph, xs = network(), numbers(STEPS, BATCH, SIZE)
    trace = simulate(graph, xs, DT)
    wrong = faulty_network(graph, "lif", 3, (1, 2), 1.0)
    (result,) = nirmap.compare(graph, xs, {"wrong": wrong}, dt=DT, dtype=torch.float64).results
    assert result.first is not None
    assert result.first.threshold == 0.25
    assert result.first.potential == pytest.approx(trace.before_reset[("lif",)][3, 1, 2])


def test_a_framework_that_cannot_run_the_graph_gives_its_reason_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = load_registry

    def broken(name: str) -> Any:
        if name == "norse":
            raise ZeroDivisionError("the framework is out of order")
        return load(name)

    monkeypatch.setattr("nirmap.rebuilding.load_registry", broken)
    graph = network()
    neurons: Any = graph.nodes["lif"]
    neurons.v_reset = neurons.v_threshold + 0.1
    comparison = nirmap.compare(graph, numbers(STEPS, SIZE), ["snntorch", "norse", "torch"], dt=DT)
    refused, out_of_order, right = comparison.results
    assert [result.name for result in comparison.results] == ["snntorch", "norse", "torch"]
    assert right.equal
    assert not comparison.equal
    assert isinstance(refused.error, nirmap.ConstraintError)
    assert refused.error.where == "node 'lif'"
    assert "fallback" in refused.error.do
    assert out_of_order.error is not None
    assert "ZeroDivisionError: the framework is out of order" in out_of_order.error.found
    assert [entry["error"] is None for entry in comparison.summary()["frameworks"]] == [False, False, True]
    helped = nirmap.compare(graph, numbers(STEPS, SIZE), ["snntorch"], dt=DT, fallback="torch")
    assert helped.equal
    assert helped.results[0].fallbacks == (("lif",),)


def test_a_module_that_breaks_while_it_runs_is_a_reason_too() -> None:
    class Breaks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no such operator")

    class GivesText(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return "text"

    graph = network()

    def rebuilt(module: torch.nn.Module) -> nirmap.Network:
        return nirmap.from_nir(graph, dt=DT, node_map={nir.Scale: lambda _: module})

    for module, reason in ((Breaks(), "no such operator"), (GivesText(), "returned a str")):
        net = rebuilt(module)
        broken, right = nirmap.compare(
            graph, numbers(3, SIZE), {"broken": net, "right": "torch"}, dt=DT
        ).results
        assert broken.error is not None
        assert reason in broken.error.found
        assert right.equal


@pytest.mark.parametrize("framework", ["torch", "norse", "snntorch"])
def test_feedback_and_every_node_of_nested_graphs_are_compared(framework: str) -> None:
    deepest = chain(
        [lif(tau=0.01), nir.Scale(np.ones(SIZE) * 0.5)], (SIZE,), names=["in", "lif", "half", "out"]
    )
    inner = chain(
        [deepest, nir.Affine(np.eye(SIZE), np.ones(SIZE) * 0.1)], (SIZE,), names=["in", "a.b", "w", "out"]
    )
    inner.edges.append(("w", "a.b"))
    graph = chain([inner, lif()], (SIZE,), names=["in", "a.b", "lif", "out"])
    xs = numbers(40, BATCH, SIZE)
    comparison = nirmap.compare(graph, xs, [framework], dt=DT, dtype=torch.float64, fallback="torch")
    (result,) = comparison.results
    assert result.error is None
    assert result.equal
    trace = simulate(graph, xs, DT)
    assert set(result.nodes) == set(trace.values)
    assert len(result.nodes) == 12
    assert {
        path: node.spikes for path, node in result.nodes.items() if node.spikes is not None
    } == trace.spike_counts()
    assert comparison.path("a.b / a.b / lif") == ("a.b", "a.b", "lif")
    order = list(result.nodes)
    # The feedback is late on the edge from the neurons to w, so w comes first.
    assert order.index(("a.b", "w")) < order.index(("a.b", "a.b", "half")) < order.index(("a.b", "a.b"))
    assert order.index(("a.b", "out")) < order.index(("a.b",)) < order.index(("lif",))


@pytest.mark.parametrize("name", ["whole", "state", "unpack_state", "pack_state", "name_outputs", "cell"])
@pytest.mark.parametrize("node", [nir.Scale(np.ones(SIZE) * 2), lif()], ids=["stateless", "stateful"])
def test_a_node_may_be_called_like_a_part_of_the_network(name: str, node: nir.NIRNode) -> None:
    graph = chain([lif(), node], (SIZE,), names=["input", "lif", name, "output"])
    xs = numbers(STEPS, BATCH, SIZE)
    (result,) = nirmap.compare(graph, xs, ["torch"], dt=DT, dtype=torch.float64).results
    assert result.error is None
    assert result.equal
    assert set(result.nodes) == set(simulate(graph, xs, DT).values)


def test_a_fault_deep_in_a_nested_graph_is_found_there() -> None:
    def nested(gain: float) -> nir.NIRGraph:
        inner = chain([nir.Scale(np.full(SIZE, gain)), lif()], (SIZE,), names=["in", "gain", "lif", "out"])
        return chain([inner, nir.Scale(np.ones(SIZE))], (SIZE,), names=["in", "inner", "after", "out"])

    wrong = nirmap.from_nir(nested(1.01), dt=DT)
    (result,) = nirmap.compare(nested(1.0), numbers(5, SIZE), {"wrong": wrong}, dt=DT).results
    assert result.first is not None
    assert (result.first.node, result.first.step) == (("inner", "gain"), 0)


def test_several_inputs_and_outputs() -> None:
    nodes: dict[str, nir.NIRNode] = {
        "left": input_node(2),
        "right": input_node(2),
        "double": nir.Scale(np.full(2, 2.0)),
        "sum": output_node(2),
        "twice": output_node(2),
    }
    edges = [("left", "double"), ("double", "twice"), ("left", "sum"), ("right", "sum")]
    graph = nir.NIRGraph(nodes, edges, type_check=False)
    given_inputs = {"right": numbers(5, 2), "left": numbers(5, 2, seed=1)}
    comparison = nirmap.compare(graph, given_inputs, ["torch"], dt=DT)
    assert comparison.equal
    assert set(comparison.results[0].nodes) == {(name,) for name in nodes}
    np.testing.assert_allclose(comparison.inputs["left"][:, 0], given_inputs["left"], rtol=1e-6)
    traces = comparison.results[0].traces
    assert traces is not None
    np.testing.assert_allclose(
        traces.values[("sum",)][:, 0], given_inputs["left"] + given_inputs["right"], rtol=1e-6
    )


def test_one_module_that_stands_for_two_nodes_has_two_traces() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

    shared = Twice()
    graph = chain([nir.Scale(np.full(2, 2.0)), nir.Scale(np.full(2, 2.0))], (2,))
    comparison = nirmap.compare(
        graph, numbers(4, 2), ["torch"], dt=DT, node_map={nir.Scale: lambda _: shared}
    )
    assert comparison.equal
    traces = comparison.results[0].traces
    assert traces is not None
    np.testing.assert_array_equal(traces.values[("1",)], 2 * traces.values[("0",)])


def test_a_state_that_a_module_does_not_show_is_named_and_not_passed_over() -> None:
    class Hides(torch.nn.Module):
        def forward(self, x: torch.Tensor, state: Any = None) -> Any:
            v = torch.zeros_like(x) if state is None else state[0]
            v = v + DT / 0.01 * (x - v)
            return v, [v]

    comparison = nirmap.compare(
        network(), numbers(STEPS, SIZE), ["torch"], dt=DT, node_map={nir.LI: lambda _: Hides()}
    )
    assert comparison.equal
    assert comparison.results[0].nodes[("li",)].unseen == ("v",)
    assert comparison.summary()["frameworks"][0]["nodes"][4] == {
        "node": ["li"],
        "spikes": None,
        "largest_difference": {OUTPUT: pytest.approx(0, abs=1e-6)},
        "unseen": ["v"],
    }


SERIES, PLAIN, BATCHED = numbers(6), numbers(6, SIZE), numbers(6, BATCH, SIZE)


@pytest.mark.parametrize(
    ("xs", "expected"),
    [
        (SERIES, np.repeat(SERIES[:, None, None], SIZE, axis=2)),
        (PLAIN, PLAIN[:, None]),
        (BATCHED, BATCHED),
        (PLAIN.tolist(), PLAIN[:, None]),
        (torch.tensor(PLAIN, requires_grad=True), PLAIN[:, None]),
        ({"input": PLAIN}, PLAIN[:, None]),
    ],
    ids=["series", "no batch", "batch", "list", "tensor", "dictionary"],
)
def test_every_form_of_input(xs: Any, expected: Any) -> None:
    comparison = nirmap.compare(network(), xs, ["torch"], dt=DT, dtype=torch.float64)
    np.testing.assert_array_equal(comparison.inputs["input"], expected)
    assert (comparison.steps, comparison.batch) == expected.shape[:2]
    assert comparison.equal


@pytest.mark.parametrize(
    ("xs", "found"),
    [
        (numbers(6, SIZE + 1), r"shape \(6, 4\); expected \(T, 3\) or \(T, B, 3\)"),
        (numbers(6, 1, 1, SIZE), r"shape \(6, 1, 1, 3\)"),
        (numbers(0, SIZE), r"shape \(0, 3\)"),
        (3.0, r"shape \(\)"),
        ([[1, 2], [3]], "a list"),
        ("text", "a str"),
        ({"other": numbers(6, SIZE)}, "names 'other'; expected .*'input'"),
        (np.full((4, SIZE), np.nan), "not finite"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(xs: Any, found: str) -> None:
    with pytest.raises(nirmap.NirmapError, match=found):
        nirmap.compare(network(), xs, ["torch"], dt=DT)


@pytest.mark.parametrize(
    ("frameworks", "found"),
    [
        (["unknown"], "'unknown'; expected one of .*norse"),
        ([], "no name"),
        ("torch", r"write \['torch'\]"),
        ({"reference": "torch"}, "another name"),
    ],
)
def test_frameworks_that_are_none_are_refused(frameworks: Any, found: str) -> None:
    with pytest.raises(nirmap.NirmapError, match=found):
        nirmap.compare(network(), numbers(4, SIZE), frameworks, dt=DT)


def test_the_input_is_rounded_to_the_dtype_for_the_reference_too() -> None:
    """Else every framework would differ from it by the rounding of the input."""
    scale = chain([nir.Scale(np.full(SIZE, 2.0))], (SIZE,))
    (result,) = nirmap.compare(scale, numbers(5, SIZE), ["torch"], dt=DT).results
    assert result.largest() is not None
    assert all(set(node.largest.values()) == {0.0} for node in result.nodes.values())


def test_values_may_be_off_by_the_tolerance_and_spikes_by_nothing() -> None:
    graph, xs = network(), numbers(STEPS, BATCH, SIZE)
    off = faulty_network(graph, "li", 4, (0, 0), 1e-7)
    loose = nirmap.compare(graph, xs, {"off": off}, dt=DT, dtype=torch.float64)
    tight = nirmap.compare(graph, xs, {"off": off}, dt=DT, dtype=torch.float64, tolerance=1e-12)
    assert (loose.equal, tight.equal) == (True, False)
    spikes = faulty_network(graph, "lif", 4, (0, 0), 1e-7)
    assert not nirmap.compare(graph, xs, {"off": spikes}, dt=DT, dtype=torch.float64, tolerance=1.0).equal


def test_the_time_step_is_one_for_all() -> None:
    graph = network()
    graph.metadata["dt"] = DT
    xs = numbers(4, SIZE)
    frameworks = ["torch", "norse", "snntorch"]  # whose defaults differ
    comparison = nirmap.compare(graph, xs, frameworks)
    assert comparison.dt == DT
    assert comparison.equal
    with pytest.raises(nirmap.ConstraintError, match="the graph was written for"):
        nirmap.compare(graph, xs, frameworks, dt=2 * DT)
    other = nirmap.from_nir(network(), dt=2 * DT)
    (result,) = nirmap.compare(graph, xs, {"other": other}).results
    assert result.error is not None
    assert "0.002" in result.error.found


def test_a_malformed_graph_and_one_that_has_no_equations_are_refused_once() -> None:
    broken = network()
    broken.edges.append(("lif", "nowhere"))
    with pytest.raises(nirmap.GraphError, match="nowhere"):
        nirmap.compare(broken, numbers(4, SIZE), ["torch"], dt=DT)
    late = chain([nir.Delay(np.full(SIZE, 2.5 * DT))], (SIZE,))
    with pytest.raises(nirmap.NirmapError, match="delay must be a multiple of dt"):
        nirmap.compare(late, numbers(4, SIZE), ["torch"], dt=DT)


def test_a_cycle_without_state_is_warned_of_once() -> None:
    graph = chain([nir.Scale(np.full(SIZE, 0.5)), nir.Scale(np.full(SIZE, 0.5))], (SIZE,))
    graph.edges.append(("1", "0"))
    with pytest.warns(nirmap.DelayWarning) as caught:
        assert nirmap.compare(graph, numbers(6, SIZE), {"a": "torch", "b": "torch"}, dt=DT).equal
    assert len([entry for entry in caught if entry.category is nirmap.DelayWarning]) == 1


def test_progress_is_told_of_the_reference_and_of_every_step() -> None:
    told: list[tuple[str, int, int]] = []

    def tell(name: str, done: int, total: int) -> None:
        told.append((name, done, total))

    nirmap.compare(network(), numbers(4, SIZE), ["torch", "norse"], dt=DT, progress=tell)
    expected = [("reference", 0, 4), *itertools.product(["torch"], range(5), [4])]
    assert told == [*expected, *itertools.product(["norse"], range(5), [4])]


def test_a_file_is_read(tmp_path: Path) -> None:
    nir.write(tmp_path / "net.nir", network())
    assert nirmap.compare(tmp_path / "net.nir", numbers(4, SIZE), ["torch"], dt=DT).equal


def test_the_node_that_is_drawn_if_none_is_named() -> None:
    xs = numbers(30, SIZE)
    assert nirmap.compare(network(), xs, ["torch"], dt=DT).path() == ("lif",)
    assert nirmap.compare(network(), xs * 0, ["torch"], dt=DT).path() == ("li",)
    stateless = chain([nir.Scale(np.ones(SIZE))], (SIZE,))
    comparison = nirmap.compare(stateless, xs, ["torch"], dt=DT)
    assert comparison.path() == ("output",)
    with pytest.raises(nirmap.NirmapError, match="no 'absent'; expected one of '0', 'input', 'output'"):
        comparison.path("absent")


def test_a_recording_is_one_result_more() -> None:
    xs = numbers(30, SIZE)
    comparison = nirmap.compare(network(), xs, ["torch"], dt=DT)
    trace = simulate(network(), xs[:, None], DT)
    spikes, v = trace.values[("lif",)], trace.states[("lif",)]["v"]
    right = comparison.with_recorded({"output": spikes, "v": v[:, 0]})
    assert right.equal
    assert [result.name for result in right.results] == ["torch", "recorded"]
    assert right.results[1].spikes == int(spikes.sum())
    assert set(right.results[1].nodes) == {("lif",)}
    wrong = v.copy()
    wrong[7, 0, 1] += 0.1
    found = comparison.with_recorded({"v": wrong}, "lif", name="by hand").results[1]
    assert found.first is not None
    assert (found.first.variable, found.first.step, found.first.neuron) == ("v", 7, (1,))
    assert found.nodes[("lif",)].unseen == (OUTPUT,)
    with pytest.raises(nirmap.NirmapError, match="expected one of output, v"):
        comparison.with_recorded({"i": v})
    with pytest.raises(nirmap.NirmapError, match=r"shape \(29, 1, 3\)"):
        comparison.with_recorded({"v": v[1:]})
    with pytest.raises(nirmap.NirmapError, match=r"shape \(30, 1, 4\)"):
        comparison.with_recorded({"v": np.zeros((30, 1, 4))})
    with pytest.raises(nirmap.NirmapError, match="no other result"):
        comparison.with_recorded({"v": v}, name="torch")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_recording_of_the_nir_paper(framework: str, nir_paper: Path) -> None:
    """The published trace of one neuron: its spikes exactly, its potential within 1e-4 V."""
    x, v, spikes = read_columns(nir_paper / "lif_norse.csv", ["1", "2", "3"]).T
    comparison = nirmap.compare(nir_paper / "lif_norse.nir", x, [framework], dt=1e-4, fallback="torch")
    comparison = comparison.with_recorded({"v": v, "output": spikes})
    assert comparison.equal
    traces = comparison.results[0].traces
    assert traces is not None
    np.testing.assert_array_equal(traces.values[("1",)][:, 0, 0], spikes)
    np.testing.assert_allclose(traces.states[("1",)]["v"][:, 0, 0], v, rtol=0, atol=1e-4)
    assert comparison.results[0].spikes == comparison.results[1].spikes == 4


def test_recurrent_networks_with_names_that_have_dots() -> None:
    graph = architectures.braille_recurrent()
    streams = architectures.strong_input(graph, 100, BATCH)
    comparison = nirmap.compare(graph, streams, ["torch", "norse"], dt=1e-4, dtype=torch.float64)
    assert comparison.equal
    assert comparison.path("lif1.lif") == ("lif1.lif",)
    assert all(result.spikes > 100 for result in comparison.results)

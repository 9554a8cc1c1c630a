"""The interpreter against closed forms: were it wrong, every comparison with it would prove a wrong equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nir
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nirmap.oracle.interpreter import margin, simulate
from oracle.building import chain, input_node, output_node
from oracle.parameters import TIME_STEP as DT
from oracle.parameters import neuron

Array = npt.NDArray[Any]
NIR_PAPER = Path(__file__).parents[3] / "shared" / "nir_paper"


def graph(nodes: Mapping[str, nir.NIRNode], edges: str, width: int = 1) -> nir.NIRGraph:
    """A graph with Input "in" and Output "out" besides the nodes; edges as in "in>a a>out"."""
    ends = {"in": input_node(width), "out": output_node(width)}
    pairs = [(edge.split(">")[0], edge.split(">")[1]) for edge in edges.split()]
    return nir.NIRGraph({**ends, **nodes}, pairs, type_check=False)


def constant(value: float, steps: int, width: int = 1) -> Array:
    return np.full((steps, 1, width), value)


def scale(value: float) -> nir.Scale:
    return nir.Scale(np.array([value]))


def column(*values: float) -> Array:
    return np.array(values).reshape(-1, 1, 1)


@given(neuron("LI", (4,)), st.floats(-3, 3))
def test_li_step_response_is_geometric(li: nir.LI, x: float) -> None:
    steps = np.arange(1, 31).reshape(-1, 1, 1)
    response = (li.v_leak + li.r * x) * (1 - (1 - DT / li.tau) ** steps)
    exact = (li.v_leak + li.r * x) * (1 - np.exp(-steps * DT / li.tau))
    inputs = constant(x, 30, 4)
    network = chain([li], (4,))
    np.testing.assert_allclose(
        simulate(network, inputs, DT).outputs["output"], response, rtol=1e-12, atol=1e-12
    )
    exponential = simulate(network, inputs, DT, method="exponential")
    np.testing.assert_allclose(exponential.outputs["output"], exact, rtol=1e-12, atol=1e-12)


@given(neuron("I", (3,)), st.floats(-3, 3))
def test_i_grows_linearly(integrator: nir.I, x: float) -> None:
    expected = np.arange(1, 21).reshape(-1, 1, 1) * DT * integrator.r * x
    outputs = simulate(chain([integrator], (3,)), constant(x, 20, 3), DT).outputs["output"]
    np.testing.assert_allclose(outputs, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reset", [0.0, -0.4, 0.35])
def test_if_interspike_interval_is_the_number_of_increments_from_reset_to_threshold(reset: float) -> None:
    node = nir.IF(r=np.array([3.0]), v_threshold=np.array([1.0]), v_reset=np.array([reset]))
    trace = simulate(chain([node]), constant(1.0, 40), 0.1)
    fired = np.flatnonzero(trace.outputs["output"])
    assert fired[0] == 3  # 0.3, 0.6, 0.9, 1.2
    assert set(np.diff(fired)) == {int((1.0 - reset) // 0.3) + 1}
    np.testing.assert_array_equal(trace.states[("0",)]["v"][fired], reset)


def test_a_potential_equal_to_the_threshold_does_not_fire() -> None:
    node = nir.IF(r=np.array([1.0]), v_threshold=np.array([2.0]), v_reset=np.array([0.0]))
    trace = simulate(chain([node]), constant(1.0, 7), 1.0)
    np.testing.assert_array_equal(trace.outputs["output"], column(0, 0, 1, 0, 0, 1, 0))
    np.testing.assert_array_equal(trace.before_reset[("0",)], column(1, 2, 3, 1, 2, 3, 1))
    assert trace.spike_counts() == {("0",): 2}
    assert margin(trace) == 0
    threshold = simulate(chain([nir.Threshold(np.array([1.0]))]), column(1.0, 1.0000001, 0.9), 1.0)
    np.testing.assert_array_equal(threshold.outputs["output"], column(0, 1, 0))


@given(neuron("LIF", (3,)))
def test_lif_fires_when_the_exponential_between_reset_and_drive_passes_the_threshold(lif: Any) -> None:
    fired = simulate(chain([lif], (3,)), constant(1.0, 80, 3), DT).outputs["output"][:, 0]
    drive, decay = lif.v_leak + lif.r, 1 - DT / lif.tau
    for index in range(3):
        times = np.flatnonzero(fired[:, index]) + 1

        def needed(start: float, index: int = index) -> int:
            passed = (drive[index] - lif.v_threshold[index]) / (drive[index] - start)
            return int(np.floor(np.log(passed) / np.log(decay[index]))) + 1

        assert times[0] == needed(0.0)
        assert set(np.diff(times)) == {needed(lif.v_reset[index])}


@given(neuron("CubaLI", (3,)), st.floats(-3, 3))
def test_cubali_is_the_double_exponential_sum_with_the_new_current(node: Any, x: float) -> None:
    steps = 25
    trace = simulate(chain([node], (3,)), constant(x, steps, 3), DT)
    current = [node.w_in * x * (1 - (1 - DT / node.tau_syn) ** n) for n in range(steps + 1)]
    decay = 1 - DT / node.tau_mem
    potential: list[Any] = [
        sum(
            decay ** (n - k) * DT / node.tau_mem * (node.v_leak + node.r * current[k])
            for k in range(1, n + 1)
        )
        for n in range(1, steps + 1)
    ]
    np.testing.assert_allclose(trace.states[("0",)]["i"][:, 0], current[1:], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(trace.outputs["output"][:, 0], potential, rtol=1e-11, atol=1e-12)


@given(neuron("CubaLIF", (3,)))
def test_cubalif_follows_cubali_to_its_first_spike_and_keeps_its_current_after(node: Any) -> None:
    without = nir.CubaLI(node.tau_syn, node.tau_mem, node.r, node.v_leak, node.w_in)
    firing, free = (simulate(chain([n], (3,)), constant(1.5, 40, 3), DT) for n in (node, without))
    np.testing.assert_array_equal(firing.states[("0",)]["i"], free.states[("0",)]["i"])
    spikes = firing.outputs["output"][:, 0]
    for index in range(3):
        first = int(np.flatnonzero(spikes[:, index])[0])
        compared = firing.before_reset[("0",)][: first + 1, 0, index]
        np.testing.assert_array_equal(compared, free.outputs["output"][: first + 1, 0, index])
        assert firing.states[("0",)]["v"][first, 0, index] == node.v_reset[index]


def test_a_feedback_edge_is_exactly_one_step_late() -> None:
    nodes = {"w": scale(2.0), "y": scale(1.0), "z_half": scale(0.5), "z_triple": scale(3.0)}
    trace = simulate(graph(nodes, "in>w w>y y>z_triple z_triple>z_half z_half>y y>out"), constant(1.0, 4), DT)
    np.testing.assert_array_equal(trace.outputs["out"], column(2, 5, 9.5, 16.25))
    assert trace.delayed == {(("z_half",), ("y",))}


def test_the_bias_of_an_affine_in_a_feedback_path_acts_from_the_first_step() -> None:
    nodes = {
        "lif": nir.IF(r=np.array([1.0]), v_threshold=np.array([2.5]), v_reset=np.array([0.0])),
        "rec": nir.Affine(np.array([[10.0]]), np.array([1.0])),
    }
    trace = simulate(graph(nodes, "in>lif lif>rec rec>lif lif>out"), constant(0.0, 6), 1.0)
    # Only the bias drives: 1, 2, 3 fires; the spike arrives a step later as 10 + 1, and so on.
    np.testing.assert_array_equal(trace.before_reset[("lif",)], column(1, 2, 3, 11, 11, 11))
    np.testing.assert_array_equal(trace.values[("rec",)], column(1, 1, 1, 11, 11, 11))
    assert trace.delayed == {(("lif",), ("rec",))}


def test_a_nested_graph_computes_what_its_nodes_would_and_its_values_are_recorded_by_path() -> None:
    inner = graph({"li": nir.LI(*(np.array([value]) for value in (5 * DT, 1.5, 0.2)))}, "in>li li>out")
    flat = chain([scale(2.0), inner.nodes["li"]])
    nested = chain([scale(2.0), inner])
    inputs = np.random.default_rng(0).normal(size=(9, 2, 1))
    expected, trace = simulate(flat, inputs, DT), simulate(nested, inputs, DT)
    np.testing.assert_array_equal(trace.outputs["output"], expected.outputs["output"])
    np.testing.assert_array_equal(trace.values[("1", "li")], expected.values[("1",)])
    np.testing.assert_array_equal(trace.states[("1", "li")]["v"], expected.states[("1",)]["v"])
    np.testing.assert_array_equal(trace.values[("1",)], trace.values[("1", "out")])
    np.testing.assert_array_equal(trace.values[("1", "in")], 2 * inputs)


def test_a_nested_graph_with_state_is_delayed_at_its_output_as_a_whole() -> None:
    inner = graph(
        {"i": nir.I(np.array([1.0])), "bias": nir.Affine(np.eye(1), np.ones(1))}, "in>i i>bias bias>out"
    )
    outer = graph({"sub": inner, "w": scale(1.0)}, "in>sub sub>w w>sub sub>out")
    trace = simulate(outer, constant(1.0, 4), 1.0)
    assert trace.delayed == {(("sub",), ("w",))}
    # The integrator adds 1 and the previous output, the bias adds 1 to what leaves.
    np.testing.assert_array_equal(trace.outputs["out"], column(2, 5, 11, 23))


def test_several_inputs_and_outputs_go_by_name_and_edges_add_up() -> None:
    nodes: dict[str, nir.NIRNode] = {
        "b": input_node(2),
        "a": input_node(2),
        "double": nir.Scale(np.full(2, 2.0)),
        "sum": output_node(2),
        "alone": output_node(2),
    }
    edges = [("a", "double"), ("double", "sum"), ("b", "sum"), ("a", "alone")]
    inputs = {"a": constant(1.0, 2, 2), "b": constant(10.0, 2, 2)}
    outputs = simulate(nir.NIRGraph(nodes, edges), inputs, DT).outputs
    np.testing.assert_array_equal(outputs["sum"], constant(12.0, 2, 2))
    np.testing.assert_array_equal(outputs["alone"], constant(1.0, 2, 2))


def test_a_delay_is_late_by_its_own_number_of_steps_for_each_element() -> None:
    inputs = np.arange(1.0, 13.0).reshape(4, 1, 3)
    delay = nir.Delay(np.array([0.0, 1e-3, 3e-3], dtype=np.float32))
    outputs = simulate(chain([delay], (3,)), inputs, 1e-3).outputs["output"][:, 0]
    np.testing.assert_array_equal(outputs.T, [[1, 4, 7, 10], [0, 2, 5, 8], [0, 0, 0, 3]])


def test_a_weight_with_leading_axes_maps_the_last_axis_for_each_of_them() -> None:
    random = np.random.default_rng(0)
    weight, bias, x = (
        random.normal(size=(2, 4, 3)),
        random.normal(size=(2, 4)),
        random.normal(size=(1, 5, 2, 3)),
    )
    nodes: dict[str, nir.NIRNode] = {
        "input": input_node(2, 3),
        "w": nir.Affine(weight, bias),
        "output": output_node(2, 4),
    }
    outputs = simulate(nir.NIRGraph(nodes, [("input", "w"), ("w", "output")]), x, DT).outputs["output"]
    expected = [[weight[k] @ x[0, n, k] + bias[k] for k in range(2)] for n in range(5)]
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-13)


SPELLINGS: list[Callable[[float], object]] = [
    float,
    np.float32,
    np.asarray,
    torch.tensor,
    lambda value: (value,),
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_parameters_may_be_numbers_0d_arrays_tensors_or_tuples(spelling: Callable[[float], object]) -> None:
    node = nir.LIF(*(np.full(1, value) for value in (4.0, 2.0, 0.25, 1.0, -0.5)))
    expected = simulate(chain([node]), constant(1.0, 12), 1.0)
    for name in ("tau", "r", "v_leak", "v_threshold", "v_reset"):
        setattr(node, name, spelling(float(getattr(node, name)[0])))
    trace = simulate(chain([node]), constant(1.0, 12), 1.0)
    np.testing.assert_array_equal(trace.outputs["output"], expected.outputs["output"])
    np.testing.assert_array_equal(trace.states[("0",)]["v"], expected.states[("0",)]["v"])


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (graph({}, "in>gone in>out"), "'gone'.*not a node"),
        (graph({"a": scale(1.0)}, "in>a a>in a>out"), "into an Input"),
        (graph({"a": scale(1.0)}, "in>a in>a a>out"), "twice"),
        (graph({"a": scale(1.0)}, "in>out a>out"), "no Input reaches"),
        (graph({"a": scale(1.0), "b": scale(1.0)}, "in>out a>b b>a b>out"), "no Input reaches"),
        (graph({"a": nir.Delay(np.array([1.5 * DT]))}, "in>a a>out"), "multiple of dt"),
        (graph({"a": nir.Scale(np.ones(2))}, "in>a a>out"), "does not fit"),
        (
            graph({"a": graph({"second": input_node(1)}, "in>out second>out")}, "in>a a>out"),
            "name no port",
        ),
    ],
)
def test_a_graph_without_one_meaning_is_refused(network: nir.NIRGraph, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(network, constant(1.0, 2), DT)


@pytest.mark.parametrize(
    "inputs", [{"other": np.ones((1, 1, 1))}, {}, np.ones((0, 1, 1)), np.ones((3, 1, 2)), np.ones((3, 1))]
)
def test_inputs_that_are_not_those_of_the_graph_are_refused(inputs: Any) -> None:
    with pytest.raises(ValueError, match="input"):
        simulate(chain([scale(1.0)]), inputs, DT)


def test_margin_is_the_smallest_distance_to_a_threshold_relative_to_the_larger_of_both() -> None:
    network = chain([nir.Threshold(np.array([2.0, 10.0]))], (2,))
    trace = simulate(network, np.array([[[1.0, 5.0]], [[4.0, 9.0]]]), DT)
    assert margin(trace) == 0.1  # 9 to 10; the other comes to 1 of 4
    assert margin(simulate(chain([scale(1.0)]), constant(1.0, 2), DT)) == np.inf


@pytest.mark.skipif(not NIR_PAPER.is_dir(), reason="the NIR paper's recordings are not beside this checkout")
def test_the_paper_recording_of_norse_is_reproduced() -> None:
    """Row n of the recording holds step n's input, the potential after the reset, and the spike of the same step."""
    recorded = np.loadtxt(NIR_PAPER / "lif_norse.csv", delimiter=",")
    trace = simulate(nir.read(NIR_PAPER / "lif_norse.nir"), recorded[:, 0].reshape(-1, 1, 1), 1e-4)
    assert recorded[:, 2].sum() == 4
    np.testing.assert_array_equal(trace.outputs["output"][:, 0, 0], recorded[:, 2])
    np.testing.assert_allclose(trace.states[("1",)]["v"][:, 0, 0], recorded[:, 1], rtol=0, atol=1e-6)

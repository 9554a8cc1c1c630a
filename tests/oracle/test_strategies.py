"""What is drawn: a property test over graphs that are silent, alike or invalid would prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from nirmap.oracle.interpreter import margin, simulate
from oracle.building import chain
from oracle.strategies import (
    DENSE,
    NEURONS,
    SPIKING,
    TIME_STEP,
    Array,
    Settings,
    graphs,
    image_graphs,
    networks,
    neuron,
    node,
    parameters,
)

Case = tuple[nir.NIRGraph, dict[str, Array]]


def kinds(graph: nir.NIRGraph) -> Iterator[str]:
    """The primitives in a graph at every depth, "NIRGraph" among them."""
    for inner in graph.nodes.values():
        yield type(inner).__name__
        if isinstance(inner, nir.NIRGraph):
            yield from kinds(inner)


def first(drawn: st.SearchStrategy[nir.NIRGraph], wanted: Callable[[nir.NIRGraph], bool]) -> nir.NIRGraph:
    """The first drawn graph that is as wanted, not the smallest; enough are drawn, and the same ones each time."""
    limits = settings(phases=[Phase.generate], database=None, max_examples=5000)
    return find(drawn, wanted, settings=limits, random=Random(0))


@given(st.sampled_from(sorted(NEURONS)), st.data())
def test_neurons_differ_from_one_another_in_every_parameter(kind: str, data: st.DataObject) -> None:
    drawn = data.draw(neuron(kind, (4,)))
    for name, value in data.draw(parameters(kind, (4,))).items():
        assert getattr(drawn, name).shape == (4,)
        assert len(set(value)) == 4, name
        assert np.abs(value).min() > 0, name


@given(st.sampled_from(sorted(SPIKING)), st.floats(0.2, 5), st.data())
def test_every_neuron_fires_under_an_input_of_the_level_it_was_drawn_for(
    kind: str, level: float, data: st.DataObject
) -> None:
    drawn = data.draw(neuron(kind, (3,), level=level))
    graph = chain([drawn], (3,))
    trace = simulate(graph, np.full((40, 1, 3), level), TIME_STEP)
    assert (trace.outputs["output"].sum(axis=0) > 0).all()


@given(st.data())
def test_settings_fix_parameters_and_make_them_uniform(data: st.DataObject) -> None:
    wanted = Settings(
        fixed={"v_leak": 0.0, "v_reset": lambda drawn: -drawn["v_threshold"]}, uniform=True, dtype=np.float32
    )
    drawn: Any = data.draw(neuron("LIF", (2, 3), settings=wanted))
    np.testing.assert_array_equal(drawn.v_leak, np.zeros((2, 3)))
    np.testing.assert_array_equal(drawn.v_reset, -drawn.v_threshold)
    assert len(set(drawn.tau.flat)) == 1
    assert drawn.tau.dtype == drawn.v_reset.dtype == np.float32


@given(networks())
def test_drawn_networks_are_valid_run_without_growing_and_stay_off_ties(case: Case) -> None:
    graph, inputs = case
    graph.check_types()
    trace = simulate(graph, inputs, TIME_STEP)
    assert max(np.abs(values).max() for values in trace.values.values()) < 1e3
    assert margin(trace) > 1e-12
    assert len({values.shape[:2] for values in trace.values.values()}) == 1


@settings(max_examples=20)
@given(networks())
def test_drawn_graphs_survive_a_file(case: Case) -> None:
    graph, inputs = case
    again = nir.NIRGraph.from_dict(graph.to_dict())
    expected, found = (simulate(network, inputs, TIME_STEP) for network in (graph, again))
    assert expected.delayed == found.delayed
    for name, outputs in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], outputs)


def test_a_drawn_graph_is_read_back_from_a_file_as_it_was(tmp_path: Path) -> None:
    graph = first(graphs(), lambda graph: {"NIRGraph", "LIF"} <= set(kinds(graph)))
    nir.write(tmp_path / "drawn.nir", graph)
    again = nir.read(tmp_path / "drawn.nir")
    assert set(again.nodes) == set(graph.nodes)
    assert sorted(again.edges) == sorted(graph.edges)


def test_most_firing_nodes_of_drawn_networks_fire() -> None:
    counts: list[int] = []

    @settings(max_examples=100, database=None)
    @given(networks())
    def collect(case: Case) -> None:
        counts.extend(simulate(*case, TIME_STEP).spike_counts().values())

    collect()
    assert len(counts) > 50
    assert np.mean(np.array(counts) > 0) > 0.7


@pytest.mark.parametrize("primitive", sorted(DENSE))
def test_graphs_of_one_primitive_hold_no_other(primitive: str) -> None:
    @settings(max_examples=15)
    @given(networks(graphs(primitives={primitive}, nested=False)))
    def check(case: Case) -> None:
        graph, inputs = case
        assert set(kinds(graph)) == {"Input", "Output", primitive}
        simulate(graph, inputs, TIME_STEP)

    check()


def test_graphs_and_nodes_of_unknown_primitives_are_refused() -> None:
    for wrong in (
        graphs(primitives={"Lif"}),
        graphs(neurons={"Scale"}),
        graphs(primitives=()),
        image_graphs(primitives={"I"}),
    ):
        with pytest.raises(ValueError, match="primitives"):
            first(wrong, lambda _: True)
    with pytest.raises(ValueError, match="'Conv2d' is not one of"):
        node("Conv2d")


SHAPES: dict[str, Callable[[nir.NIRGraph], bool]] = {
    "two inputs and outputs": lambda graph: len(graph.inputs) == len(graph.outputs) == 2,
    "nested": lambda graph: "NIRGraph" in kinds(graph),
    "join": lambda graph: len({target for _, target in graph.edges}) < len(graph.edges),
    "affine in a loop": lambda graph: any(
        (target, source) in graph.edges
        for source, target in graph.edges
        if isinstance(graph.nodes[source], nir.Affine)
    ),
    "neuron onto itself": lambda graph: any(source == target for source, target in graph.edges),
}


@pytest.mark.parametrize("wanted", SHAPES.values(), ids=SHAPES)
def test_every_shape_of_graph_occurs(wanted: Callable[[nir.NIRGraph], bool]) -> None:
    assert wanted(first(graphs(), wanted))


@given(st.data())
def test_without_cycles_and_nesting_there_are_none(data: st.DataObject) -> None:
    graph = data.draw(graphs(cycles=False, nested=False, inputs=(1, 1), outputs=(2, 2)))
    assert "NIRGraph" not in kinds(graph)
    assert (len(graph.inputs), len(graph.outputs)) == (1, 2)
    assert not simulate(
        graph, np.ones((1, 1, *next(iter(graph.inputs.values())).input_type["input"])), 1e-4
    ).delayed


@given(st.sampled_from(["Conv1d", "Conv2d", "SumPool2d", "AvgPool2d", "Flatten"]), st.data())
def test_image_graphs_hold_only_the_primitives_asked_for_and_fit_together(
    primitive: str, data: st.DataObject
) -> None:
    graph, inputs = data.draw(networks(image_graphs(primitives={primitive}, neurons=()), steps=(1, 2)))
    assert set(kinds(graph)) - {"Linear"} == {"Input", "Output", primitive}
    declared = tuple(graph.nodes["output"].output_type["output"])
    assert simulate(graph, inputs, TIME_STEP).outputs["output"].shape[2:] == declared

"""If these fail, the audit executes draws that prove nothing, or others on each machine."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest

from nirmap.audit.drawing import MARGIN, NODE, SUBTRACTING, Draw, draws
from nirmap.audit.networks import FRONT, NETWORKS, network_draws
from nirmap.oracle.interpreter import margin
from nirmap_registry.catalogue import PRIMITIVES

ROWS = (*PRIMITIVES, *SUBTRACTING, *NETWORKS)


def drawn(row: str) -> list[Draw]:
    return network_draws(row) if row in NETWORKS else draws(row)


@pytest.mark.parametrize("row", ROWS)
def test_the_general_draw_makes_every_neuron_fire_and_rest(row: str) -> None:
    first = drawn(row)[0]
    for path in first.trace.thresholds:
        rates = first.trace.values[path].mean(axis=(0, 1))
        assert (rates > 0.02).all()
        assert (rates < 0.98).all()


@pytest.mark.parametrize("row", ROWS)
def test_no_spike_hangs_on_rounding_but_where_it_is_meant_to(row: str) -> None:
    for draw in drawn(row):
        if draw.ties:
            assert margin(draw.trace) == 0
            assert np.array_equal(draw.inputs, np.rint(draw.inputs))
        else:
            assert margin(draw.trace) > MARGIN


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_no_two_neurons_of_the_general_draw_are_alike(primitive: str) -> None:
    node = draws(primitive)[0].graph.nodes[NODE]
    for parameter in PRIMITIVES[primitive].declared:
        is_zero = PRIMITIVES[primitive].typical_input is not None and not parameter.default
        if parameter.kind == "neuron" and not is_zero:  # what is 0 in the source stays 0
            value = getattr(node, parameter.name)
            assert len(np.unique(value)) == value.size > 1


def test_the_same_numbers_are_drawn_each_time() -> None:
    for first, again in zip(draws("CubaLIF"), draws("CubaLIF"), strict=True):
        np.testing.assert_array_equal(first.inputs, again.inputs)
        nodes: list[Any] = [draw.graph.nodes[NODE] for draw in (first, again)]
        np.testing.assert_array_equal(nodes[0].tau_mem, nodes[1].tau_mem)
    assert len({draw.name for draw in draws("CubaLIF")}) == len(draws("CubaLIF"))


def test_the_network_with_a_soft_reset_fires_as_a_module_that_subtracts_by_itself_a_step_later() -> None:
    draw = network_draws(NETWORKS[-1])[0]
    nodes: dict[str, Any] = dict(draw.graph.nodes)
    decay, gain = 1 - draw.dt / nodes[NODE].tau, nodes[NODE].r * draw.dt / nodes[NODE].tau
    potential = np.zeros(draw.inputs.shape[1:])
    expected: list[Any] = []
    for x in draw.inputs:
        potential = decay * potential + gain * x
        expected.append(potential > nodes[FRONT].threshold)
        potential = potential - nodes[FRONT].threshold * expected[-1]
    (output,) = draw.trace.outputs.values()
    assert output.sum() > 20
    np.testing.assert_array_equal(output[1:], expected[:-1])


def test_a_tie_is_a_spike_for_greater_or_equal_only() -> None:
    """Else a module that compares with >= would pass."""
    (draw,) = [draw for draw in draws("Threshold") if draw.ties]
    node = draw.graph.nodes[NODE]
    assert isinstance(node, nir.Threshold)
    assert (draw.trace.values[(NODE,)] != (draw.inputs >= node.threshold)).any()

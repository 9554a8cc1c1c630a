"""Whole sequences: if these fail, a sequence gives other numbers than its steps, or a wrong call passes."""

from __future__ import annotations

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.oracle.interpreter import simulate
from oracle.building import chain, input_node, output_node
from runtime.suitable import DT, FRAMEWORKS, NEURONS, elementwise_rows, inputs, numbers, suitable_node, weight


def network(framework: str) -> nirmap.Network:
    nodes = [suitable_node(row) for row in elementwise_rows(framework)]
    return nirmap.from_nir(
        chain([nir.Linear(weight()), *nodes], (NEURONS,)), framework, dt=DT, dtype=torch.float64
    )


def two_ports() -> nir.NIRGraph:
    nodes: dict[str, nir.NIRNode] = {
        "left": input_node(2),
        "right": input_node(2),
        "double": nir.Scale(np.full(2, 2.0)),
        "sum": output_node(2),
        "twice": output_node(2),
    }
    edges = [("left", "double"), ("double", "twice"), ("left", "sum"), ("right", "sum")]
    return nir.NIRGraph(nodes, edges, type_check=False)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_sequence_is_its_steps_one_after_the_other(framework: str) -> None:
    net, xs = network(framework), inputs(12, 3, NEURONS)
    outputs, last = nirmap.run(net, xs)
    state = None
    for x, output in zip(xs, outputs, strict=True):
        expected, state = net(x, state)
        assert torch.equal(output, expected)
    first, middle = nirmap.run(net, xs[:5])
    second, end = nirmap.run(net, xs[5:], middle)
    assert torch.equal(torch.cat([first, second]), outputs)
    for name, variables in end.items():
        assert all(torch.equal(value, last[name][key]) for key, value in variables.items())


def test_several_inputs_are_a_tuple_in_name_order_and_several_outputs_a_dictionary() -> None:
    left, right = inputs(5, 3, 2), inputs(5, 3, 2, seed=1)
    net = nirmap.from_nir(two_ports(), dt=DT, dtype=torch.float64)
    outputs, _ = nirmap.run(net, (left, right))
    trace = simulate(two_ports(), {"left": left, "right": right}, DT)
    assert outputs.keys() == trace.outputs.keys() == {"sum", "twice"}
    for name, value in outputs.items():
        np.testing.assert_allclose(value.numpy(), trace.outputs[name])


def test_inputs_of_different_lengths_and_empty_sequences_are_refused() -> None:
    net = nirmap.from_nir(two_ports(), dt=DT)
    with pytest.raises(ValueError, match=r"\[4, 5\] steps"):
        nirmap.run(net, (torch.zeros(5, 2), torch.zeros(4, 2)))
    with pytest.raises(ValueError, match=r"\[0\] steps"):
        nirmap.run(net, (torch.zeros(0, 2), torch.zeros(0, 2)))


def test_a_number_of_inputs_other_than_the_networks_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"1 sequences.*'left', 'right'"):
        nirmap.run(nirmap.from_nir(two_ports(), dt=DT), torch.zeros(5, 2))
    with pytest.raises(ValueError, match=r"2 sequences.*'input'"):
        nirmap.run(network("torch"), (torch.zeros(5, NEURONS), torch.zeros(5, NEURONS)))


def test_any_module_with_the_same_convention_can_be_run() -> None:
    class Counter(torch.nn.Module):
        def forward(self, x: torch.Tensor, state: int | None) -> tuple[torch.Tensor, int]:
            count = (state or 0) + 1
            return x * count, count

    outputs, state = nirmap.run(Counter(), torch.ones(4, 1))
    assert numbers(outputs.flatten()) == [1, 2, 3, 4]
    assert state == 4

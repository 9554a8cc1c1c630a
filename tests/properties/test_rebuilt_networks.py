"""Rebuilt networks against the oracle, over drawn graphs, parameters and inputs.

If these fail, a network that was trained in one place gives other spikes where it is rebuilt.
"""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

import nirmap
from nirmap.oracle.interpreter import Trace, margin, simulate
from oracle.parameters import Settings
from oracle.strategies import DENSE, TIME_STEP, graph_inputs, graphs, image_graphs, networks

pytestmark = [
    pytest.mark.filterwarnings("ignore::nirmap.errors.DelayWarning"),
    # torch pads the input of some convolutions itself.
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning"),
]

Arrays = dict[str, np.ndarray[Any, Any]]
FLOAT64_MARGIN = 1e-9
FLOAT32_MARGIN = 1e-4


def run_rebuilt(net: nirmap.Network, inputs: Arrays, dtype: torch.dtype) -> tuple[Arrays, Any]:
    """The outputs of a network by name, and its last state."""
    names = net.meta["nirmap"].inputs
    xs = tuple(torch.tensor(inputs[name], dtype=dtype) for name in names)
    with torch.no_grad():
        outputs, state = nirmap.run(net, xs)
    if isinstance(outputs, torch.Tensor):
        outputs = {net.meta["nirmap"].outputs[0]: outputs}
    return {name: value.numpy() for name, value in outputs.items()}, state


def check_equal(outputs: Arrays, state: Any, trace: Trace, relative: float) -> None:
    """Outputs and last states are those of the oracle."""
    assert outputs.keys() == trace.outputs.keys()
    for name, expected in trace.outputs.items():
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(
            outputs[name], expected, rtol=relative, atol=relative * scale, err_msg=name
        )
    for path, variables in trace.states.items():
        kept = state
        for key in path:
            kept = kept[key]
        for variable, expected in variables.items():
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(
                kept[variable].numpy(),
                expected[-1],
                rtol=relative,
                atol=relative * scale,
                err_msg=f"{path} {variable}",
            )


@settings(max_examples=150)
@given(networks())
def test_torch_gives_the_oracles_numbers_in_float64(network: tuple[nir.NIRGraph, Arrays]) -> None:
    graph, inputs = network
    trace = simulate(graph, inputs, TIME_STEP)
    assume(margin(trace) > FLOAT64_MARGIN)
    net = nirmap.from_nir(graph, dt=TIME_STEP, dtype=torch.float64)
    outputs, state = run_rebuilt(net, inputs, torch.float64)
    check_equal(outputs, state, trace, 1e-9)
    delayed = {source + target for source, target in _paths(net)}
    assert delayed == {tuple(source) + tuple(target) for source, target in trace.delayed}


def _paths(net: nirmap.Network) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The delayed edges of a network and its sub-graphs, as paths."""
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    pending: list[tuple[tuple[str, ...], nirmap.Report]] = [((), net.meta["nirmap"])]
    while pending:
        path, report = pending.pop()
        found += [((*path, source), (*path, target)) for source, target in report.delayed]
        pending += [((*path, name), inner) for name, inner in report.graphs.items()]
    return found


@settings(max_examples=60)
@given(networks())
def test_torch_gives_the_oracles_numbers_in_float32(network: tuple[nir.NIRGraph, Arrays]) -> None:
    graph, inputs = network
    trace = simulate(graph, inputs, TIME_STEP)
    assume(margin(trace) > FLOAT32_MARGIN)
    net = nirmap.from_nir(graph, dt=TIME_STEP)
    outputs, state = run_rebuilt(net, inputs, torch.float32)
    check_equal(outputs, state, trace, 1e-4)


@settings(max_examples=60)
@given(networks(image_graphs()))
def test_layers_of_torch_nn_give_the_oracles_numbers(network: tuple[nir.NIRGraph, Arrays]) -> None:
    graph, inputs = network
    trace = simulate(graph, inputs, TIME_STEP)
    assume(margin(trace) > FLOAT64_MARGIN)
    net = nirmap.from_nir(graph, dt=TIME_STEP, dtype=torch.float64)
    outputs, state = run_rebuilt(net, inputs, torch.float64)
    check_equal(outputs, state, trace, 1e-9)


NORSE = DENSE - {"Scale", "Delay", "Threshold", "I"}
SNNTORCH = DENSE - {"Scale", "Delay", "Threshold"}
FRAMEWORKS = {
    "norse": graphs(primitives=NORSE),
    "snntorch": graphs(
        primitives=SNNTORCH,
        settings=Settings(fixed={"v_reset": lambda p: p["v_leak" if "v_leak" in p else "v_reset"]}),
    ),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_frameworks_give_the_oracles_numbers(framework: str) -> None:
    @settings(max_examples=80)
    @given(networks(FRAMEWORKS[framework]))
    def check(network: tuple[nir.NIRGraph, Arrays]) -> None:
        graph, inputs = network
        trace = simulate(graph, inputs, TIME_STEP)
        assume(margin(trace) > FLOAT64_MARGIN)
        try:
            net = nirmap.from_nir(graph, framework, dt=TIME_STEP, dtype=torch.float64)
        except nirmap.ConstraintError:
            assume(False)
            raise
        outputs, state = run_rebuilt(net, inputs, torch.float64)
        check_equal(outputs, state, trace, 1e-9)

    check()


@settings(max_examples=40)
@given(graphs().flatmap(lambda graph: graph_inputs(graph).map(lambda inputs: (graph, inputs))))
def test_order_of_nodes_and_edges_carries_no_meaning(network: tuple[nir.NIRGraph, Arrays]) -> None:
    graph, inputs = network
    shuffled = nir.NIRGraph(
        dict(reversed(graph.nodes.items())), list(reversed(graph.edges)), metadata={}, type_check=False
    )
    first, _ = run_rebuilt(nirmap.from_nir(graph, dt=TIME_STEP), inputs, torch.float32)
    second, _ = run_rebuilt(nirmap.from_nir(shuffled, dt=TIME_STEP), inputs, torch.float32)
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value)

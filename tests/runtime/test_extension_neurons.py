"""Neurons that NIR does not have: if these fail, a node, its file or its module is not the neuron of its source."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import nir
import numpy as np
import numpy.typing as npt
import pytest
import torch

import nirmap
from nirmap import nodes
from nirmap.audit.drawing import draws
from nirmap.extension import ExtensionNode
from nirmap.oracle.interpreter import simulate
from nirmap_registry.nodes import __all__ as names
from runtime.suitable import backward

KINDS: list[type[ExtensionNode]] = [getattr(nodes, name) for name in names]


def network(node: ExtensionNode) -> nir.NIRGraph:
    """A graph of a single node."""
    shape = node.input_type["input"]
    ends = {"input": nir.Input({"input": shape}), "output": nir.Output({"output": shape})}
    return nir.NIRGraph({**ends, "node": node}, [("input", "node"), ("node", "output")], type_check=False)


def spikes(node: ExtensionNode, current: float, steps: int, dt: float) -> npt.NDArray[Any]:
    """The steps at which a rebuilt network's one neuron fires, for a constant input."""
    net = nirmap.from_nir(network(node), "torch", dt=dt, dtype=torch.float64)
    input, state = torch.full((1, 1), current, dtype=torch.float64), None
    outputs: list[float] = []
    with torch.no_grad():
        for _ in range(steps):
            output, state = net(input, state)
            outputs.append(float(output))
    return np.flatnonzero(outputs)


def test_regular_spiking_of_izhikevich_is_that_of_the_published_program() -> None:
    """Equations and numbers in mV and ms, as in the paper, stepped once per 0.25 ms."""
    v, u = -65.0, -13.0
    expected: list[int] = []
    for step in range(1000):
        v += 0.25 * (0.04 * v * v + 5 * v + 140 - u + 10)
        u += 0.25 * 0.02 * (0.2 * v - u)
        if v > 30:
            expected.append(step)
            v, u = -65.0, u + 8

    found = spikes(nodes.Izhikevich(tau=np.array([1e-3])), 0.01, 1000, 0.25e-3)

    assert len(expected) > 5
    np.testing.assert_array_equal(found, expected)
    intervals = np.diff(found)
    assert intervals[0] < intervals[-1]  # it adapts


@pytest.mark.parametrize(("refractory", "current"), [(0.0, 1.0), (0.0053, 1.0), (0.0053, 3.0)])
def test_refractory_neuron_fires_at_the_rate_of_its_closed_form(refractory: float, current: float) -> None:
    dt, tau, threshold = 1e-4, 0.01, 0.5
    node = nodes.RefractoryLIF(tau=np.array([tau]), t_refractory=np.array([refractory]))

    intervals = np.diff(spikes(node, current, 1000, dt)) * dt

    expected = refractory + tau * math.log(current / (current - threshold))
    assert len(intervals) > 5
    np.testing.assert_allclose(intervals, expected, atol=2 * dt)


def test_resonating_neuron_oscillates_with_its_frequency_and_damping() -> None:
    """After a push, v is a damped sine: its zeros are half a period apart."""
    dt, omega = 5e-5, 250.0
    node = nodes.ResonateAndFire(omega=np.array([omega]), tau=np.array([0.02]), v_threshold=np.array([1e9]))
    graph = network(node)
    inputs = np.zeros((1200, 1, 1))
    inputs[0] = 1e3

    v = np.array(simulate(graph, inputs, dt).states[("node",)]["v"])[:, 0, 0]

    zeros = np.flatnonzero(np.diff(np.sign(v[1:])) != 0) * dt
    np.testing.assert_allclose(np.diff(zeros), math.pi / omega, rtol=1e-2)
    half = round(math.pi / omega / dt)
    damping = -v[40 + half] / v[40]
    assert damping == pytest.approx(math.exp(-math.pi / omega / 0.02), rel=5e-2)


def test_quadratic_neuron_takes_the_time_of_its_closed_form() -> None:
    """tau dv/dt = k v^2 + r x from 0 with v_c = 0: v is a tangent."""
    k, current, threshold, tau, dt = 66.7, 0.02, 0.05, 0.01, 1e-5
    node = nodes.QIF(tau=np.array([tau]), k=np.array([k]), v_c=np.array([0.0]))

    first = spikes(node, current, 1200, dt)[0] * dt

    expected = tau / math.sqrt(k * current) * math.atan(threshold * math.sqrt(k / current))
    assert first == pytest.approx(expected, rel=5e-3)


def test_exponential_neuron_fires_above_its_rheobase_only() -> None:
    """The rheobase is where the drive touches 0: v_rheobase - delta_t - v_leak."""
    rheobase = 0.0051 - 0.00348

    assert spikes(nodes.EIF(tau=np.array([0.01])), 0.97 * rheobase, 800, 5e-4).size == 0
    assert spikes(nodes.EIF(tau=np.array([0.01])), 1.2 * rheobase, 800, 5e-4).size > 0


@pytest.mark.parametrize(
    ("node", "current"),
    [
        (nodes.AdLIF(tau=np.array([0.01])), 3.0),
        (nodes.ALIF(tau=np.array([0.01])), 3.0),
        (nodes.AdEx(tau=np.array([0.00937])), 0.04),
        (nodes.AdQIF(tau=np.array([0.00714])), 0.03),
    ],
    ids=lambda value: type(value).__name__,
)
def test_adaptive_neurons_slow_down_under_a_constant_input(node: ExtensionNode, current: float) -> None:
    intervals = np.diff(spikes(node, current, 600, 5e-4))

    assert len(intervals) > 3
    assert intervals[0] < intervals[-1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
class TestNode:
    def test_scalars_are_broadcast_and_what_is_left_out_is_of_the_source(self, kind: Any) -> None:
        node = kind(v_threshold=np.full((2, 3), 0.7), tau=0.02)

        assert node.tau.shape == node.v_threshold.shape == (2, 3)
        np.testing.assert_array_equal(node.input_type["input"], [2, 3])
        np.testing.assert_array_equal(node.tau, np.full((2, 3), 0.02))
        for name, default in kind.defaults.items():
            if name not in ("tau", "v_threshold"):
                np.testing.assert_allclose(getattr(node, name), default, rtol=1e-6)

    def test_tensors_are_accepted(self, kind: Any) -> None:
        node = kind(tau=torch.nn.Parameter(torch.tensor([0.01, 0.02])))

        assert isinstance(node.tau, np.ndarray)
        np.testing.assert_array_equal(node.input_type["input"], [2])

    @pytest.mark.parametrize("value", [0.0, -0.01])
    def test_a_time_constant_has_to_be_positive(self, kind: Any, value: float) -> None:
        with pytest.raises(ValueError, match="tau must fulfil tau > 0"):
            kind(tau=np.array([0.01, value]))

    def test_shapes_that_do_not_fit_are_refused(self, kind: Any) -> None:
        with pytest.raises(ValueError, match="same shape"):
            kind(tau=np.ones(2), v_threshold=np.ones(3))

    def test_a_file_keeps_the_node(self, kind: Any, tmp_path: Path) -> None:
        node = kind(tau=np.array([0.01, 0.02]))
        nirmap.write(tmp_path / "graph.nir", network(node))

        again: Any = nirmap.read(tmp_path / "graph.nir").nodes["node"]

        assert type(again) is kind
        for name in kind.defaults:
            np.testing.assert_array_equal(getattr(again, name), getattr(node, name))

    def test_gradients_reach_the_input_and_the_parameters(self, kind: Any) -> None:
        draw = draws(kind.__name__)[0]
        net = nirmap.from_nir(draw.graph, "torch", dt=draw.dt, trainable=["r", "v_threshold"])
        inputs = torch.tensor(draw.inputs, dtype=torch.float32, requires_grad=True)
        state, total = None, torch.zeros(())
        for step in inputs:
            output, state = net(step, state)
            total = total + output.sum()

        backward(total)

        assert inputs.grad is not None
        assert torch.isfinite(inputs.grad).all()
        assert inputs.grad.abs().sum() > 0
        gradients = [parameter.grad for parameter in net.parameters()]
        assert gradients
        assert all(gradient is not None and torch.isfinite(gradient).all() for gradient in gradients)

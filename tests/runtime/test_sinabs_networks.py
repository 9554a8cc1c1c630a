"""Networks of sinabs as pure functions: whatever sinabs keeps inside never reaches the next sequence, batch or copy.

If these fail, a network gives what other sequences left behind, trains what nobody asked for, or trains to NaN.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.oracle.interpreter import margin, simulate
from nirmap.registry import load_registry
from oracle.building import chain, input_node, output_node
from runtime.sinabs_layers import (
    DT,
    SINGLE,
    WIDTH,
    Random,
    Tensor,
    cuba,
    lif,
    sa,
    sequence,
    sl,
    without_spikes,
)
from runtime.suitable import backward, numbers


def recurrent_graph(random: Random) -> nir.NIRGraph:
    """A layer whose spikes come back through weights and a bias, behind weights, in front of an integrator."""
    weights = random.uniform(-0.5, 1.0, (WIDTH, 3))
    nodes: dict[str, nir.NIRNode] = {
        "input": input_node(3),
        "weights": nir.Affine(weights, random.uniform(0, 0.2, WIDTH)),
        "lif": nir.CubaLIF(**cuba(random)),
        "back": nir.Affine(random.uniform(-0.3, 0.3, (WIDTH, WIDTH)), random.uniform(-0.1, 0.1, WIDTH)),
        "li": nir.LI(**without_spikes(lif(random))),
        "output": output_node(WIDTH),
    }
    edges = [
        ("input", "weights"),
        ("weights", "lif"),
        ("lif", "back"),
        ("back", "lif"),
        ("lif", "li"),
        ("li", "output"),
    ]
    return nir.NIRGraph(nodes, edges, type_check=False)


def test_a_recurrent_network_keeps_its_feedback_between_steps() -> None:
    """A recurrent layer of sinabs forgets it between calls, and leaves out the bias in the first step."""
    graph = recurrent_graph(np.random.default_rng(0))
    xs = sequence(300, 2, 3)
    trace = simulate(graph, xs.numpy(), DT)
    assert margin(trace) > 1e-9
    assert trace.spike_counts()["lif",] > 100
    with torch.no_grad():
        outputs, _ = nirmap.run(nirmap.from_nir(graph, "sinabs", dt=DT, dtype=torch.float64), xs)
    np.testing.assert_allclose(outputs.numpy(), trace.outputs["output"], rtol=1e-10, atol=1e-10)


def test_two_streams_through_one_network_do_not_touch_each_other() -> None:
    """Step by step in turns, with batches of different sizes: a layer of sinabs would hand on rows at random."""
    net = nirmap.from_nir(recurrent_graph(np.random.default_rng(0)), "sinabs", dt=DT, dtype=torch.float64)
    streams = [sequence(60, 4, 3, seed=1), sequence(60, 2, 3, seed=2), sequence(60, 4, 3, seed=3)]
    with torch.no_grad():
        alone = [nirmap.run(net, xs)[0] for xs in streams]
        states: list[Any] = [None] * 3
        together: list[list[Tensor]] = [[], [], []]
        for step in range(60):
            for number, xs in enumerate(streams):
                output, states[number] = net(xs[step], states[number])
                together[number].append(output)
    for outputs, expected in zip(together, alone, strict=True):
        assert torch.equal(torch.stack(outputs), expected)


def test_sinabs_itself_keeps_rows_of_another_batch() -> None:
    """The fault that the test before is about. If this fails, sinabs has been corrected."""
    layer: Any = sl.IAF(**SINGLE)
    layer(torch.full((4, 1, 1), 0.5))
    layer(torch.zeros(2, 1, 1))
    assert numbers(layer.v_mem.flatten()) == [0.5, 0.5]


def test_what_was_made_leaves_no_trace_in_sinabs() -> None:
    """All layers of sinabs share one tensor as the default of their threshold."""
    graph = chain([nir.I(r=np.ones(2)), nir.CubaLI(*[np.full(2, 0.01)] * 2, *[np.ones(2)] * 3)], (2,))
    net = nirmap.from_nir(graph, "sinabs", dt=DT)
    with torch.no_grad():
        for value in (*net.parameters(), *net.buffers()):
            value.fill_(7)
    assert sl.IAF().spike_threshold == 1


def test_only_what_is_asked_for_is_trained() -> None:
    """Time constants are parameters in sinabs: an optimiser would change the neurons of the graph."""
    net = nirmap.from_nir(recurrent_graph(np.random.default_rng(0)), "sinabs", dt=DT)
    trained = {name for name, value in net.named_parameters() if value.requires_grad}
    assert trained == {"weights.weight", "weights.bias", "back.weight", "back.bias"}
    cell: Any = net.get_submodule("lif")
    for value in cell.module.parameters(recurse=False):
        value.requires_grad_()
    outputs, _ = nirmap.run(net, sequence(20, 1, 3, dtype=torch.float32))
    backward(outputs)
    assert cell.module.tau_mem.grad.abs().sum() > 0


def test_a_copy_has_the_mode_and_the_precision_of_the_original() -> None:
    """sinabs copies a layer through its constructor: in training mode, and with the gradients of a new one."""
    net = nirmap.from_nir(
        recurrent_graph(np.random.default_rng(0)), "sinabs", dt=DT, dtype=torch.float64
    ).eval()
    copied = copy.deepcopy(net)
    assert not any(module.training for module in copied.modules())
    for (name, value), (_, expected) in zip(copied.named_parameters(), net.named_parameters(), strict=True):
        assert (value.dtype, value.requires_grad) == (expected.dtype, expected.requires_grad), name
    assert copied.get_submodule("lif.module") is not net.get_submodule("lif.module")


@pytest.mark.parametrize("level", [0.7, 0.01, 0.0, -0.4])
def test_a_spike_has_a_finite_gradient_at_every_threshold(level: float) -> None:
    """sinabs divides by the threshold: one of 0 makes all weights NaN, and one below 0 trains away from the aim."""
    ones = np.ones(3)
    node = nir.LIF(tau=9 * DT * ones, r=ones, v_leak=0 * ones, v_threshold=level * ones, v_reset=0 * ones)
    net = nirmap.from_nir(chain([node], (3,)), "sinabs", dt=DT, dtype=torch.float64)
    x = torch.tensor([[-1.0, 0.0, 6.3]], dtype=torch.float64, requires_grad=True)
    backward(net(x)[0])
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert (x.grad >= 0).all()
    assert x.grad.sum() > 0
    if level > 0:
        slope = sa.SingleExponential()(x.detach() / 9, torch.tensor(level)) / 9
        torch.testing.assert_close(x.grad, slope.to(x.dtype), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("any_reset", [False, True])
def test_gradients_flow_through_the_state_and_through_compiled_steps(any_reset: bool) -> None:
    graph = chain([nir.LIF(**lif(np.random.default_rng(0), any_reset=any_reset))], (WIDTH,))
    net = nirmap.from_nir(graph, "sinabs", dt=DT, dtype=torch.float64)
    first = torch.full((2, WIDTH), 0.1, dtype=torch.float64, requires_grad=True)
    _, state = net(first)
    output, _ = net(torch.zeros_like(first), state)
    (later,) = torch.autograd.grad(output.sum(), first)
    assert (later > 0).all()
    torch.compiler.reset()
    compiled: Any = torch.compile(net, backend="eager", fullgraph=True)
    gradients = [torch.autograd.grad(step(first)[0].sum(), first)[0] for step in (net, compiled)]
    assert (gradients[0] > 0).all()
    assert torch.equal(*gradients)


def test_a_single_neuron_without_batch_runs() -> None:
    one = np.array(1.0)
    node = nir.IF(r=one / DT, v_threshold=2.5 * one, v_reset=0 * one)
    net = nirmap.from_nir(chain([node], ()), "sinabs", dt=DT)
    outputs, state = nirmap.run(net, torch.ones(6))
    assert numbers(outputs) == [0, 0, 1, 0, 0, 1]
    assert state["0"]["v"].shape == ()


def test_sinabs_is_used_without_its_driver_of_chips() -> None:
    """samna is for a few platforms only, and sinabs asks for it."""
    code = "import sys; sys.modules['samna'] = None; from nirmap.registry import load_registry as load; load('sinabs')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_default_time_step_is_a_millisecond() -> None:
    assert load_registry("sinabs").time_step == DT

"""Norse's adaptive, exponential and Izhikevich neurons, from where they begin by themselves.

If these fail, such a module is written as a neuron that begins elsewhere, or fires at other steps, than the module.
"""

from __future__ import annotations

from typing import Any

import nir
import norse.torch as norse
import numpy as np
import pytest
import torch

import nirmap
from nirmap import nodes
from nirmap.oracle.interpreter import margin, simulate

DT, STEPS, BATCH, NEURONS = 1e-3, 60, 2, 4
n: Any = norse
BEGINS = {"v_leak": torch.tensor(0.1)}
PARAMETERS = {
    "LSNN": n.LSNNParameters(
        tau_adapt_inv=torch.tensor(50.0), v_th=torch.tensor(0.5), beta=torch.tensor(0.3), **BEGINS
    ),
    "LIFEx": n.LIFExParameters(**BEGINS),
    "LIFAdEx": n.LIFAdExParameters(adaptation_spike=torch.tensor(0.4), **BEGINS),
    "Izhikevich": n.tonic_spiking,
}
NODES: dict[str, type] = {
    "LSNN": nodes.CubaALIF,
    "LIFEx": nodes.CubaEIF,
    "LIFAdEx": nodes.CubaAdEx,
    "Izhikevich": nodes.JointIzhikevich,
}
LEVEL = {"Izhikevich": 100.0}


class Step(torch.nn.Module):
    """A module of norse with its state."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any, state: Any = None) -> Any:
        return self.cell(x, state)


def inputs(kind: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(STEPS, BATCH, NEURONS, generator=generator) * LEVEL.get(kind, 0.5)


def over_time(module: Any, xs: torch.Tensor) -> Any:
    """The outputs of a cell that is given no state at first."""
    outputs: list[torch.Tensor] = []
    state = None
    for x in xs:
        output, state = module(x, state)
        outputs.append(output)
    return torch.stack(outputs).detach().numpy()


@pytest.mark.parametrize("kind", NODES)
class TestModule:
    def test_a_cell_begins_and_fires_as_the_node(self, kind: str) -> None:
        model, xs = Step(getattr(n, f"{kind}Cell")(PARAMETERS[kind], dt=DT)), inputs(kind)

        graph = nirmap.to_nir(model, "norse", dt=DT, sample=xs[0])

        assert NODES[kind] in {type(node) for node in graph.nodes.values()}
        trace = simulate(graph, xs.numpy().astype(float), DT)
        assert margin(trace) > 1e-6
        assert trace.outputs["output"].sum() > 10
        np.testing.assert_array_equal(over_time(model, xs), trace.outputs["output"])

    def test_what_is_rebuilt_from_it_begins_there_too(self, kind: str) -> None:
        model, xs = Step(getattr(n, f"{kind}Cell")(PARAMETERS[kind], dt=DT)), inputs(kind)
        graph = nirmap.to_nir(model, "norse", dt=DT, sample=xs[0])

        for framework in ("norse", "torch"):
            net = nirmap.from_nir(graph, framework, dt=DT)
            np.testing.assert_array_equal(nirmap.run(net, xs)[0].detach(), over_time(model, xs))

    def test_a_module_of_sequences_is_its_cell(self, kind: str) -> None:
        module, xs = getattr(n, kind)(PARAMETERS[kind], dt=DT), inputs(kind)

        graph = nirmap.to_nir(Step(module), "norse", dt=DT, sample=xs)

        expected = over_time(getattr(n, f"{kind}Cell")(PARAMETERS[kind], dt=DT), xs)
        np.testing.assert_array_equal(
            simulate(graph, xs.numpy().astype(float), DT).outputs["output"], expected
        )

    @pytest.mark.parametrize("suffix", ["Recurrent", "RecurrentCell"])
    def test_its_own_spikes_come_back_a_step_late(self, kind: str, suffix: str) -> None:
        def make(name: str) -> Any:
            torch.default_generator.manual_seed(1)
            scale = 0.3 * LEVEL.get(kind, 1.0)
            weights = {
                "input_weights": torch.eye(NEURONS),
                "recurrent_weights": scale * torch.randn(NEURONS, NEURONS),
            }
            return getattr(n, f"{kind}{name}")(NEURONS, NEURONS, PARAMETERS[kind], dt=DT, **weights)

        xs = inputs(kind)
        cells = suffix == "RecurrentCell"

        graph = nirmap.to_nir(Step(make(suffix)), "norse", dt=DT, sample=xs[0] if cells else xs)

        trace = simulate(graph, xs.numpy().astype(float), DT)
        assert margin(trace) > 1e-6
        expected = over_time(make("RecurrentCell"), xs)
        np.testing.assert_array_equal(trace.outputs["output"], expected)
        assert (expected != over_time(getattr(n, f"{kind}Cell")(PARAMETERS[kind], dt=DT), xs)).any()


def alif_at(v_leak: list[float]) -> nir.NIRGraph:
    ends = {"input": nir.Input({"input": np.array([2])}), "output": nir.Output({"output": np.array([2])})}
    node = nodes.CubaALIF(v_leak=np.array(v_leak))
    return nir.NIRGraph({**ends, "node": node}, [("input", "node"), ("node", "output")], type_check=False)


@pytest.mark.parametrize("framework", ["torch", "norse"])
def test_a_state_dict_says_where_a_neuron_begins(framework: str) -> None:
    """A loaded resting potential is where the network begins that loads it."""
    net = nirmap.from_nir(alif_at([0.1, 0.2]), framework, dt=DT)
    net.load_state_dict(nirmap.from_nir(alif_at([0.3, 0.4]), framework, dt=DT).state_dict())

    _, state = net(torch.zeros(1, 2))  # at rest, nothing moves

    np.testing.assert_allclose(state["node"]["v"].detach(), [[0.3, 0.4]], rtol=1e-6)

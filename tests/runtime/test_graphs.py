"""Modules that are small graphs are written as graphs that do what the module does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nir
import norse.torch as norse
import numpy as np
import pytest
import sinabs.layers as sl
import snntorch as snn
import torch
from torch import Tensor, nn

import nirmap
from nirmap.oracle.interpreter import simulate
from nirmap.registry import check_row, load_registry
from nirmap_registry.rows import Variable
from runtime.recurrent_modules import (
    BATCH,
    CASES,
    DT,
    INPUTS,
    NEURONS,
    STEPS,
    Case,
    OfNorse,
    OfSnntorch,
    WithCurrent,
    rockpool_neuron,
    seed,
    sinabs_options,
)


def written(case: Case, module: nn.Module) -> nir.NIRGraph:
    """The graph of a user's model with the module."""
    sample = torch.zeros(1, *case.shape)
    return nirmap.to_nir(case.model(module), case.framework, dt=DT, sample=sample, reset=case.reset)


def sub_graph(graph: nir.NIRGraph) -> Any:
    """The one graph in a graph."""
    (inner,) = (node for node in graph.nodes.values() if isinstance(node, nir.NIRGraph))
    return inner


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", [0, 1])
def test_a_module_that_is_a_graph_is_written_as_one_that_does_the_same(name: str, number: int) -> None:
    """Otherwise a recurrent network would lose its feedback, or have it a step early or late, once it is a file."""
    case = CASES[name]
    seed(number)
    dtype = torch.float64 if case.framework in ("snntorch", "norse") else torch.float32
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        module = case.make()
        xs = torch.randn(STEPS, BATCH, *case.shape) + 0.4
        graph = written(case, module)
        with torch.no_grad():
            expected = case.run(module, xs, case.state).numpy()
    finally:
        torch.set_default_dtype(before)
    inner = sub_graph(graph)
    kinds = [type(node).__name__ for node in inner.nodes.values()]
    assert sorted(kinds) == sorted([*case.nodes.split(), "Input", "Output"])
    stated = {type(node).__name__: node.metadata for node in inner.nodes.values() if node.metadata}
    subtracts = {case.nodes.split()[-1]: {"reset": "subtract"}}
    assert stated == (subtracts if case.reset == "subtract" else {})
    (found,) = simulate(graph, xs.double().numpy(), DT).outputs.values()
    np.testing.assert_allclose(found, expected, atol=1e-9 if dtype == torch.float64 else 0)
    assert expected.any()
    assert len(np.unique(expected)) > 1


class Swapped(nn.Module):
    """Two recurrent layers, of which the second one is given the spikes of the first as its own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (
            snn.RLeaky(0.9, linear_features=4, reset_mechanism="zero", reset_delay=False) for _ in range(2)
        )

    def forward(self, x: Tensor, spk: Any = None, mem: Any = None, other: Any = None) -> Any:
        one, mem = self.one(x, spk, mem)
        two, other = self.two(one, one, other)
        return two, one, mem, other


REFUSED: dict[str, tuple[str, Any, str]] = {
    "RSynaptic is reset a step late": (
        "snntorch",
        lambda: WithCurrent(snn.RSynaptic(0.9, 0.9, linear_features=NEURONS, reset_mechanism="zero")),
        "reset a step after its spike",
    ),
    "RLeaky subtracts": (
        "snntorch",
        lambda: OfSnntorch(snn.RLeaky(0.9, linear_features=NEURONS)),
        "reset by subtraction.*reset='subtract' writes it as a graph of LIF, Affine",
    ),
    "RSynaptic subtracts": (
        "snntorch",
        lambda: WithCurrent(snn.RSynaptic(0.9, 0.9, linear_features=NEURONS)),
        "reset by subtraction.*a graph of CubaLIF, Affine",
    ),
    "RLeaky is reset a step late": (
        "snntorch",
        lambda: OfSnntorch(snn.RLeaky(0.9, linear_features=NEURONS, reset_mechanism="zero")),
        "in the step of its spike",
    ),
    "spikes of another layer": ("snntorch", Swapped, "the further argument"),
    "another time step": (
        "norse",
        lambda: OfNorse(norse.LIFRecurrentCell(INPUTS, NEURONS, dt=2 * DT)),
        "built for another time step",
    ),
    "a refractory time": (
        "norse",
        lambda: OfNorse(norse.LIFRefracRecurrentCell(INPUTS, NEURONS)),
        "no primitive has a synapse and a refractory time",
    ),
    "a bias that sinabs leaves out": (
        "sinabs",
        lambda: nn.Sequential(sl.LIFRecurrent(tau_mem=5.0, **sinabs_options(bias=True))),
        "leaves out the bias in the first step",
    ),
    "several spikes": (
        "sinabs",
        lambda: nn.Sequential(sl.IAFRecurrent(rec_connect=nn.Linear(NEURONS, NEURONS, bias=False))),
        "at most once in a step",
    ),
    "no value to be reset to": (
        "rockpool",
        lambda: rockpool_neuron(True, max_spikes_per_dt=torch.tensor(5.0)),
        "subtracts its threshold .*; a NIR neuron is reset to a value",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nir_cannot_express_is_refused_and_the_error_says_why(name: str) -> None:
    """A graph that is nearly the module's would be worse than none."""
    framework, make, reason = REFUSED[name]
    width = 4 if make is Swapped else INPUTS if framework == "norse" else NEURONS
    with pytest.raises((nirmap.ConstraintError, nirmap.TraceError), match=reason):
        nirmap.to_nir(make(), framework, dt=DT, sample=torch.zeros(1, width))


def _doubled(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return 2 * output


def test_a_threshold_that_is_subtracted_before_the_first_step_is_refused() -> None:
    """The module begins above a threshold below 0, and a NIR neuron in the state that follows from it."""
    model = OfSnntorch(snn.RLeaky(0.9, linear_features=NEURONS, threshold=-0.1))
    with pytest.raises(nirmap.ConstraintError, match="reset in its first step"):
        nirmap.to_nir(model, "snntorch", dt=DT, reset="subtract")


def test_a_hook_on_a_layer_inside_of_the_module_is_refused() -> None:
    """It may change what comes back, of which the weights say nothing."""
    layer: Any = snn.RLeaky(0.9, linear_features=NEURONS, reset_mechanism="zero", reset_delay=False)
    layer.recurrent.register_forward_hook(_doubled)
    with pytest.raises(nirmap.TraceError, match="forward hook"):
        nirmap.to_nir(OfSnntorch(layer), "snntorch", dt=DT)


def test_a_weight_that_torch_computes_inside_of_the_module_is_read_as_the_next_call_uses_it() -> None:
    """Weights of weight_norm are out of date between calls."""
    layer: Any = snn.RLeaky(0.9, linear_features=NEURONS, reset_mechanism="zero", reset_delay=False)
    with pytest.warns(FutureWarning, match="weight_norm"):
        torch.nn.utils.weight_norm(layer.recurrent)
    with torch.no_grad():
        layer.recurrent.weight_g.mul_(3)
    stale = layer.recurrent.weight.detach().numpy().copy()
    inner = sub_graph(nirmap.to_nir(OfSnntorch(layer), "snntorch", dt=DT))
    np.testing.assert_allclose(inner.nodes["recurrent"].weight, 3 * stale, rtol=1e-5)


class OtherState(nn.Module):
    """A model that hands on something else than what its recurrent layer returned."""

    def __init__(self, structured: bool) -> None:
        super().__init__()
        self.layer = snn.RLeaky(0.9, linear_features=NEURONS, reset_mechanism="zero", reset_delay=False)
        self.readout, self.structured = nn.Linear(NEURONS, NEURONS), structured

    def forward(self, x: Tensor, state: Any = None, mem: Any = None) -> Any:
        if self.structured:
            spk, mem = state if state is not None else (None, None)
            spk, mem = self.layer(x, spk, mem)
            return self.readout(spk), (self.readout(spk), mem)
        spk, mem = self.layer(x, state, mem)
        return self.readout(spk), 2 * spk, mem


@pytest.mark.parametrize("structured", [False, True])
def test_spikes_that_are_changed_before_they_come_back_are_refused(structured: bool) -> None:
    """The graph would feed back the spikes themselves."""
    model: nn.Module = OtherState(structured)
    with pytest.raises(nirmap.TraceError, match="becomes another signal in the next step"):
        nirmap.to_nir(model, "snntorch", dt=DT)


@pytest.mark.parametrize("variables", [("neuron.v",), ("neuron.v", "neuron.output", "recurrent.output")])
def test_a_state_without_what_is_fed_back_is_refused_when_the_registry_is_loaded(
    variables: tuple[str, ...],
) -> None:
    """The delayed edges of the graph say which outputs a step needs of the one before."""
    row = next(entry for entry in load_registry("snntorch").graphs if entry.build is not None)
    assert row.state is not None
    state = replace(row.state, variables=tuple(Variable(name, "mem") for name in variables))
    with pytest.raises(nirmap.MappingError, match=r"the outputs that are fed back: neuron.output"):
        check_row(replace(row, state=state))

"""Norse's modules that take a whole sequence are written as their cells are.

If these fail, a model that runs over time with norse's own layers is written as one that fires at other steps, or not
at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
import norse.torch as norse
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nirmap
from nirmap.oracle.interpreter import simulate

Tensor = torch.Tensor
DT, STEPS, BATCH, NEURONS = 1e-3, 40, 3, 5
n: Any = norse


def drawn(generator: torch.Generator, low: float, high: float) -> Tensor:
    """A number between two bounds for each neuron."""
    return torch.rand(NEURONS, generator=generator, dtype=torch.float64) * (high - low) + low


def lif(generator: torch.Generator, **changed: Any) -> Any:
    values = {
        "tau_syn_inv": drawn(generator, 100, 900),
        "tau_mem_inv": drawn(generator, 100, 900),
        "v_leak": drawn(generator, -0.1, 0.2),
        "v_th": drawn(generator, 0.2, 0.6),
        "v_reset": drawn(generator, -0.3, 0),
    }
    return n.LIF(n.LIFParameters(**{**values, **changed}), dt=DT)


def li(generator: torch.Generator) -> Any:
    rates = [drawn(generator, 100, 900) for _ in range(2)]
    return n.LI(n.LIParameters(*rates, v_leak=drawn(generator, -0.1, 0.2)), dt=DT)


def iaf(generator: torch.Generator) -> Any:
    return n.IAF(n.IAFParameters(v_th=drawn(generator, 1, 3), v_reset=drawn(generator, -0.4, 0.2)), dt=DT)


class Layers(torch.nn.Module):
    """A layer, a module that takes sequences, and a readout."""

    def __init__(self, neurons: Any) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(2, NEURONS, dtype=torch.float64)
        self.neurons, self.out = neurons, torch.nn.Linear(NEURONS, 1, dtype=torch.float64)

    def forward(self, xs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        ys, state = self.neurons(self.fc(xs), state)
        return self.out(ys), state


def zeros(kind: Any) -> Any:
    """A state of zeros, in which a NIR neuron begins."""
    return kind(**{name: torch.zeros(BATCH, NEURONS, dtype=torch.float64) for name in kind._fields})


MODULES: dict[str, tuple[Callable[[torch.Generator], Any], Any, type[nir.NIRNode]]] = {
    "LIF": (lif, n.LIFFeedForwardState, nir.CubaLIF),
    "LI": (li, n.LIState, nir.CubaLI),
    "IAF": (iaf, n.IAFFeedForwardState, nir.IF),
}


def written(module: Any) -> nir.NIRGraph:
    return nirmap.to_nir(module, "norse", dt=DT, sample=torch.zeros(1, NEURONS))


@pytest.mark.parametrize("name", MODULES)
@given(number=st.integers(0, 2**31 - 1))
@settings(max_examples=10, deadline=None)
def test_a_sequence_gives_the_numbers_of_the_written_graph(name: str, number: int) -> None:
    make, state, kind = MODULES[name]
    generator = torch.Generator().manual_seed(number)
    module = make(generator)
    xs = torch.randn(STEPS, BATCH, NEURONS, generator=generator, dtype=torch.float64) + 0.4
    graph = written(module)
    assert [type(node) for node in graph.nodes.values() if type(node) not in (nir.Input, nir.Output)] == [
        kind
    ]
    with torch.no_grad():
        expected = module(xs, zeros(state))[0].numpy()
    (found,) = simulate(graph, xs.numpy(), DT).outputs.values()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert len(np.unique(expected)) > 1


@pytest.mark.parametrize("name", MODULES)
def test_a_network_of_layers_and_sequences_gives_the_numbers_of_the_written_graph(name: str) -> None:
    make, state, kind = MODULES[name]
    generator = torch.Generator().manual_seed(1)
    model = Layers(make(generator))
    graph = nirmap.to_nir(model, "norse", dt=DT)
    assert {key: type(node) for key, node in graph.nodes.items()}["neurons"] is kind
    xs = 3 * torch.rand(STEPS, BATCH, 2, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        expected = model(xs, zeros(state))[0].numpy()
    (found,) = simulate(graph, xs.numpy(), DT).outputs.values()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_layers_in_a_row_as_norse_runs_them_over_time_are_written() -> None:
    """A SequentialState hands the states on, and each of its modules takes the whole sequence."""
    generator = torch.Generator().manual_seed(4)
    layers = [torch.nn.Linear(2, NEURONS), lif(generator), torch.nn.Linear(NEURONS, NEURONS), li(generator)]
    model = n.SequentialState(*layers).double()
    graph = nirmap.to_nir(model, "norse", dt=DT)
    kinds = [type(graph.nodes[str(number)]) for number in range(len(layers))]
    assert kinds == [nir.Affine, nir.CubaLIF, nir.Affine, nir.CubaLI]
    xs = 3 * torch.rand(STEPS, BATCH, 2, generator=generator, dtype=torch.float64)
    begin = [None, zeros(n.LIFFeedForwardState), None, zeros(n.LIState)]
    with torch.no_grad():
        expected = model(xs, begin)[0].numpy()
    (found,) = simulate(graph, xs.numpy(), DT).outputs.values()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["super", "heaviside", "triangle", "tanh", "circ", "heavi_erfc"])
def test_a_sparse_sequence_and_a_surrogate_do_not_change_when_a_lif_fires(method: str) -> None:
    """Norse has a function of its own for sparse input, and one for each surrogate gradient."""
    generator = torch.Generator().manual_seed(2)
    module = lif(generator, method=method)
    xs = torch.randn(STEPS, BATCH, NEURONS, generator=generator, dtype=torch.float64).relu()
    (expected,) = simulate(written(module), xs.numpy(), DT).outputs.values()
    assert expected.any()
    with torch.no_grad():
        spikes = module(xs, zeros(n.LIFFeedForwardState))[0]
        sparse = module(xs.to_sparse(), zeros(n.LIFFeedForwardState))[0]
    np.testing.assert_array_equal(spikes.numpy(), expected)
    np.testing.assert_array_equal(sparse.to_dense().numpy(), expected)


def recording() -> list[Any]:
    sizes = (NEURONS, NEURONS)
    kept = {"record_states": True, "dt": DT}
    iaf = n.IAF(dt=DT)
    iaf.record_states = True
    return [n.LIF(**kept), n.LI(**kept), n.LIFRecurrent(*sizes, **kept), iaf]


@pytest.mark.parametrize("module", recording(), ids=lambda module: type(module).__name__)
def test_a_module_that_returns_the_states_of_all_steps_is_refused(module: Any) -> None:
    """What it returns is no state: given to it again, all steps would go on from it at once."""
    with pytest.raises(nirmap.ConstraintError, match=r"record_states.*states of all steps"):
        written(module)


@pytest.mark.parametrize("kind", ["LIF", "LI", "LIFRecurrent"])
def test_a_module_for_another_time_step_is_refused(kind: str) -> None:
    sizes = (NEURONS, NEURONS) if kind == "LIFRecurrent" else ()
    with pytest.raises(nirmap.ConstraintError, match="another time step"):
        written(getattr(n, kind)(*sizes, dt=2 * DT))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (n.LIFRefracCell(), "no primitive has a synapse and a refractory time"),
        (n.LIFAdExRefracCell(), "an adaptation current and a refractory time"),
        (n.CobaLIFCell(1, 1), "no neuron with conductances"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_neurons_that_no_primitive_stands_for_are_refused_by_name(module: Any, reason: str) -> None:
    with pytest.raises(nirmap.NirmapError, match=f"{type(module).__name__}.*{reason}"):
        written(module)

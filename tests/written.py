"""Models written to NIR, held against the oracle: the model is stepped in torch, its graph in NumPy."""

from __future__ import annotations

from typing import Any, TypeGuard

import nir
import numpy as np
import torch

import nirmap
from nirmap.oracle.interpreter import simulate
from nirmap.reference import LI, LIF, CubaLIF

DT = 1e-4


def lif(size: int = 3, **values: float) -> LIF:
    """A reference LIF in float64 whose neurons differ from each other."""
    spread = torch.linspace(0.9, 1.1, size, dtype=torch.float64)
    given = {"tau": 1e-3, "r": 3.0, "v_leak": 0.1, "v_threshold": 0.6, "v_reset": -0.2, **values}
    parameters: dict[str, Any] = {name: value * spread for name, value in given.items()}
    return LIF(**parameters, dt=DT)


def li(size: int = 3) -> LI:
    """A reference LI in float64."""
    spread = torch.linspace(0.9, 1.1, size, dtype=torch.float64)
    return LI(1e-3 * spread, 2 * spread, 0.1 * spread, DT)


def cuba(size: int = 3) -> CubaLIF:
    """A reference CubaLIF in float64."""
    spread = torch.linspace(0.9, 1.1, size, dtype=torch.float64)
    values = {
        "tau_syn": 5e-4,
        "tau_mem": 1e-3,
        "r": 3.0,
        "v_leak": 0.1,
        "v_threshold": 0.6,
        "v_reset": -0.2,
        "w_in": 1.5,
    }
    parameters: dict[str, Any] = {name: value * spread for name, value in values.items()}
    return CubaLIF(**parameters, dt=DT)


def linear(before: int = 3, after: int = 3, *, bias: bool = True, seed: int = 0) -> torch.nn.Linear:
    """A layer in float64 whose weights are mostly positive, so that what follows fires."""
    layer = torch.nn.Linear(before, after, bias=bias, dtype=torch.float64)
    random = np.random.default_rng(seed)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(random.uniform(-0.3, 1.0, (after, before))))
        if bias:
            layer.bias.copy_(torch.tensor(random.uniform(-0.2, 0.3, after)))
    return layer


def inputs(*shape: int, steps: int = 40, batch: int = 2, seed: int = 1) -> torch.Tensor:
    """A sequence (steps, batch, *shape) in float64."""
    return torch.tensor(np.random.default_rng(seed).uniform(0, 1.5, (steps, batch, *shape)))


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether a value is a tuple."""
    return isinstance(value, tuple)


def stepped(model: torch.nn.Module, xs: torch.Tensor, carried: int) -> Any:
    """The first result of a model at every step; the last ``carried`` results are its next further arguments."""
    state: tuple[Any, ...] = ()
    outputs: list[torch.Tensor] = []
    with torch.no_grad():
        for x in xs:
            returned: Any = model(x, *state)
            values = returned if is_tuple(returned) else (returned,)
            outputs.append(values[0])
            state = values[len(values) - carried :] if carried else ()
    return torch.stack(outputs)


def check_written(
    model: torch.nn.Module,
    xs: torch.Tensor,
    *,
    carried: int = 0,
    framework: str = "torch",
    tolerance: float = 1e-9,
    is_spiking: bool = True,
    **options: Any,
) -> Any:
    """The graph of a model, after the oracle has computed the model's outputs from it.

    The model is written before it is run, and must not be changed by that.
    """
    graph = nirmap.to_nir(model, framework, dt=DT, **options)
    expected = stepped(model, xs, carried).double().numpy()
    trace = simulate(graph, xs.double().numpy(), DT)
    (output,) = trace.outputs.values()
    np.testing.assert_allclose(output, expected, rtol=tolerance, atol=tolerance)
    assert np.abs(expected).mean() > 0
    if is_spiking:
        assert 0.05 < expected.mean() < 0.95, "a layer that never or always fires shows nothing"
    return graph


def edges(graph: nir.NIRGraph) -> set[tuple[str, str]]:
    """The edges of a graph."""
    return set(graph.edges)


def kinds(graph: nir.NIRGraph) -> dict[str, str]:
    """The class of each node."""
    return {name: type(node).__name__ for name, node in graph.nodes.items()}


def to_nir(module: torch.nn.Module, *arguments: Any, **options: Any) -> Any:
    """`nirmap.to_nir`, with nodes whose parameters a type checker does not ask about."""
    return nirmap.to_nir(module, *arguments, **options)

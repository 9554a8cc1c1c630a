"""What the tables of faults are made of: graphs read wrongly, modules written wrongly, and the checks.

A framework's own converter is never called: it may raise today and answer tomorrow. The tables state what it does.
Where it gives a wrong answer, that answer is computed too, and has to differ from the right one: otherwise the entry
would show nothing. Each entry is about one fault alone: the parameters that others are about are such that these do not
matter.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.oracle.interpreter import Trace, margin, simulate
from oracle.building import chain

DT = 1e-3
WIDTH = 4
Array = np.ndarray[Any, Any]
Tensor = torch.Tensor
# A graph as the converter would have it, or what its modules give, (T, B, *shape).
Mistaken = nir.NIRGraph | Callable[[Tensor], Tensor]

_LEVELS = {
    "tau": 6e-3,
    "tau_mem": 6e-3,
    "tau_syn": 4e-3,
    "r": 2.0,
    "v_leak": 0.1,
    "v_threshold": 0.6,
    "v_reset": -0.2,
    "w_in": 1.5,
    "threshold": 0.8,
    "scale": 1.7,
    "delay": 0.0,
}


def spread(level: float) -> Array:
    """Numbers around one, another one for each neuron."""
    return np.asarray(level * np.linspace(0.9, 1.1, WIDTH))


def neuron(kind: str, **values: float | Array) -> Any:
    """A node in which every parameter differs from neuron to neuron, but for those that are given as one number."""
    levels = {**_LEVELS, "r": 200.0} if kind in ("I", "IF") else _LEVELS
    cls: Any = getattr(nir, kind)
    known = {
        name: np.broadcast_to(values[name], WIDTH).astype(float) if name in values else spread(levels[name])
        for name in inspect.signature(cls).parameters
        if name in levels
    }
    return cls(**known)


def layer(kind: str, **values: float | Array) -> nir.NIRGraph:
    """The same between an Input and an Output."""
    return single(neuron(kind, **values), (WIDTH,))


def single(
    node: nir.NIRNode, shape: tuple[int, ...], shape_after: tuple[int, ...] | None = None
) -> nir.NIRGraph:
    """A node between an Input and an Output."""
    return chain([node], shape, shape_after, names=("input", "node", "output"))


def with_parameters(graph: nir.NIRGraph, **values: Any) -> nir.NIRGraph:
    """A copy of a graph in which every node that has these parameters has them at other values."""
    changed = copy.deepcopy(graph)
    for node in changed.nodes.values():
        for name, value in values.items():
            if hasattr(node, name):
                now: Any = getattr(node, name)
                setattr(node, name, np.broadcast_to(value, np.shape(now)).copy())
    return changed


def convolution(*, groups: int = 1, kernel: tuple[int, int] = (3, 3)) -> nir.Conv2d:
    """A convolution of two channels of 6 x 6 into four."""
    random = np.random.default_rng(0)
    weight = random.uniform(-0.5, 1.0, (4, 2 // groups, *kernel))
    return nir.Conv2d((6, 6), weight, 1, 0, 1, groups, random.uniform(-1, 1, 4))


def pool(kind: str, padding: int) -> nir.NIRGraph:
    """Windows of 2 x 2 on an image of 4 x 4."""
    two = np.array([2, 2])
    node = getattr(nir, kind)(two, two, np.array([padding, padding]))
    return single(node, (1, 4, 4), (1, 2 + padding, 2 + padding))


def flatten() -> nir.NIRGraph:
    """All axes of (3, 4, 5) as one. The first axis of a node is the second one of a tensor."""
    return single(nir.Flatten({"input": np.array([3, 4, 5])}, 0, -1), (3, 4, 5), (60,))


def with_the_batch_flattened(xs: Tensor) -> Tensor:
    """What comes of the node before if its axes are counted from the batch on."""
    return torch.stack([torch.nn.Flatten(0)(x) for x in xs])


def sequence(*shape: int, steps: int = 50, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers from -0.6 to 2, others in each of the three samples: (time, batch, *shape)."""
    drawn = np.random.default_rng(3).uniform(-0.6, 2.0, (steps, 3, *shape))
    return torch.tensor(drawn, dtype=dtype)


@dataclass(frozen=True)
class Read:
    """A graph that a framework's converter reads wrongly, or not at all.

    Attributes:
        graph: what is read.
        mistaken: what the converter makes of it; None where it raises, or makes nothing.
        dt: the time step, s.
        refused: where the framework itself cannot do it: what the error has to say. The built-in module does it then.
    """

    graph: nir.NIRGraph
    mistaken: Mistaken | None = None
    dt: float = DT
    refused: str | None = None


@dataclass(frozen=True)
class Written:
    """A module that a framework's converter writes wrongly, or not at all.

    Attributes:
        module: makes it.
        kind: the node that it is.
        mistaken: from the right graph to the one that the converter writes; None where it raises, or writes nothing.
        shape: of its input, without batch.
        dtype: of its input.
    """

    module: Callable[[], Any]
    kind: type[nir.NIRNode]
    mistaken: Callable[[nir.NIRGraph], nir.NIRGraph] | None = None
    shape: tuple[int, ...] = (WIDTH,)
    dtype: torch.dtype = torch.float64


# What the error for a neuron says that no single node is, and that is written if the caller knows.
SUBTRACTS = "reset by subtraction; expected a neuron that is reset to a value.*reset='subtract' writes it"


@dataclass(frozen=True)
class Unwritable:
    """A module that a framework's converter writes as something else, and that no single node is.

    Attributes:
        module: makes it.
        reason: what the error has to say, a regular expression.
    """

    module: Callable[[], Any]
    reason: str


def check_read(framework: str, fault: Read) -> None:
    """The rebuilt network gives the oracle's spikes, values and last state, and what the converter makes does not."""
    (entry,) = (node for node in fault.graph.nodes.values() if isinstance(node, nir.Input))
    xs = sequence(*(int(size) for size in entry.input_type["input"]))
    trace = simulate(fault.graph, xs.numpy(), fault.dt)
    assert_clear(trace, 1e-9)
    options: Any = {"dt": fault.dt, "dtype": torch.float64}
    if fault.refused is not None:
        with pytest.raises(nirmap.NirmapError, match=f"(?s)node 'node'.*{fault.refused}.*fallback='torch'"):
            nirmap.from_nir(fault.graph, framework, **options)
        options["fallback"] = "torch"
    net = nirmap.from_nir(fault.graph, framework, **options)
    with torch.no_grad():
        outputs, state = nirmap.run(net, xs)
    assert_same(outputs, trace, 1e-10)
    for (name,), variables in trace.states.items():
        for variable, values in variables.items():
            np.testing.assert_allclose(state[name][variable], values[-1], rtol=1e-10, atol=1e-10)
    if isinstance(fault.mistaken, nir.NIRGraph):
        assert_other(output_of(simulate(fault.mistaken, xs.numpy(), fault.dt)), trace)
    elif fault.mistaken is not None:
        with torch.no_grad():
            assert_other(fault.mistaken(xs).numpy(), trace)


def stepwise(module: Any, xs: Tensor) -> Tensor:
    """What a module gives that keeps its state to itself, or has none."""
    return torch.stack([module(x) for x in xs])


def check_written(
    framework: str, fault: Written, run: Callable[[Any, Tensor], Tensor] = stepwise
) -> nir.NIRGraph:
    """The oracle on the written graph gives what the module gives, and on what the converter writes something else.

    Args:
        framework: whose module it is.
        fault: the entry of the table.
        run: the framework's own way to run its module over a sequence.
    """
    xs = sequence(*fault.shape, dtype=fault.dtype)
    module = fault.module()
    with torch.no_grad():
        expected = run(copy.deepcopy(module), xs)
    graph = nirmap.to_nir(module, framework, dt=DT, sample=xs[0])
    (node,) = (node for node in graph.nodes.values() if not isinstance(node, nir.Input | nir.Output))
    assert type(node) is fault.kind
    trace = simulate(graph, xs.double().numpy(), DT)
    assert_clear(trace, 1e-9 if fault.dtype is torch.float64 else 1e-6)
    assert_same(expected, trace, 1e-10 if fault.dtype is torch.float64 else 1e-4)
    if fault.mistaken is not None:
        assert_other(output_of(simulate(fault.mistaken(graph), xs.double().numpy(), DT)), trace)
    return graph


def check_refused(framework: str, fault: Unwritable, *shape: int) -> None:
    """The module is not written, and the error says why."""
    with pytest.raises(nirmap.NirmapError, match=fault.reason):
        nirmap.to_nir(fault.module(), framework, dt=DT, sample=torch.zeros(1, *(shape or (WIDTH,))))


def output_of(trace: Trace) -> Array:
    """What the only Output gives, (T, B, *shape)."""
    (output,) = trace.outputs.values()
    return output


def assert_clear(trace: Trace, least: float) -> None:
    """Each layer fires, but not always, and no potential is so near to its threshold that rounding decides."""
    assert margin(trace) > least
    for path, count in trace.spike_counts().items():
        assert 0 < count < trace.values[path].size, f"{path}: {count} spikes"
    assert output_of(trace).any()


def assert_same(found: Tensor, trace: Trace, tolerance: float) -> None:
    """Spikes exactly, values within a tolerance."""
    exact = bool(np.isin(output_of(trace), (0.0, 1.0)).all())
    tolerance = 0.0 if exact else tolerance
    np.testing.assert_allclose(found.double().numpy(), output_of(trace), rtol=tolerance, atol=tolerance)


def assert_other(wrong: Array, trace: Trace) -> None:
    """Not a matter of rounding: other sizes, or at least one number in a hundred is another one."""
    right = output_of(trace)
    assert wrong.shape != right.shape or np.mean(np.abs(wrong - right) > 1e-3) > 0.01

"""Modules made with their framework's own constructor, with drawn parameters: one maker for each row of a registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import norse.torch
import numpy as np
import snntorch
import torch

from nirmap import reference
from nirmap.registry import load_registry
from nirmap_registry.catalogue import PRIMITIVES
from oracle.parameters import TIME_STEP
from runtime.suitable import extension_values, is_extension

Random = np.random.Generator
Tensor = torch.Tensor
WIDTH = 3


@dataclass(frozen=True)
class Made:
    """A module, the shape of its input without batch, and the attributes that a rebuilt one has to share.

    An input of the size ``level`` makes it fire.
    """

    module: torch.nn.Module
    shape: tuple[int, ...]
    attributes: tuple[str, ...]
    level: float = 1.0


Maker = Callable[[Random], Made]


def _between(random: Random, low: float, high: float) -> Tensor:
    """One number per neuron."""
    return torch.tensor(random.uniform(low, high, WIDTH))


def _signed(random: Random) -> Tensor:
    """Resistances, some of them negative, and some zero."""
    values = random.uniform(1, 3, WIDTH) * random.choice([1, 1, 1, -1, 0], WIDTH)
    return torch.tensor(values)


def _reference(kind: Callable[..., torch.nn.Module], *names: str) -> Maker:
    def make(random: Random) -> Made:
        ranges = {
            "tau": (5, 15),
            "tau_syn": (5, 15),
            "tau_mem": (5, 15),
            "v_leak": (-0.3, 0.3),
            "v_threshold": (0.5, 1.0),
            "v_reset": (-0.3, 0.3),
            "w_in": (1.0, 1.8),
            "scale": (-2, 2),
            "threshold": (-0.5, 1.0),
        }
        values: dict[str, Tensor] = {}
        for name in names:
            values[name] = _signed(random) if name == "r" else _between(random, *ranges[name])
            if name.startswith("tau"):
                values[name] = values[name] * TIME_STEP
        if kind in (reference.I, reference.IF):
            values["r"] = values["r"] / TIME_STEP / 5
        timed: dict[str, Any] = {} if kind in (reference.Scale, reference.Threshold) else {"dt": TIME_STEP}
        return Made(kind(**values, **timed), (WIDTH,), names)

    return make


def _extension(kind: str) -> Maker:
    """The reference module of a neuron that NIR does not have."""
    row = next(row for row in load_registry("torch").rows if row.node == kind)

    def make(random: Random) -> Made:
        drawn = extension_values(PRIMITIVES[kind], random, WIDTH)
        values = {name: torch.tensor(value) for name, value in drawn.items()}
        return Made(row.module(**values, dt=TIME_STEP), (WIDTH,), tuple(values))

    return make


def _delay(random: Random) -> Made:
    steps = torch.tensor(random.integers(0, 4, WIDTH), dtype=torch.float64)
    return Made(reference.Delay(steps * TIME_STEP, TIME_STEP), (WIDTH,), ("delay",))


def _linear(bias: bool) -> Maker:
    def make(random: Random) -> Made:
        before, after = map(int, random.integers(1, 5, 2))
        return Made(torch.nn.Linear(before, after, bias=bias), (before,), ("weight", "bias"))

    return make


def _convolution(kind: type[torch.nn.Conv1d | torch.nn.Conv2d], axes: int) -> Maker:
    def make(random: Random) -> Made:
        groups = int(random.integers(1, 3))
        before, after = groups * int(random.integers(1, 3)), groups * int(random.integers(1, 3))
        padding: Any = random.choice(["same", "valid", "numbers"])
        stride = 1 if padding == "same" else int(random.integers(1, 3))
        if padding == "numbers":
            padding = tuple(map(int, random.integers(0, 3, axes)))
        kernel = tuple(map(int, random.integers(1, 4, axes)))
        dilation = tuple(map(int, random.integers(1, 3, axes)))
        module = kind(
            before,
            after,
            kernel,  # type: ignore[arg-type]
            stride,
            str(padding) if isinstance(padding, str) else padding,
            dilation,  # type: ignore[arg-type]
            groups,
        )
        names = ("weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
        return Made(module, (before, *(8,) * axes), names)

    return make


def _pool(divisor: int | None) -> Maker:
    def make(random: Random) -> Made:
        kernel = tuple(map(int, random.integers(1, 4, 2)))
        padding = tuple(int(random.integers(0, size // 2 + 1)) for size in kernel)
        stride = tuple(map(int, random.integers(1, 4, 2)))
        module = torch.nn.AvgPool2d(kernel, stride, padding, divisor_override=divisor)  # type: ignore[arg-type]
        names = ("kernel_size", "stride", "padding", "divisor_override", "ceil_mode", "count_include_pad")
        return Made(module, (2, 7, 8), names)

    return make


def _flatten(random: Random) -> Made:
    start = int(random.integers(1, 4))
    end = int(random.integers(start, 4))
    module = torch.nn.Flatten(start - 4 * int(random.integers(2)), end - 4 * int(random.integers(2)))
    return Made(module, (2, 3, 4), ("start_dim", "end_dim"))


def _norse(cell: Any, parameters: Any, *, has_leak: bool, spikes: bool, current: bool) -> Maker:
    def make(random: Random) -> Made:
        values: dict[str, Tensor] = {}
        if has_leak:
            values["tau_mem_inv"] = 1 / (_between(random, 5, 15) * TIME_STEP)
            values["v_leak"] = _between(random, -0.3, 0.3)
        if current:
            values["tau_syn_inv"] = 1 / (_between(random, 5, 15) * TIME_STEP)
        if spikes:
            values |= {"v_th": _between(random, 0.4, 0.8), "v_reset": _between(random, -0.3, 0.3)}
        return Made(cell(parameters(**values), dt=TIME_STEP), (WIDTH,), tuple(f"p.{name}" for name in values))

    return make


def _norse_upstroke(cell: Any, parameters: Any, **ranges: tuple[float, float]) -> Maker:
    """A cell with a synapse that begins at rest, and whose potential or threshold does something of its own."""
    drawn = {"v_leak": (-0.3, 0.3), "v_th": (0.5, 0.8), "v_reset": (-0.3, 0.3), **ranges}

    def make(random: Random) -> Made:
        values = {name: _between(random, *bounds) for name, bounds in drawn.items()}
        values["v_leak"] = values["v_leak"][0]  # such a cell begins at one potential for all
        times = ["tau_syn_inv", "tau_mem_inv"]
        times += [name for name in ("tau_adapt_inv", "tau_ada_inv") if name in parameters._fields]
        values |= {name: 1 / (_between(random, 5, 15) * TIME_STEP) for name in times}
        return Made(cell(parameters(**values), dt=TIME_STEP), (WIDTH,), tuple(f"p.{name}" for name in values))

    return make


def _norse_izhikevich(random: Random) -> Made:
    """About norse's own tonic spiking, where each neuron begins elsewhere."""
    typical = norse.torch.tonic_spiking
    names = ("a", "b", "c", "d", "sq", "mn", "bias", "v_th", "tau_inv")

    def about(value: Tensor) -> Tensor:
        return value * _between(random, 0.97, 1.03)

    p = typical.p._replace(**{name: about(getattr(typical.p, name)) for name in names})
    behaviour = type(typical)(
        p, typical.s._replace(v=about(typical.s.v.detach()), u=about(typical.s.u.detach()))
    )
    kept = (*(f"p.{name}" for name in names), "spiking_method.s.v", "spiking_method.s.u")
    return Made(norse.torch.IzhikevichCell(behaviour, dt=TIME_STEP), (WIDTH,), kept, level=100.0)


def _snntorch(cell: Any, *decays: str, leaks: bool, spikes: bool) -> Maker:
    def make(random: Random) -> Made:
        values = {
            name: _between(random, 0.7, 0.95) if leaks else torch.ones(WIDTH, dtype=torch.float64)
            for name in decays
        }
        if spikes:
            values["threshold"] = _between(random, 0.5, 3.0)
        reset: dict[str, Any] = {"reset_mechanism": "zero" if spikes else "none"}
        if spikes:
            reset["reset_delay"] = False
        return Made(cell(**values, **reset), (WIDTH,), (*values, "reset_mechanism"))

    return make


def _threshold_of_snntorch(random: Random) -> Made:
    """A neuron that remembers nothing."""
    values: dict[str, Any] = {"threshold": _between(random, -0.5, 2.0)}
    neuron = snntorch.Leaky(0.0, reset_mechanism="none", **values)
    return Made(neuron, (WIDTH,), ("beta", "threshold", "reset_mechanism"))


_LAYERS: dict[tuple[str, str], Maker] = {
    ("Affine", "torch.nn.Linear"): _linear(True),
    ("Linear", "torch.nn.Linear"): _linear(False),
    ("Conv1d", "torch.nn.Conv1d"): _convolution(torch.nn.Conv1d, 1),
    ("Conv2d", "torch.nn.Conv2d"): _convolution(torch.nn.Conv2d, 2),
    ("AvgPool2d", "torch.nn.AvgPool2d"): _pool(None),
    ("SumPool2d", "torch.nn.AvgPool2d"): _pool(1),
    ("Flatten", "torch.nn.Flatten"): _flatten,
}
_RESET = ("v_threshold", "v_reset")
MAKERS: dict[tuple[str, str], Maker] = {
    **_LAYERS,
    ("Scale", "nirmap.reference.Scale"): _reference(reference.Scale, "scale"),
    ("Threshold", "nirmap.reference.Threshold"): _reference(reference.Threshold, "threshold"),
    ("Delay", "nirmap.reference.Delay"): _delay,
    ("I", "nirmap.reference.I"): _reference(reference.I, "r"),
    ("IF", "nirmap.reference.IF"): _reference(reference.IF, "r", *_RESET),
    ("LI", "nirmap.reference.LI"): _reference(reference.LI, "tau", "r", "v_leak"),
    ("LIF", "nirmap.reference.LIF"): _reference(reference.LIF, "tau", "r", "v_leak", *_RESET),
    ("CubaLI", "nirmap.reference.CubaLI"): _reference(
        reference.CubaLI, "tau_syn", "tau_mem", "r", "v_leak", "w_in"
    ),
    ("CubaLIF", "nirmap.reference.CubaLIF"): _reference(
        reference.CubaLIF, "tau_syn", "tau_mem", "r", "v_leak", *_RESET, "w_in"
    ),
    ("LI", "norse.torch.LIBoxCell"): _norse(
        norse.torch.LIBoxCell, norse.torch.LIBoxParameters, has_leak=True, spikes=False, current=False
    ),
    ("LIF", "norse.torch.LIFBoxCell"): _norse(
        norse.torch.LIFBoxCell, norse.torch.LIFBoxParameters, has_leak=True, spikes=True, current=False
    ),
    ("IF", "norse.torch.IAFCell"): _norse(
        norse.torch.IAFCell, norse.torch.IAFParameters, has_leak=False, spikes=True, current=False
    ),
    ("CubaLI", "norse.torch.LICell"): _norse(
        norse.torch.LICell, norse.torch.LIParameters, has_leak=True, spikes=False, current=True
    ),
    ("CubaLIF", "norse.torch.LIFCell"): _norse(
        norse.torch.LIFCell, norse.torch.LIFParameters, has_leak=True, spikes=True, current=True
    ),
    ("CubaALIF", "norse.torch.LSNNCell"): _norse_upstroke(
        norse.torch.LSNNCell, norse.torch.LSNNParameters, beta=(0.1, 0.4)
    ),
    ("CubaEIF", "norse.torch.LIFExCell"): _norse_upstroke(
        norse.torch.LIFExCell, norse.torch.LIFExParameters, delta_T=(0.2, 0.5)
    ),
    ("CubaAdEx", "norse.torch.LIFAdExCell"): _norse_upstroke(
        norse.torch.LIFAdExCell,
        norse.torch.LIFAdExParameters,
        delta_T=(0.2, 0.5),
        adaptation_current=(0.5, 2),
        adaptation_spike=(0.1, 0.4),
    ),
    ("JointIzhikevich", "norse.torch.IzhikevichCell"): _norse_izhikevich,
    ("Threshold", "snntorch.Leaky"): _threshold_of_snntorch,
    ("I", "snntorch.Leaky"): _snntorch(snntorch.Leaky, "beta", leaks=False, spikes=False),
    ("IF", "snntorch.Leaky"): _snntorch(snntorch.Leaky, "beta", leaks=False, spikes=True),
    ("LI", "snntorch.Leaky"): _snntorch(snntorch.Leaky, "beta", leaks=True, spikes=False),
    ("LIF", "snntorch.Leaky"): _snntorch(snntorch.Leaky, "beta", leaks=True, spikes=True),
    ("CubaLI", "snntorch.Synaptic"): _snntorch(snntorch.Synaptic, "alpha", "beta", leaks=True, spikes=False),
    ("CubaLIF", "snntorch.Synaptic"): _snntorch(snntorch.Synaptic, "alpha", "beta", leaks=True, spikes=True),
    **{
        (row.node, row.path): _extension(row.node)
        for row in load_registry("torch").rows
        if is_extension(PRIMITIVES[row.node])
    },
}
"""By the primitive and the path of the module."""

"""Processor time of writing models as NIR, against what ``torch.fx`` needs to trace them with the same leaf modules.

Prints ratios measured side by side in one process: of recording alone, and of the whole of ``to_nir``.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import norse.torch as norse
import numpy as np
import snntorch
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import nirmap
from nirmap.recording import record
from nirmap.tracing import leaves_of

WIDTH = 4


class Model(NamedTuple):
    """A model, its framework, a sample of its input, and the arguments that torch.fx has to be given."""

    module: nn.Module
    framework: str
    sample: torch.Tensor
    arguments: Mapping[str, Any]


class Spiking(nn.Module):
    """Linear and Leaky, alternating, in a forward of its own."""

    def __init__(self, pairs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(pairs))
        self.neurons = nn.ModuleList(
            snntorch.Leaky(beta=0.9, reset_mechanism="zero", reset_delay=False) for _ in range(pairs)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One time step."""
        for layer, neuron in zip(self.layers, self.neurons, strict=True):
            x, _ = neuron(layer(x))
        return x


class Tracer(torch.fx.Tracer):
    """Enters containers and models alone."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is recorded as one call."""
        return not isinstance(m, nn.Sequential | Spiking | norse.SequentialState)


def linear(modules: int) -> Model:
    """A Sequential of Linear."""
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(modules)]
    return Model(nn.Sequential(*layers), "torch", torch.zeros(1, WIDTH), {})


def linear_leaky(modules: int) -> Model:
    """Linear and snnTorch's Leaky, which returns its membrane potential."""
    return Model(Spiking(modules // 2), "snntorch", torch.zeros(1, WIDTH), {})


def linear_lif(modules: int) -> Model:
    """Linear and norse's LIFBoxCell, whose state is an argument."""
    layers = [layer for _ in range(modules // 2) for layer in (nn.Linear(WIDTH, WIDTH), norse.LIFBoxCell())]
    return Model(norse.SequentialState(*layers), "norse", torch.zeros(1, WIDTH), {"state": None})


def convolution_normalisation(modules: int) -> Model:
    """Conv2d and BatchNorm2d, which is folded into it."""
    pairs = [(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)) for _ in range(modules // 2)]
    layers = [layer for pair in pairs for layer in pair]
    return Model(nn.Sequential(*layers).eval(), "torch", torch.zeros(1, 2, 8, 8), {})


KINDS: dict[str, Callable[[int], Model]] = {
    "Linear": linear,
    "Linear, snntorch.Leaky": linear_leaky,
    "Linear, norse.LIFBoxCell": linear_lif,
    "Conv2d, BatchNorm2d": convolution_normalisation,
}
SIZES = (200, 2_000, 20_000)


def measured(functions: Iterable[Callable[[Model], object]], model: Model, repeats: int) -> list[float]:
    """The shortest processor time of each function, in s. They take turns, so that a busy machine slows all alike."""
    rounds: list[list[float]] = []
    for _ in range(repeats):
        times: list[float] = []
        for function in functions:
            gc.collect()
            start = time.process_time()
            function(model)
            times.append(time.process_time() - start)
        rounds.append(times)
    return [min(times) for times in zip(*rounds, strict=True)]


def traced(model: Model) -> object:
    """The model as torch.fx records it."""
    return Tracer().trace(model.module, dict(model.arguments))


def recorded(model: Model) -> object:
    """The model as nirmap records it."""
    leaves = leaves_of(model.module, model.framework, None, {})
    return record(model.module, leaves, samples=[tuple(model.sample.shape)])


def written(model: Model) -> object:
    """The model as a NIR graph."""
    return nirmap.to_nir(model.module, model.framework, sample=model.sample)


def main() -> None:
    """Prints the table, and the slope on a log-log axis."""
    console = Console()
    table = Table(
        "modules", "of", "torch.fx (s)", "recording (s)", "ratio", "to_nir (s)", "ratio", title="Tracing"
    )
    rows = [(size, "Linear") for size in SIZES] + [(2_000, kind) for kind in KINDS if kind != "Linear"]
    whole: list[float] = []
    for size, kind in rows:
        model = KINDS[kind](size)
        seconds = measured((traced, recorded, written), model, 5 if size <= 2_000 else 1)
        ratios = [f"{one / seconds[0]:.2f}" for one in seconds]
        table.add_row(
            f"{size}",
            kind,
            f"{seconds[0]:.3f}",
            f"{seconds[1]:.3f}",
            ratios[1],
            f"{seconds[2]:.3f}",
            ratios[2],
        )
        if kind == "Linear":
            whole.append(seconds[2])
    console.print(table)
    slope = np.polyfit(np.log(SIZES), np.log(whole), 1)[0]
    console.print(f"slope of to_nir on a log-log axis: {slope:.2f}")


if __name__ == "__main__":
    main()

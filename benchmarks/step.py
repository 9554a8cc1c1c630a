"""One step of a rebuilt network of 20 layers (Linear and LIF), against a hand-written loop over the same modules.

Prints the ratio, measured side by side in one process: the two are timed in turn, and the medians are compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import nir
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import nirmap
from nirmap.neuron import State

LAYERS = 10  # of Linear and LIF each
WIDTH = 64
DT = 1e-4
ROUNDS = 300
States = list[State | None]
Step = Callable[[torch.Tensor, States], tuple[torch.Tensor, States]]


def network() -> nirmap.Network:
    """A rebuilt chain of Linear and LIF nodes."""
    random = np.random.default_rng(0)
    nodes: list[nir.NIRNode] = []
    for _ in range(LAYERS):
        nodes.append(nir.Linear(random.normal(0, 0.3, (WIDTH, WIDTH)).astype(np.float32)))
        ones = np.ones(WIDTH, dtype=np.float32)
        nodes.append(nir.LIF(ones * 0.01, ones * 100, ones * 0, ones, ones * 0))
    return nirmap.from_nir(nir.NIRGraph.from_list(*nodes), dt=DT)


def hand_written(
    net: nirmap.Network,
) -> Callable[[torch.Tensor, list[State | None]], tuple[torch.Tensor, list[State | None]]]:
    """The loop that a user would write over the same modules."""
    report: nirmap.Report = net.meta["nirmap"]
    ordered = sorted(report.nodes, key=lambda name: int(name.partition("_")[2] or 0))
    linear = [
        net.get_submodule(report.identifiers[name]) for name in ordered if report.nodes[name].node == "Linear"
    ]
    lif = [
        net.get_submodule(report.identifiers[name]) for name in ordered if report.nodes[name].node == "LIF"
    ]

    def step(x: torch.Tensor, states: States) -> tuple[torch.Tensor, States]:
        new: States = []
        for weights, neuron, state in zip(linear, lif, states, strict=True):
            x, kept = neuron(weights(x), state)
            new.append(kept)
        return x, new

    return step


def main() -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    net = network()
    step = hand_written(net)
    table = Table("batch", "by hand (us)", "rebuilt (us)", "ratio", title="One step of 20 layers")
    for batch in (1, 32):
        x = torch.rand(batch, WIDTH) * 5
        state: dict[str, State] | None = None
        states: States = [None] * LAYERS
        loop: list[float] = []
        rebuilt: list[float] = []
        with torch.no_grad():
            for _ in range(ROUNDS):
                start = time.perf_counter()
                expected, states = step(x, states)
                middle = time.perf_counter()
                found, state = net(x, state)
                rebuilt.append(time.perf_counter() - middle)
                loop.append(middle - start)
                if not torch.equal(found, expected):
                    raise ValueError("the two give different spikes")
        by_hand, ours = statistics.median(loop), statistics.median(rebuilt)
        table.add_row(f"{batch}", f"{by_hand * 1e6:.0f}", f"{ours * 1e6:.0f}", f"{ours / by_hand:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()

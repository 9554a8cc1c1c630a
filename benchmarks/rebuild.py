"""Time and memory of rebuilding a chain of Linear and LIF nodes, against constructing the same modules by hand.

Prints ratios measured side by side in one process. ``nirtorch`` is measured too, at 800 nodes, since its time grows
with the cube of the graph.
"""

from __future__ import annotations

import functools
import gc
import itertools
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import nirmap
from nirmap.reference import LIF

WIDTH = 4
DT = 1e-4


def chain(nodes: int) -> nir.NIRGraph:
    """Linear and LIF nodes, alternating."""
    ones = np.ones(WIDTH, dtype=np.float32)
    weight = np.eye(WIDTH, dtype=np.float32)
    entries: dict[str, nir.NIRNode] = {"input": nir.Input({"input": np.array([WIDTH])})}
    for index in range(nodes):
        node = nir.LIF(ones * 0.01, ones, ones * 0, ones, ones * 0) if index % 2 else nir.Linear(weight)
        entries[f"node{index}"] = node
    entries["output"] = nir.Output({"output": np.array([WIDTH])})
    names = list(entries)
    return nir.NIRGraph(entries, list(itertools.pairwise(names)), type_check=False)


def by_hand(nodes: int) -> torch.nn.ModuleList:
    """The same modules, with their weights set."""
    weight = np.eye(WIDTH, dtype=np.float32)
    ones = np.ones(WIDTH, dtype=np.float32)
    modules = torch.nn.ModuleList()
    for index in range(nodes):
        if index % 2:
            tau, one, zero = torch.tensor(ones * 0.01), torch.tensor(ones), torch.tensor(ones * 0)
            modules.append(LIF(tau, one, zero, one.clone(), zero.clone(), dt=DT))
        else:
            linear = torch.nn.Linear(WIDTH, WIDTH, bias=False)
            with torch.no_grad():
                linear.weight.copy_(torch.tensor(weight))
            modules.append(linear)
    return modules


def measured(function: Callable[[], object], repeats: int) -> float:
    """Shortest time of some repetitions, in s."""
    times: list[float] = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def peak(function: Callable[[], object]) -> float:
    """Peak of the Python heap while a function runs, in MiB."""
    gc.collect()
    tracemalloc.start()
    function()
    _, high = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return high / 2**20


def main() -> None:
    """Prints the table, the ratio to nirtorch, and the slope on a log-log axis."""
    console = Console()
    table = Table("nodes", "by hand (s)", "from_nir (s)", "ratio", "peak (MiB)", title="Rebuilding a chain")
    sizes = [100, 1_000, 10_000]
    times: list[float] = []
    by_hand(10)
    nirmap.from_nir(chain(10), dt=DT)
    for size in sizes:
        graph = chain(size)
        repeats = 3 if size < 10_000 else 2
        hand = measured(functools.partial(by_hand, size), repeats)
        rebuilt = measured(functools.partial(nirmap.from_nir, graph, dt=DT), repeats)
        times.append(rebuilt)
        memory = peak(functools.partial(nirmap.from_nir, graph, dt=DT))
        table.add_row(f"{size}", f"{hand:.3f}", f"{rebuilt:.3f}", f"{rebuilt / hand:.2f}", f"{memory:.0f}")
    console.print(table)
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    console.print(f"slope on a log-log axis: {slope:.2f}")
    compare_with_nirtorch(console)


def compare_with_nirtorch(console: Console) -> None:
    """The same chain of 800 nodes in both."""
    import nirtorch

    graph = chain(800)
    ours = measured(lambda: nirmap.from_nir(graph, dt=DT), 3)

    def identity(node: nir.NIRNode) -> torch.nn.Module:
        return torch.nn.Identity()

    # nirtorch's annotation asks for nodes as keys; what it looks up are their classes.
    node_map: Any = {nir.LIF: identity}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = measured(lambda: nirtorch.nir_to_torch(graph, node_map), 1)
    console.print(f"800 nodes: nirmap {ours:.3f} s, nirtorch {theirs:.2f} s, ratio {theirs / ours:.0f}")


if __name__ == "__main__":
    main()

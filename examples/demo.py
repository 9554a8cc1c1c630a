"""The main job, start to end: a small torch network becomes a ``.nir`` file, is rebuilt in every framework, and runs.

The same input gives the same spikes everywhere; what a framework cannot express, it says.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import nir
import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

import nirmap
from nirmap.neuron import State
from nirmap.reference import LI, LIF
from nirmap.registry import frameworks

DT = 1e-3  # s
STEPS, BATCH = 200, 8

# norse compiles its functions with torch.jit.script when it is imported; that it is deprecated is not our concern here.
warnings.filterwarnings("ignore", "`torch.jit.script", FutureWarning)


class SmallNetwork(torch.nn.Module):
    """A layer of spiking neurons between two layers of weights, and a read-out."""

    def __init__(self) -> None:
        super().__init__()
        tau, r, rest, threshold = (torch.tensor(value) for value in (0.02, 1.0, 0.0, 0.1))
        self.fc1 = torch.nn.Linear(8, 16)
        self.lif = LIF(tau, r, rest, threshold, rest, dt=DT)
        self.fc2 = torch.nn.Linear(16, 4)
        self.readout = LI(tau, r, rest, dt=DT)

    def forward(
        self, x: torch.Tensor, state: tuple[State, State] | None = None
    ) -> tuple[torch.Tensor, tuple[State, State]]:
        """One time step: currents of shape (batch, 8) to voltages of shape (batch, 4)."""
        lif, readout = state or (None, None)
        spikes, lif = self.lif(self.fc1(x), lif)
        voltage, readout = self.readout(self.fc2(spikes), readout)
        return voltage, (lif, readout)


def with_spikes(graph: nir.NIRGraph) -> nir.NIRGraph:
    """The graph with a second output: the spikes of its ``lif``."""
    shape = graph.nodes["lif"].output_type["output"]
    nodes = {**graph.nodes, "spikes": nir.Output({"output": shape})}
    return nir.NIRGraph(nodes, [*graph.edges, ("lif", "spikes")])


def short(module: str) -> str:
    """The class of a dotted path."""
    return module.rpartition(".")[2]


def compare(path: Path, expected: torch.Tensor, inputs: torch.Tensor) -> Table:
    """Rebuilds the file in every framework, runs it, and counts spikes and differences."""
    table = Table("framework", "lif is a", "spikes", "other spikes", "voltages differ by", box=None)
    reference: torch.Tensor | None = None
    for framework in sorted(frameworks(), key=lambda name: (name != "torch", name)):
        # Rockpool's spiking neurons cannot be reset to a value: there the built-in module stands for the node.
        net = nirmap.from_nir(with_spikes(nir.read(path)), framework, dt=DT, fallback="torch")
        with torch.no_grad():
            outputs, _ = nirmap.run(net, inputs)
        spikes, voltages = outputs["spikes"], outputs["output"]
        reference = spikes if reference is None else reference
        table.add_row(
            framework,
            short(net.meta["nirmap"].nodes["lif"].module),
            f"{int(spikes.sum()):,}",
            f"{int((spikes != reference).sum())}",
            f"{(voltages - expected).abs().max().item():.1e} V",
        )
    return table


def refusal(graph: nir.NIRGraph) -> str:
    """What snnTorch says to a neuron whose threshold is below its reset."""
    lif = graph.nodes["lif"]
    if isinstance(lif, nir.LIF):
        lif.v_threshold[:] = -0.05
    try:
        nirmap.from_nir(graph, "snntorch", dt=DT)
    except nirmap.NirmapError as error:
        return (
            f"  found: snntorch, {error.where}, {error.found}\n  expected: {error.expected}\n  do: {error.do}"
        )
    return "  nothing: snntorch has a module for it"


def main() -> None:
    """Writes, rebuilds, runs and compares."""
    console = Console(highlight=False)
    torch.default_generator.manual_seed(0)
    model = SmallNetwork()
    inputs = 2 * torch.rand(STEPS, BATCH, 8)
    with torch.no_grad():
        expected, _ = nirmap.run(model, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.nir"
        graph = nirmap.to_nir(model, dt=DT, path=path)
        console.print(f"\n[bold]written[/]  {path.name}: {path.stat().st_size:,} bytes")
        for name, node in graph.nodes.items():
            after = ", ".join(target for source, target in graph.edges if source == name)
            console.print(Text(f"  {name:8} nir.{type(node).__name__:7}" + (f"-> {after}" if after else "")))
        with console.status("Importing the frameworks, rebuilding and running"):
            table = compare(path, expected, inputs)
        console.print(f"\n[bold]rebuilt and run[/]  {STEPS} steps of {DT:g} s, {BATCH} inputs side by side")
        console.print(table)
    console.print("\n[bold]refused[/]  the same network, with a threshold of -0.05 V")
    console.print(Text(refusal(graph)))


if __name__ == "__main__":
    main()

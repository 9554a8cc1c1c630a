"""The main job, start to end: a small torch network becomes a ``.nir`` file, is rebuilt, and runs.

The network's spiking layer is then rebuilt a second time with another framework, if that is installed, and gives the
same spikes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from rich.console import Console

import nirmap
from nirmap.reference import LI, LIF

DT = 1e-3  # s
STEPS = 100


class SmallNetwork(torch.nn.Module):
    """Two spiking layers and a read-out; one call of ``forward`` is one time step."""

    def __init__(self) -> None:
        super().__init__()
        tau, r, zero = torch.tensor(0.02), torch.tensor(1.0), torch.tensor(0.0)
        self.fc1 = torch.nn.Linear(8, 16)
        self.lif1 = LIF(tau, r, zero, torch.tensor(0.1), zero, dt=DT)
        self.fc2 = torch.nn.Linear(16, 4)
        self.readout = LI(tau, r, zero, dt=DT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Currents of shape (batch, 8) to voltages of shape (batch, 4)."""
        spikes, _ = self.lif1(self.fc1(x))
        voltage, _ = self.readout(self.fc2(spikes))
        return voltage


def main() -> None:
    """Writes, rebuilds, runs and compares."""
    console = Console()
    torch.manual_seed(0)
    inputs = torch.rand(STEPS, 1, 8) * 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.nir"
        graph = nirmap.to_nir(SmallNetwork(), dt=DT, path=path)
        console.print(f"written: {path.name}, {len(graph.nodes)} nodes, {len(graph.edges)} edges")
        reference = nirmap.from_nir(path, dt=DT)
        voltages, state = nirmap.run(reference, inputs)
        console.print(f"rebuilt with torch: output {tuple(voltages.shape)}, state {sorted(state)}")
        for framework in ("norse", "snntorch"):
            try:
                net = nirmap.from_nir(path, framework, dt=DT)
            except nirmap.MappingError as error:
                console.print(f"{framework}: {error.found}")
                continue
            others, _ = nirmap.run(net, inputs)
            difference = (others - voltages).abs().max().item()
            console.print(f"rebuilt with {framework}: largest difference of the voltages {difference:.1e} V")


if __name__ == "__main__":
    main()

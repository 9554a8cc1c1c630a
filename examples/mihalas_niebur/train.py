"""Trains a network of the package's neurons to tell which half of its inputs is the stronger one, and writes it."""

from __future__ import annotations

import sys
from typing import Any

import nir
import numpy as np
import torch
from mihalas_niebur import MihalasNiebur

import nirmap

DT = 1e-3  # s
STEPS, BATCH, INPUTS, HIDDEN = 40, 32, 8, 16


def network() -> nir.NIRGraph:
    """Currents to neurons, and the sums of their spikes for each of two classes."""
    generator = np.random.default_rng(0)
    weight = generator.normal(0.01, 0.02, (HIDDEN, INPUTS))
    return nir.NIRGraph(
        nodes={
            "input": nir.Input({"input": np.array([INPUTS])}),
            "fc1": nir.Affine(weight, np.zeros(HIDDEN)),
            "neurons": MihalasNiebur(tau=np.full(HIDDEN, 0.01)),
            "fc2": nir.Affine(generator.normal(0, 0.5, (2, HIDDEN)), np.zeros(2)),
            "output": nir.Output({"output": np.array([2])}),
        },
        edges=[("input", "fc1"), ("fc1", "neurons"), ("neurons", "fc2"), ("fc2", "output")],
    )


def samples(generator: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs of shape (STEPS, BATCH, INPUTS), noisy and held, and the half that is stronger, of shape (BATCH,)."""
    label = generator.integers(0, 2, BATCH)
    strength = np.where(np.arange(INPUTS) // (INPUTS // 2) == label[:, None], 1.0, 0.5)
    noise = generator.normal(1.0, 0.3, (STEPS, BATCH, INPUTS))
    return torch.as_tensor(strength * noise, dtype=torch.float32), torch.as_tensor(label)


def main(path: str) -> None:
    """Trains for some steps, says how the loss falls, and writes the network."""
    generator = np.random.default_rng(1)
    net = nirmap.from_nir(network(), dt=DT)
    print("neuron:", net.meta["nirmap"].nodes["neurons"].module)
    optimizer: Any = torch.optim.Adam(net.parameters(), lr=0.003)
    for step in range(16):
        xs, label = samples(generator)
        outputs, _ = nirmap.run(net, xs)
        loss: Any = torch.nn.functional.cross_entropy(outputs.mean(dim=0) * 3, label)
        optimizer.zero_grad()
        loss.backward()  # through the spikes, by a surrogate gradient
        optimizer.step()
        if step % 5 == 0:
            right = (outputs.mean(dim=0).argmax(dim=1) == label).float().mean()
            print(f"step {step:2}: loss {loss.item():.3f}, right {right.item():.0%}")
    nirmap.to_nir(net, path=path)
    print("written:", path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "trained.nir")

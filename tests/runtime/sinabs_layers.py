"""Nodes and layers for the tests of sinabs, and sinabs's own way to run a layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import sinabs.activation
import sinabs.layers
import torch

DT = 1e-3
WIDTH = 5
# sinabs publishes no types.
sa: Any = sinabs.activation
sl: Any = sinabs.layers
SINGLE: dict[str, Any] = {"spike_fn": sa.SingleSpike, "reset_fn": sa.MembraneReset()}
Tensor = torch.Tensor
Random = np.random.Generator


def drawn(random: Random, low: float, high: float) -> Any:
    """One number per neuron."""
    return random.uniform(low, high, WIDTH)


def sequence(
    steps: int, batch: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Numbers around 0.7, some of them negative: (time, batch, *shape)."""
    return torch.tensor(np.random.default_rng(seed).uniform(-0.6, 2.0, (steps, batch, *shape)), dtype=dtype)


def by_sinabs(module: Any, xs: Tensor) -> Tensor:
    """What a layer gives for a whole sequence in one call, as sinabs means it: time is the second axis, or folded."""
    module.reset_states()
    batch_first: Any = xs.transpose(0, 1)
    with torch.no_grad():
        if isinstance(module, sl.SqueezeMixin):
            out = module(batch_first.flatten(0, 1)).unflatten(0, batch_first.shape[:2])
        else:
            out = module(batch_first)
    result: Tensor = out.transpose(0, 1)
    return result


def lif(random: Random, *, any_reset: bool = False, fast: bool = False) -> dict[str, Any]:
    rest = drawn(random, -0.3, 0.3)
    tau = DT * drawn(random, 4, 20)
    if fast:
        tau[:2] = [0.7 * DT, DT]
    return {
        "tau": tau,
        "r": drawn(random, 1, 3),
        "v_leak": rest,
        "v_threshold": rest + drawn(random, 0.3, 0.8),
        "v_reset": drawn(random, -0.5, 0.2) if any_reset else rest,
    }


def cuba(random: Random, **settings: bool) -> dict[str, Any]:
    values = lif(random, **settings)
    tau_mem = values.pop("tau")
    low = 1.2 if settings.get("fast") else 3
    return {
        **values,
        "tau_mem": tau_mem,
        "tau_syn": DT * drawn(random, low, 8),
        "w_in": drawn(random, 1.5, 2.5),
    }


def without_spikes(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in ("v_threshold", "v_reset")}

"""What a simulation is given, as float64 arrays by the names of the Input nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import nir
import numpy as np

from nirmap.oracle.spatial import Array


def streams(nodes: Mapping[str, nir.Input], inputs: Mapping[str, Any] | Any) -> dict[str, Array]:
    """The inputs by name, checked for their names, their shapes, and one T and B for all.

    Args:
        nodes: the Input nodes by name.
        inputs: for each an array (T, B, *shape); the array alone where there is one.

    Raises:
        ValueError: names or shapes are others.
    """
    if isinstance(inputs, Mapping):
        given = cast("Mapping[str, Any]", inputs)
    elif len(nodes) == 1:
        given = dict.fromkeys(nodes, inputs)
    else:
        raise ValueError(f"a single array cannot feed the inputs {sorted(nodes)}: give a dict")
    if set(given) != set(nodes):
        raise ValueError(f"inputs {sorted(given)} given, the graph has {sorted(nodes)}")
    arrays = {name: float64(value) for name, value in given.items()}
    for name, array in arrays.items():
        declared: Any = nodes[name].input_type["input"]
        if declared is not None and array.shape[2:] != tuple(int(size) for size in declared):
            raise ValueError(
                f"input {name!r} has shape (T, B, *{array.shape[2:]}), declared is {tuple(declared)}"
            )
    if len({array.shape[:2] for array in arrays.values()}) != 1 or not len(next(iter(arrays.values()))):
        raise ValueError("inputs must have one common number of steps, at least 1, and one batch size")
    return arrays


def float64(value: Any) -> Array:
    """A float64 copy of a number, a sequence, an array or a tensor."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.array(value, dtype=np.float64)

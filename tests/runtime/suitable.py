"""Nodes that a row of a registry can stand for, so that a new framework is tested as soon as it has a registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import nir
import numpy as np
import torch

from nirmap.building import Builder, node_values
from nirmap.extension import ExtensionNode
from nirmap.registry import frameworks, load_registry
from nirmap.resets import RESET_KEY
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Placement, Primitive, Row

DT = 1e-4
NEURONS = 4
FRAMEWORKS = sorted(frameworks())

Array = np.ndarray[Any, Any]

# What is drawn for each parameter: between these numbers, per neuron. With an input between 0 and 2 every neuron fires.
_RANGES = {
    "tau": (5e-4, 1e-3),
    "tau_syn": (4e-4, 8e-4),
    "tau_mem": (5e-4, 1e-3),
    "r": (1.5, 2.5),
    "v_leak": (0.05, 0.3),
    "v_threshold": (0.5, 0.8),
    "v_reset": (-0.3, 0.2),
    "w_in": (1.2, 2.0),
    "threshold": (0.5, 1.5),
    "scale": (0.5, 1.5),
}


# The time constants above are so much shorter than those of the extensions' defaults.
_FASTER = 10


def is_extension(primitive: Primitive) -> bool:
    """Whether NIR itself does not have it."""
    return issubclass(primitive.node, ExtensionNode)


def extension_values(
    primitive: Primitive, random: np.random.Generator, neurons: int = NEURONS
) -> dict[str, Array]:
    """About the typical values, in faster time, with an input between 0 and 2 in the place of the typical one."""
    defaults = cast("type[ExtensionNode]", primitive.node).defaults
    values = {name: value * random.uniform(0.97, 1.03, neurons) for name, value in defaults.items()}
    for parameter in primitive.declared:
        if parameter.unit in ("s", "1/s"):
            values[parameter.name] *= 1 / _FASTER if parameter.unit == "s" else _FASTER
    if "r" in values and primitive.typical_input is not None:
        values["r"] *= primitive.typical_input[1] / 2
    return values


def _drawn(kind: str, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    if is_extension(PRIMITIVES[kind]):
        return extension_values(PRIMITIVES[kind], random)
    for parameter in PRIMITIVES[kind].declared:
        if parameter.whole_steps:
            values[parameter.name] = DT * random.permutation(NEURONS)
        else:
            values[parameter.name] = random.uniform(*_RANGES[parameter.name], NEURONS)
    if kind in ("I", "IF"):
        values["r"] = values["r"] / (10 * DT)
    return values


def _variants(values: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """The drawn parameters, and then with less and less freedom, for what a framework cannot express."""
    yield dict(values)
    if "v_reset" in values:
        reset = values.get("v_leak", np.zeros(NEURONS))
        yield {**values, "v_reset": reset}
        yield {**values, "v_reset": np.zeros(NEURONS), "v_leak": np.zeros(NEURONS)}
    yield {name: np.full(NEURONS, value[0]) for name, value in values.items()}


def suitable_node(row: Row, seed: int = 0) -> Any:
    """A neuron, with parameters as general as the row allows: per neuron, and none that vanishes."""
    for values in _variants(_drawn(row.node, seed)):
        known = {
            name: values[name] for name in values if name in {p.name for p in PRIMITIVES[row.node].declared}
        }
        node = PRIMITIVES[row.node].node(**known)
        if row.reset != "value":
            node.metadata[RESET_KEY] = row.reset
        if all(entry.holds(node_values(node, PRIMITIVES[row.node], "node"), DT) for entry in row.requires):
            return node
    raise AssertionError(f"no node suits {row.path} ({row.source}): add a variant to {__name__}")


def build(
    framework: str, row: Row, node: Any, dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> Any:
    """The module that stands for a node by exactly this row."""
    registry = replace(load_registry(framework), rows=(row,))
    placement = Placement(dtype, torch.device(device))
    return Builder(registry, DT, placement, reset=row.reset).build(node, "node 'n'").module


def elementwise_rows(framework: str) -> list[Row]:
    """The first row of each primitive of NIR that acts on each neuron alone."""
    rows: dict[str, Row] = {}
    for row in load_registry(framework).rows:
        if hasattr(nir, row.node) and PRIMITIVES[row.node].shape == "elementwise" and row.build is not None:
            rows.setdefault(row.node, row)
    return list(rows.values())


def stateful_rows() -> list[tuple[str, Row]]:
    """Every row from which a stateful module is built, with its framework."""
    return [
        (framework, row)
        for framework in FRAMEWORKS
        for row in load_registry(framework).rows
        if PRIMITIVES[row.node].stateful and row.build is not None
    ]


def weight(rows: int = NEURONS, columns: int = NEURONS, seed: int = 0, level: float = 0.5) -> Array:
    """Weights whose rows sum to 2 ``level``, so that what comes after fires."""
    drawn = np.random.default_rng(seed).uniform(0.2, 1.0, (rows, columns))
    return np.asarray(2 * level * drawn / drawn.sum(axis=1, keepdims=True))


def inputs(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Numbers between 0 and 2."""
    return torch.tensor(np.random.default_rng(seed).uniform(0.0, 2.0, shape), dtype=dtype)


# torch leaves parts of its interface without types; what goes through these functions is Any on purpose.


def backward(value: Any) -> None:
    """Gradients of a value, or of the sum of its entries, in the leaves that it depends on."""
    value.sum().backward()


def numbers(value: Any) -> Any:
    """The entries of a tensor as nested lists."""
    return value.tolist()


def leaves(state: Any) -> list[torch.Tensor]:
    """All tensors of a state."""
    if isinstance(state, dict):
        entries = cast("dict[str, Any]", state)
        return [leaf for entry in entries.values() for leaf in leaves(entry)]
    return [state]


def same_state(first: Any, second: Any) -> bool:
    """Whether two states are the same, bit by bit, dtypes included."""
    if isinstance(first, dict):
        entries = cast("dict[str, Any]", first)
        return entries.keys() == second.keys() and all(
            same_state(entry, second[name]) for name, entry in entries.items()
        )
    return bool(first.dtype == second.dtype and torch.equal(first, second))

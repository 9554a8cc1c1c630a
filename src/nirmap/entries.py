"""A node whose parameters are known, and the making of it once its shape is known too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import nir
import numpy as np

from nirmap.errors import GraphError, TraceError
from nirmap_registry import rows
from nirmap_registry.rows import Primitive, Values

Shape = tuple[int, ...]


@dataclass
class Entry:
    """A node whose parameters are known, while its shape is not yet."""

    primitive: Primitive
    values: Values
    where: str
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


def node_of(entry: Entry, before: Shape | None, after: Shape | None) -> nir.NIRNode:
    """The node of an entry; parameters of neurons are broadcast to the layer's shape where that is known."""
    values: dict[str, Any] = {}
    neurons = [parameter.name for parameter in entry.primitive.declared if parameter.kind == "neuron"]
    arrays = {name: rows.array(entry.values[name]) for name in neurons}
    common = after if after is not None else _own_shape(arrays, entry.where)
    for parameter in entry.primitive.parameters:
        name = parameter.name
        if parameter.kind == "neuron":
            values[name] = _broadcast(arrays[name], common, name, entry.where)
        elif parameter.kind == "integers":
            entries = rows.integers(entry.values[name])
            values[name] = (
                entries[0] if parameter.axes == 1 else np.array(entries * (parameter.axes // len(entries)))
            )
        elif parameter.kind == "padding":
            padding = entry.values[name]
            values[name] = padding if isinstance(padding, str) else _padding(padding, parameter.axes)
        elif parameter.kind == "weight":
            values[name] = rows.weight(entry.values[name])
        elif parameter.kind != "shape":
            values[name] = int(entry.values[name])
    if entry.primitive.shape == "convolution":
        # Also for grouped convolutions, although nir then mistakes their channels: it cannot write a file without it.
        spatial = None if before is None else before[1:]
        values["input_shape"] = spatial[0] if spatial is not None and len(spatial) == 1 else spatial
    if entry.primitive.shape == "flatten":
        values["input_type"] = {"input": None if before is None else np.array(before)}
    kind: Any = entry.primitive.node
    node: nir.NIRNode = kind(**values, metadata=entry.metadata)
    return node


def check_expected(expected: tuple[int | None, ...] | None, found: Shape, where: str) -> None:
    """Holds the shape of a node against the one that a view was written for.

    Raises:
        TraceError: they differ.
    """
    if expected is None:
        return
    is_alike = len(expected) == len(found) and all(
        one in (None, other) for one, other in zip(expected, found, strict=True)
    )
    if not is_alike:
        shown = ", ".join("-1" if one is None else str(one) for one in expected)
        raise TraceError(
            where,
            f"a view of the shape (batch, {shown}) of what is {found} when it is flattened",
            "a view that keeps the batch and joins the axes behind it",
            "use torch.flatten(x, 1); NIR has no node for other views",
        )


def check_constants(met: Iterable[tuple[str, Shape, str]], outputs: Mapping[str, Shape | None]) -> None:
    """Holds the shapes of constants against those of the outputs that they are added to or multiplied by.

    Args:
        met: the node, the shape of the constant, and where they meet.
        outputs: the shape of each node's output, without batch.

    Raises:
        TraceError: torch would stretch the output to the shape of the constant.
    """
    for name, shape, where in met:
        after = outputs.get(name)
        if after is None:
            continue
        is_longer = len(shape) > len(after) + 1
        if is_longer or any(one not in (1, own) for one, own in zip(shape[::-1], after[::-1], strict=False)):
            raise TraceError(
                where,
                f"a constant of the shape {shape} with a signal of the shape (batch, {', '.join(map(str, after))})",
                "a constant that leaves the signal its shape",
                "reshape the constant to the shape of the signal without its batch",
            )


def keeps_zeros(entry: Entry) -> bool:
    """Whether a node has no state, and gives zeros for zeros."""
    if entry.primitive.name == "Threshold":
        return not bool((rows.array(entry.values["threshold"]) < 0).any())
    return not entry.primitive.stateful and not rows.array(entry.values.get("bias", 0.0)).any()


def _own_shape(arrays: Mapping[str, np.ndarray[Any, Any]], where: str) -> Shape:
    """The shape that the parameters of a neuron have by themselves; () where an axis of 1 may be stretched."""
    try:
        common = np.broadcast_shapes(*(value.shape for value in arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in arrays.items())
        raise GraphError(where, f"parameters of the shapes {shapes}", "shapes that fit together") from error
    return () if 1 in common else common


def _padding(value: Any, axes: int) -> Any:
    entries = rows.integers(value)
    return entries[0] if axes == 1 else entries * (axes // len(entries))


def _broadcast(value: np.ndarray[Any, Any], shape: Shape, name: str, where: str) -> np.ndarray[Any, Any]:
    one = value
    while one.ndim > len(shape) and one.shape[0] == 1:  # torch stretches leading axes of 1 over the batch
        one = one[0]
    if shape == () and one.ndim:
        return np.array(one.reshape(-1)[0])  # a stand-in, since the shape comes from the layer
    try:
        return np.broadcast_to(one, shape).copy()
    except ValueError as error:
        raise GraphError(
            where, f"{name} of shape {value.shape}", f"the layer's shape {shape}, or a single number"
        ) from error

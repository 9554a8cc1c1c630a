"""Drawn chains of convolution, pooling and flattening, with every option that NIR has for them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import nir
import numpy as np
from hypothesis import strategies as st

from oracle.building import chain
from oracle.parameters import NEURONS, Settings, generators, neuron, node, output_level, weights

IMAGE = frozenset({"Conv1d", "Conv2d", "SumPool2d", "AvgPool2d", "Flatten"})
"""The primitives on images, as the names of their classes in `nir`."""

_ONE_DIMENSIONAL = frozenset({"Conv1d"})


@st.composite
def image_graphs(
    draw: st.DrawFn,
    *,
    primitives: Collection[str] = IMAGE,
    neurons: Collection[str] = NEURONS,
    layers: tuple[int, int] = (1, 3),
    settings: Settings | None = None,
) -> nir.NIRGraph:
    """Chains of layers on (channels, length) or (channels, height, width), neurons between them, maybe flattened.

    They are built with ``type_check=False``: `nir` takes the first side of a kernel for both, and ignores groups.

    Args:
        draw: given by hypothesis.
        primitives: which of IMAGE may occur; after a Flatten of all axes a Linear may follow.
        neurons: which of NEURONS may occur; none if empty.
        layers: smallest and largest number of convolutions and pools.
        settings: time step, fixed parameters, dtype.

    Raises:
        ValueError: a name is not one of IMAGE, or none is left.
    """
    if not primitives or set(primitives) - IMAGE:
        raise ValueError(f"primitives {sorted(primitives)} must be some of {sorted(IMAGE)}")
    settings = settings or Settings()
    layered = sorted(set(primitives) - {"Flatten"})
    leading = draw(st.sampled_from(layered)) if layered else "Flatten"
    rank = 1 if leading in _ONE_DIMENSIONAL else 2
    kind = [primitive for primitive in layered if (primitive in _ONE_DIMENSIONAL) == (rank == 1)]
    shape = (draw(st.integers(1, 4)), *(draw(st.integers(5, 9)) for _ in range(rank)))
    first = shape
    nodes: list[nir.NIRNode] = []
    level = 1.0
    for _ in range(draw(st.integers(*layers)) if kind else 0):
        layer, shape, level = draw(_layer(draw(st.sampled_from(kind)), shape, level, settings))
        nodes.append(layer)
        followed = draw(st.booleans())
        if neurons and followed:
            between = draw(st.sampled_from(sorted(neurons)))
            nodes.append(draw(neuron(between, shape, level=level, settings=settings)))
            level = output_level(between, level)
    if "Flatten" in primitives and (not kind or draw(st.booleans())):
        layer, shape = draw(_flatten(shape))
        nodes.append(layer)
        if len(shape) == 1 and draw(st.booleans()):
            nodes.append(draw(node("Linear", (3, shape[0]), level=level, settings=settings)))
            shape = (3,)
    return chain(nodes, first, shape)


@st.composite
def _layer(
    draw: st.DrawFn, primitive: str, shape: tuple[int, ...], level: float, settings: Settings
) -> tuple[nir.NIRNode, tuple[int, ...], float]:
    """A convolution or pool on ``shape``, with the shape and level of its output."""
    if primitive in ("SumPool2d", "AvgPool2d"):
        return draw(_pool(primitive, shape, level))
    space, rank = shape[1:], len(shape) - 1
    kernel = [draw(st.integers(1, min(3, size))) for size in space]
    dilation = [
        draw(st.integers(1, 2 if 2 * (k - 1) < size else 1)) for k, size in zip(kernel, space, strict=True)
    ]
    stride = [draw(st.integers(1, 3)) for _ in space]
    padding: Any = draw(st.sampled_from(["same", "valid", "numbers"]))
    before_and_after = [0] * rank
    if padding == "same":
        stride = [1] * rank
        before_and_after = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    elif padding == "numbers":
        margins = [draw(st.integers(0, 2)) for _ in space]
        before_and_after = [2 * margin for margin in margins]
        padding = draw(_spelled(margins))
    groups = draw(st.sampled_from([count for count in range(1, shape[0] + 1) if shape[0] % count == 0]))
    channels = groups * draw(st.integers(1, 2))
    fan_in = shape[0] // groups
    random = draw(generators())
    weight = weights(random, (channels, fan_in * int(np.prod(kernel))), level).reshape(
        channels, fan_in, *kernel
    )
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    after = _places(space, before_and_after, extents, stride)
    known: Any = None
    if draw(st.booleans()):
        known = space[0] if rank == 1 else space
    arguments: dict[str, Any] = {
        "input_shape": known,
        "weight": weight.astype(settings.dtype),
        "stride": draw(_spelled(stride)),
        "padding": padding,
        "dilation": draw(_spelled(dilation)),
        "groups": groups,
        "bias": random.uniform(-0.2, 0.4, channels).astype(settings.dtype),
    }
    return getattr(nir, primitive)(**arguments), (channels, *after), 1.0


@st.composite
def _pool(
    draw: st.DrawFn, primitive: str, shape: tuple[int, ...], level: float
) -> tuple[nir.NIRNode, tuple[int, ...], float]:
    space = shape[1:]
    kernel = [draw(st.integers(1, min(3, size))) for size in space]
    stride = [draw(st.integers(1, 3)) for _ in space]
    # Torch allows padding up to half the kernel; more would make windows of padding alone.
    padding = [draw(st.integers(0, k // 2)) for k in kernel]
    layer = getattr(nir, primitive)(np.array(kernel), np.array(stride), np.array(padding))
    after = _places(space, [2 * margin for margin in padding], kernel, stride)
    area = float(np.prod(kernel)) if primitive == "SumPool2d" else 1.0
    return layer, (shape[0], *after), level * area


@st.composite
def _flatten(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[nir.NIRNode, tuple[int, ...]]:
    """A Flatten of some axes, counted from the front or from the back."""
    rank = len(shape)
    start = draw(st.integers(0, rank - 1))
    end = draw(st.integers(start, rank - 1))
    joined = (*shape[:start], int(np.prod(shape[start : end + 1])), *shape[end + 1 :])
    end = draw(st.sampled_from([end, end - rank]))
    start = draw(st.sampled_from([start, start - rank]))
    return nir.Flatten({"input": np.array(shape)}, start, end), joined


@st.composite
def _spelled(draw: st.DrawFn, numbers: list[int]) -> Any:
    """One of the ways to write a number per axis: an integer where they are equal, a tuple, or an array."""
    if len(numbers) == 1:
        return numbers[0]
    ways: list[Any] = [tuple(numbers), np.array(numbers)]
    if len(set(numbers)) == 1:
        ways.insert(0, numbers[0])
    return draw(st.sampled_from(ways))


def _places(space: tuple[int, ...], padding: list[int], extents: list[int], stride: list[int]) -> list[int]:
    """The number of places of a kernel of these extents along each axis; ``padding`` is that of both ends together."""
    return [
        (size + around - extent) // step + 1
        for size, around, extent, step in zip(space, padding, extents, stride, strict=True)
    ]

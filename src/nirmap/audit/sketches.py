"""What a draw is made from, and the sketches of the layers: matrices, convolutions, pooling and flattening."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import nir
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Values = dict[str, Any]
Random = np.random.Generator

DT = 1e-3


@dataclass(frozen=True)
class Sketch:
    """What a draw is made from: a node and the shape of its input."""

    node: nir.NIRNode
    shape: tuple[int, ...]
    dt: float = DT
    whole_numbers: bool = False
    typical_input: tuple[float, float] = (0.0, 2.0)


Maker = Callable[[Random], Sketch]


def weights(random: Random, shape: tuple[int, ...]) -> Array:
    """Weights of both signs whose rows (the last axis) sum to about 1."""
    drawn: Array = random.uniform(-0.4, 1.0, shape)
    scaled: Array = drawn / np.maximum(drawn.sum(axis=-1, keepdims=True), 0.5)
    return scaled


def _layer(primitive: str) -> Iterator[tuple[str, Maker]]:
    def maker(shape: tuple[int, ...]) -> Maker:
        def make(random: Random) -> Sketch:
            values: Values = {"weight": weights(random, shape)}
            if primitive == "Affine":
                values["bias"] = random.uniform(-0.2, 0.4, shape[:-1])
            return Sketch(getattr(nir, primitive)(**values), (*shape[:-2], shape[-1]))

        return make

    yield "a matrix", maker((3, 4))
    yield "a single weight", maker((1, 1))
    yield "several matrices", maker((2, 3, 4))


def _convolution(primitive: str) -> Iterator[tuple[str, Maker]]:
    axes = 1 if primitive == "Conv1d" else 2
    space, kernel = (7, 8)[:axes], (3, 2)[:axes]

    def maker(padding: Any, stride: int, dilation: int, groups: int) -> Maker:
        def make(random: Random) -> Sketch:
            weight = weights(random, (6, 4 // groups, *kernel))
            bias = random.uniform(-0.2, 0.4, 6)

            def per_axis(number: int) -> Any:
                return number if axes == 1 else (number,) * axes

            node = getattr(nir, primitive)(
                input_shape=space[0] if axes == 1 else space,
                weight=weight,
                stride=per_axis(stride),
                padding=padding if isinstance(padding, str) else per_axis(padding),
                dilation=per_axis(dilation),
                groups=groups,
                bias=bias,
            )
            return Sketch(node, (4, *space))

        return make

    yield "stride, padding, dilation and groups", maker(1, 2, 2, 2)
    yield "padding 'same'", maker("same", 1, 2, 1)
    yield "padding 'valid'", maker("valid", 1, 1, 1)


def _pool(primitive: str) -> Iterator[tuple[str, Maker]]:
    def maker(kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> Maker:
        node = getattr(nir, primitive)(np.array(kernel), np.array(stride), np.array(padding))
        return lambda random: Sketch(node, (2, 7, 8))

    yield "windows that overlap, with padding", maker((3, 2), (2, 1), (1, 0))
    yield "windows side by side", maker((2, 2), (2, 2), (0, 0))


def _flatten() -> Iterator[tuple[str, Maker]]:
    def maker(start: int, end: int) -> Maker:
        shape = (2, 3, 4)
        return lambda random: Sketch(nir.Flatten({"input": np.array(shape)}, start, end), shape)

    yield "all axes", maker(0, -1)
    yield "the first two axes", maker(0, 1)
    yield "the last two axes", maker(-2, -1)


SPATIAL: Mapping[str, Callable[[], Iterator[tuple[str, Maker]]]] = {
    "Linear": lambda: _layer("Linear"),
    "Affine": lambda: _layer("Affine"),
    "Conv1d": lambda: _convolution("Conv1d"),
    "Conv2d": lambda: _convolution("Conv2d"),
    "SumPool2d": lambda: _pool("SumPool2d"),
    "AvgPool2d": lambda: _pool("AvgPool2d"),
    "Flatten": _flatten,
}

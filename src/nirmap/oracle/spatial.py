"""Convolution, pooling and flattening in NumPy float64, written as sums over the positions of the kernel.

Every array has one leading batch axis. Two-dimensional and one-dimensional layers go the same way: the number of
spatial axes is that of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def convolve(
    x: Array, weight: Array, bias: Array, stride: Any, padding: Any, dilation: Any, groups: int
) -> Array:
    """Cross-correlation of ``x`` (B, C_in, *space) with ``weight`` (C_out, C_in / groups, *kernel), plus the bias.

    ``padding`` is 'valid', 'same' (the odd cell goes to the end, stride must be 1), or a number per spatial axis.

    Raises:
        ValueError: the channels do not fit the weight and the groups, or 'same' comes with a stride.
    """
    rank = weight.ndim - 2
    kernel = weight.shape[2:]
    strides, dilations = per_axis(stride, rank), per_axis(dilation, rank)
    channels_out, channels_in = weight.shape[0], weight.shape[1]
    if x.ndim != rank + 2 or x.shape[1] != channels_in * groups or channels_out % groups:
        raise ValueError(f"input {x.shape[1:]} does not fit weight {weight.shape} in {groups} groups")
    padded = np.pad(x, [(0, 0), (0, 0), *_margins(padding, kernel, strides, dilations)])
    grouped = padded.reshape(len(x), groups, channels_in, *padded.shape[2:])
    weights = weight.reshape(groups, channels_out // groups, channels_in, *kernel)
    total: Any = 0.0
    for position, window in _windows(grouped, kernel, strides, dilations):
        index: tuple[Any, ...] = (Ellipsis, *position)
        at_position: Any = weights[index]
        total = total + np.einsum("goc,bgc...->bgo...", at_position, window)
    result: Array = total.reshape(len(x), channels_out, *total.shape[3:]) + bias.reshape(
        channels_out, *[1] * rank
    )
    return result


def sum_pool(x: Array, kernel_size: Any, stride: Any, padding: Any) -> Array:
    """Sums over windows of ``x`` (B, C, H, W), padded with zeros."""
    kernel = per_axis(kernel_size, 2)
    padded = np.pad(x, [(0, 0), (0, 0), *((size, size) for size in per_axis(padding, 2))])
    total: Any = 0.0
    for _, window in _windows(padded, kernel, per_axis(stride, 2), (1, 1)):
        total = total + window
    result: Array = total
    return result


def average_pool(x: Array, kernel_size: Any, stride: Any, padding: Any) -> Array:
    """Means over windows of ``x`` (B, C, H, W); the padding counts, so the divisor is the size of the kernel."""
    return sum_pool(x, kernel_size, stride, padding) / np.prod(per_axis(kernel_size, 2))


def flatten(x: Array, start_dim: int, end_dim: int) -> Array:
    """Join the axes ``start_dim`` to ``end_dim`` of ``x`` (B, *shape); both count within ``shape``."""
    shape = x.shape[1:]
    start, end = start_dim % len(shape), end_dim % len(shape)
    if start > end:
        raise ValueError(f"cannot flatten axes {start_dim} to {end_dim} of shape {shape}")
    joined = int(np.prod(shape[start : end + 1]))
    return x.reshape(len(x), *shape[:start], joined, *shape[end + 1 :])


def per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """One integer per spatial axis, from an integer, a sequence or an array of one or ``rank`` integers."""
    numbers = [int(number) for number in np.asarray(value).reshape(-1)]
    if len(numbers) == 1:
        numbers = numbers * rank
    if len(numbers) != rank:
        raise ValueError(f"{value!r} does not give {rank} numbers")
    return tuple(numbers)


def _margins(
    padding: Any, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Zeros before and after each spatial axis."""
    if isinstance(padding, str) and padding == "valid":
        return [(0, 0)] * len(kernel)
    if isinstance(padding, str) and padding == "same":
        if any(step != 1 for step in strides):
            raise ValueError(f"padding 'same' has no meaning with stride {strides}")
        totals = [dilation * (size - 1) for size, dilation in zip(kernel, dilations, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    return [(size, size) for size in per_axis(padding, len(kernel))]


def _windows(
    padded: Array, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each position in the kernel: the part of ``padded`` that it meets, over all places of the kernel."""
    space = padded.shape[-len(kernel) :]
    reach = [dilation * (size - 1) + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    if any(extent < size for extent, size in zip(space, reach, strict=True)):
        raise ValueError(f"kernel of extent {reach} is larger than the padded input {space}")
    counts = [(extent - size) // step + 1 for extent, size, step in zip(space, reach, strides, strict=True)]
    for position in product(*(range(size) for size in kernel)):
        starts = [offset * dilation for offset, dilation in zip(position, dilations, strict=True)]
        slices: list[Any] = [
            slice(start, start + step * (count - 1) + 1, step)
            for start, step, count in zip(starts, strides, counts, strict=True)
        ]
        yield position, padded[(Ellipsis, *slices)]

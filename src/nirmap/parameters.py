"""The parameters of NIR nodes in one form each, whatever they are written as.

A parameter may be a Python number, a tuple or list, a NumPy scalar or array, or a torch tensor on any device. What
comes out is a NumPy array of its own memory, a tuple of integers, or a word. Torch is not imported: a tensor is known
by its methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import nir
import numpy as np
import numpy.typing as npt

from nirmap.errors import GraphError

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

PADDING_MODES = ("same", "valid")
_KINDS = {
    "O": "object",
    "c": "complex",
    "b": "bool",
    "U": "str",
    "S": "bytes",
    "V": "void",
    "M": "date",
    "m": "time",
}
_INT64 = np.iinfo(np.int64)


def as_array(
    value: object,
    *,
    where: str,
    parameter: str,
    dtype: npt.DTypeLike | None = np.float64,
    copy: bool = True,
) -> npt.NDArray[Any]:
    """A parameter as a new NumPy array: contiguous, in the machine's byte order, writeable.

    Args:
        value: a number, a tuple or list of numbers, a NumPy scalar or array, or a torch tensor.
        where: the node, for the error.
        parameter: name of the parameter, for the error.
        dtype: dtype of the result; None keeps the value's own (bfloat16 and narrower become float32, what is wider
            than float64 becomes float64).
        copy: whether the result is always new; otherwise it may be the value itself, and is for reading only.

    Returns:
        An array of the value's shape that shares no memory with it, unless ``copy`` is False.

    Raises:
        GraphError: the value is no array of real numbers (it is an object, complex, a truth value or text, or ragged),
            or it holds a NaN or an infinity, or does so in the wanted dtype.
    """
    source = _as_numpy(value, where, parameter)
    if source.dtype.kind not in "fiu":
        kind = _KINDS.get(source.dtype.kind, source.dtype.name)
        raise GraphError(
            where,
            f"{parameter} is a {type(value).__name__} of {kind} values",
            "real numbers",
            f"give {parameter} as floats or integers",
        )
    wanted = source.dtype if dtype is None else np.dtype(dtype)
    if wanted.kind == "f" and wanted.itemsize > 8:
        wanted = np.dtype(np.float64)
    if wanted == source.dtype and source.dtype.isnative:
        array: Array = np.array(source, order="C", copy=True, subok=False) if copy else source
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.array(source, dtype=wanted.newbyteorder("="), order="C", copy=True, subok=False)
    _check_finite(array, where, parameter)
    return array


def _as_numpy(value: object, where: str, parameter: str) -> Array:
    """The value as NumPy sees it; it may still share memory with the value."""
    if isinstance(value, np.ma.MaskedArray):
        raise GraphError(
            where, f"{parameter} is a masked array", "an array without a mask", "fill in the masked entries"
        )
    try:
        if hasattr(value, "detach") and hasattr(value, "cpu"):
            return _tensor_as_numpy(value)
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise GraphError(
            where,
            f"{parameter}, a {type(value).__name__}, is not an array ({error})",
            "numbers in the form of a rectangular array",
            f"give {parameter} as a dense NumPy array",
        ) from error


def _tensor_as_numpy(value: Any) -> Array:
    tensor = value.detach().cpu()
    try:
        return np.asarray(tensor.numpy(force=True))
    except TypeError:
        # NumPy has no bfloat16 and no float8; every value of these is a float32.
        return np.asarray(tensor.float().numpy(force=True))


def _check_finite(array: Array, where: str, parameter: str) -> None:
    if array.dtype.kind != "f" or bool(np.isfinite(array).all()):
        return
    first = tuple(int(index) for index in np.argwhere(~np.isfinite(array))[0])
    place = f"{parameter}[{', '.join(map(str, first))}]" if first else parameter
    raise GraphError(
        where, f"{place} = {array[first]} as {array.dtype}", "finite numbers", f"correct {parameter}"
    )


def as_integers(
    value: object, count: int, *, where: str, parameter: str, minimum: int | None = None
) -> tuple[int, ...]:
    """A parameter as a tuple of integers, one for each axis.

    Args:
        value: an integer (also as a float without fraction), or a sequence, array or tensor of one or ``count`` of
            them. A single one holds for every axis.
        count: number of axes.
        where: the node, for the error.
        parameter: name of the parameter, for the error.
        minimum: smallest integer allowed; None for any.

    Raises:
        GraphError: the value is not that.
    """
    axes = "an integer" if count == 1 else f"one integer or {count}"
    expected = axes if minimum is None else f"{axes}, at least {minimum}"
    array = as_array(value, where=where, parameter=parameter, dtype=None)
    if array.ndim > 1 or array.size not in (1, count):
        raise GraphError(where, f"{parameter} has the shape {array.shape}", expected, f"correct {parameter}")
    numbers = array.reshape(-1).tolist()
    for number in numbers:
        outside = not _INT64.min <= number <= _INT64.max or (minimum is not None and number < minimum)
        if outside or number != int(number):
            raise GraphError(where, f"{parameter} = {number!r}", expected, f"correct {parameter}")
    integers = tuple(int(number) for number in numbers)
    return integers * count if len(integers) == 1 else integers


def as_padding(value: Any, count: int, *, where: str, parameter: str) -> tuple[int, ...] | str:
    """The padding of a convolution: ``'same'``, ``'valid'``, or the number of zeros for each axis.

    Args:
        value: a word, as text or as the bytes that an HDF5 file holds, or integers as in :func:`as_integers`.
        count: number of axes.
        where: the node, for the error.
        parameter: name of the parameter, for the error.

    Raises:
        GraphError: the word is another one, or the integers are not one or ``count``, each at least 0.
    """
    word: object = value.item() if type(value) is np.ndarray and value.ndim == 0 else value
    if isinstance(word, bytes):
        word = word.decode("utf-8", errors="replace")
    if not isinstance(word, str):
        return as_integers(value, count, where=where, parameter=parameter, minimum=0)
    if word not in PADDING_MODES:
        raise GraphError(
            where, f"{parameter} = {str(word)!r}", "'same', 'valid' or integers", f"correct {parameter}"
        )
    return str(word)


def neuron_parameters(
    node: nir.NIRNode, names: Iterable[str], *, where: str | None = None, copy: bool = True
) -> dict[str, npt.NDArray[np.float64]]:
    """The parameters of a neuron as float64 arrays of one common shape, in the units of NIR.

    The shape is that of the largest parameter, to which all others are broadcast; see :func:`common_shape`.

    Args:
        node: the node.
        names: its parameters.
        where: the node's place, for the error; None for its type.
        copy: whether each array has memory of its own; otherwise they may be the node's, and are for reading only.

    Returns:
        The arrays by name.

    Raises:
        GraphError: a parameter is missing, is not an array of finite numbers, or two do not fit together.
    """
    place = f"a {type(node).__name__} node" if where is None else where
    arrays: dict[str, Array] = {}
    for name in names:
        if not hasattr(node, name):
            raise GraphError(
                place, f"it has no {name}", f"a {type(node).__name__} with {name}", f"set {name} on the node"
            )
        arrays[name] = as_array(getattr(node, name), where=place, parameter=name, copy=copy)
    shape = common_shape({name: array.shape for name, array in arrays.items()}, where=place)
    return {
        name: array if array.shape == shape else np.broadcast_to(_squeezed(array), shape).copy()
        for name, array in arrays.items()
    }


def _squeezed(array: Array) -> Array:
    return array.reshape(()) if array.size == 1 else array


def common_shape(shapes: Mapping[str, Shape], *, where: str) -> Shape:
    """The shape to which all parameters of a node broadcast: that of the largest of them.

    A parameter of one element fits every shape. (3, 1) and (1, 4) are refused, although NumPy would make a (3, 4) of
    them: no parameter has that shape, and two small arrays could ask for any amount of memory.

    Args:
        shapes: shape of each parameter by name.
        where: the node, for the error.

    Raises:
        GraphError: two parameters do not fit together; both are named, with their shapes.
    """
    if len(set(shapes.values())) <= 1:
        return next(iter(shapes.values()), ())
    # Whatever broadcasts to another shape has fewer axes, or more axes of extent 1.
    largest = max(
        shapes, key=lambda name: (_size(shapes[name]) != 1, len(shapes[name]), -shapes[name].count(1))
    )
    shape = shapes[largest]
    for name, other in shapes.items():
        if _size(other) != 1 and not broadcasts(other, shape):
            raise GraphError(
                where,
                f"{name} has the shape {other}, and {largest} has the shape {shape}",
                "parameters of one shape, or single numbers",
                f"give {name} and {largest} one entry for each neuron",
            )
    return shape


def _size(shape: Shape) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def broadcasts(shape: Shape, target: Shape) -> bool:
    """Whether an array of one shape can be broadcast to the other."""
    if len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return all(extent in (1, wanted) for extent, wanted in pairs)


def shape_of(value: Any) -> Shape:
    """The shape of a parameter, without a copy of it; () for a number."""
    shape: Iterable[int] | None = getattr(value, "shape", None)
    return tuple(int(extent) for extent in (np.shape(value) if shape is None else shape))

"""What each primitive says about the shapes of its input and its output, without batch.

``RULES`` is what NIR says. A torch layer may say less: a ``torch.nn.Linear`` acts along the last axis, however many are
before it, and NIR has no type for that. ``open_rule_of`` and ``last_axis_rule_of`` hold for such graphs too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import nir

from nirmap.errors import GraphError
from nirmap.extension import ExtensionNode
from nirmap.parameters import Shape, as_array, as_integers, as_padding, broadcasts, common_shape, shape_of

Stated = tuple[Shape | None, Shape | None]
"""The shapes of input and output, as far as a node states them by itself."""


@dataclass(frozen=True)
class Rule:
    """What a primitive says about shapes.

    Attributes:
        stated: from a node and its place, the shapes that the node states itself.
        forward: from a node, the shape of its input and its place, the shape of its output. Raises GraphError where the
            node cannot take that input.
        is_elementwise: the output has the shape of the input.
    """

    stated: Callable[[Any, str], Stated]
    forward: Callable[[Any, Shape, str], Shape] | None = None
    is_elementwise: bool = False


def _typed(node: nir.NIRNode, where: str) -> Stated:
    """The types of a node, where it has one of each."""
    return _type(node, "input_type", where), _type(node, "output_type", where)


def _end(node: nir.NIRNode, where: str) -> Stated:
    """The type that an Input or an Output is made with; its other type is a copy that may be out of date."""
    shape = _type(node, "output_type" if isinstance(node, nir.Output) else "input_type", where)
    return shape, shape


def _type(node: nir.NIRNode, attribute: str, where: str) -> Shape | None:
    types: dict[str, object] | None = getattr(node, attribute, None)
    values = list(types.values()) if types else []
    if len(values) != 1 or values[0] is None:
        return None
    array = as_array(values[0], where=where, parameter=attribute, dtype=None)
    return as_integers(array.reshape(-1), array.size, where=where, parameter=attribute, minimum=0)


def _elementwise(node: nir.NIRNode, where: str) -> Stated:
    """The shape of the parameters; those of one element follow the layer instead."""
    names = [
        entry.name for entry in fields(node) if entry.name not in ("input_type", "output_type", "metadata")
    ]
    shape = common_shape({name: shape_of(getattr(node, name)) for name in names}, where=where)
    return (None, None) if prod(shape) == 1 else (shape, shape)


def _linear(node: Any, where: str) -> Stated:
    weight = shape_of(node.weight)
    if len(weight) < 2:
        raise GraphError(
            where, f"its weight has the shape {weight}", "(outputs, inputs)", "give it two axes or more"
        )
    after = weight[:-1]
    if isinstance(node, nir.Affine) and not broadcasts(shape_of(node.bias), after):
        raise GraphError(
            where,
            f"its bias has the shape {shape_of(node.bias)}, and its weight has the shape {weight}",
            f"a bias of the shape {after}",
            "correct one of them",
        )
    return (*weight[:-2], weight[-1]), after


class _Kernel(NamedTuple):
    """The window of a convolution or a pool. All but ``channels`` have one entry for each spatial axis.

    ``channels`` are those of the input and of the output of a convolution; a pool takes any number and keeps it.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    channels: tuple[int, int] | None = None


def _convolution_kernel(node: Any, where: str) -> _Kernel:
    weight = shape_of(node.weight)
    axes = 1 if isinstance(node, nir.Conv1d) else 2
    groups = as_integers(node.groups, 1, where=where, parameter="groups", minimum=1)[0]
    if len(weight) != axes + 2 or weight[0] % groups:
        raise GraphError(
            where,
            f"its weight has the shape {weight}, in {groups} groups",
            f"(output channels, input channels / groups, {'length' if axes == 1 else 'height, width'}), where the "
            "groups divide the output channels",
            "correct weight or groups",
        )
    if shape_of(node.bias) != weight[:1]:
        found = f"its bias has the shape {shape_of(node.bias)}"
        raise GraphError(
            where, found, f"{weight[:1]}, one entry for each output channel", "correct bias or weight"
        )
    stride = as_integers(node.stride, axes, where=where, parameter="stride", minimum=1)
    padding = as_padding(node.padding, axes, where=where, parameter="padding")
    if padding == "same" and stride != (1,) * axes:
        raise GraphError(
            where, f"padding 'same' with stride {stride}", "stride 1", "give the padding in numbers"
        )
    dilation = as_integers(node.dilation, axes, where=where, parameter="dilation", minimum=1)
    return _Kernel(weight[2:], stride, padding, dilation, (weight[1] * groups, weight[0]))


def _convolution_input(node: Any, where: str) -> Stated:
    kernel = _convolution_kernel(node, where)
    if node.input_shape is None or kernel.channels is None:
        return None, None
    space = as_integers(node.input_shape, len(kernel.size), where=where, parameter="input_shape", minimum=1)
    return (kernel.channels[0], *space), None


def _convolution(node: Any, shape: Shape, where: str) -> Shape:
    return _windows(_convolution_kernel(node, where), shape, where)


def _pooling(node: Any, shape: Shape, where: str) -> Shape:
    size = as_integers(node.kernel_size, 2, where=where, parameter="kernel_size", minimum=1)
    stride = as_integers(node.stride, 2, where=where, parameter="stride", minimum=1)
    padding = as_integers(node.padding, 2, where=where, parameter="padding", minimum=0)
    return _windows(_Kernel(size, stride, padding, (1, 1)), shape, where)


def _windows(kernel: _Kernel, shape: Shape, where: str) -> Shape:
    """The shape behind a kernel: (channels, places of the kernel along each axis).

    The number of places is that of torch.nn.Conv2d: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.
    """
    axes = len(kernel.size)
    before, after = kernel.channels or (shape[:1] * 2 if shape else (0, 0))
    if len(shape) != axes + 1 or shape[0] != before:
        channels, space = (
            before if kernel.channels else "channels",
            "length" if axes == 1 else "height, width",
        )
        found = f"its input has the shape {shape}"
        raise GraphError(where, found, f"({channels}, {space})", "correct the layer, or the one before")
    if kernel.padding == "same":
        return (after, *shape[1:])
    padding = (0,) * axes if isinstance(kernel.padding, str) else kernel.padding
    numbers = zip(shape[1:], kernel.size, kernel.stride, padding, kernel.dilation, strict=True)
    places = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in numbers)
    if min(places) < 1:
        raise GraphError(
            where,
            f"a kernel of {kernel.size}, dilation {kernel.dilation}, on an input of the shape {shape}",
            "an input, padding included, at least as large as the kernel",
            "correct kernel, padding or dilation, or the layer before",
        )
    return (after, *places)


def _flatten_input(node: nir.NIRNode, where: str) -> Stated:
    return _type(node, "input_type", where), None


def _flatten(node: Any, shape: Shape, where: str) -> Shape:
    """The shape with the axes start_dim to end_dim joined; neither counts the batch."""
    rank = len(shape)
    (start,) = as_integers(node.start_dim, 1, where=where, parameter="start_dim")
    (end,) = as_integers(node.end_dim, 1, where=where, parameter="end_dim")
    first, last = (axis + rank if axis < 0 else axis for axis in (start, end))
    if not 0 <= first <= last < rank:
        raise GraphError(
            where,
            f"start_dim {start} and end_dim {end} for an input of the shape {shape}",
            "axes of that shape, which does not include the batch, in this order",
            "correct start_dim or end_dim",
        )
    return (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])


_OTHER = Rule(_typed)
_POOL = Rule(lambda node, where: (None, None), _pooling)
_ELEMENTWISE = Rule(_elementwise, is_elementwise=True)
_END = Rule(_end, is_elementwise=True)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "Input": _END,
        "Output": _END,
        "Affine": Rule(_linear),
        "Linear": Rule(_linear),
        "Conv1d": Rule(_convolution_input, _convolution),
        "Conv2d": Rule(_convolution_input, _convolution),
        "SumPool2d": _POOL,
        "AvgPool2d": _POOL,
        "Flatten": Rule(_flatten_input, _flatten),
        **dict.fromkeys(
            ("Scale", "Threshold", "Delay", "I", "IF", "LI", "LIF", "CubaLI", "CubaLIF"), _ELEMENTWISE
        ),
    }
)
"""The rule of each primitive, by the name of its class."""


def rule_of(node: nir.NIRNode) -> Rule:
    """The rule of a node; a node that NIR does not have states its types, and no more."""
    name = type(node).__name__
    if isinstance(node, ExtensionNode):
        return _ELEMENTWISE
    known = getattr(nir, name, None) is type(node)
    return RULES.get(name, _OTHER) if known else _OTHER


def open_rule_of(node: nir.NIRNode) -> Rule:
    """The same, where a matrix acts along the last axis of an input with any axes before it."""
    return _OPEN_LINEAR if type(node) in _LINEAR else rule_of(node)


def last_axis_rule_of(node: nir.NIRNode) -> Rule:
    """What a node says about the last axis alone, which stands for the shape."""
    rule = rule_of(node)
    return _of_last_axis(rule) if rule.is_elementwise or type(node) in _LINEAR else _NOTHING


def _open_linear(node: Any, where: str) -> Stated:
    """A matrix states no shape; a weight with more axes does."""
    before, after = _linear(node, where)
    return (before, after) if len(shape_of(node.weight)) > 2 else (None, None)


def _along_the_last_axis(node: Any, shape: Shape, where: str) -> Shape:
    after, before = shape_of(node.weight)[-2:]
    if shape[-1:] != (before,):
        found, expected = f"its input has the shape {shape}", f"{before} entries along the last axis"
        raise GraphError(where, found, expected, "correct the layer, or the one before")
    return (*shape[:-1], after)


def _of_last_axis(rule: Rule) -> Rule:
    """The rule for the last axis of a primitive that mixes no other axis into it."""

    def stated(node: Any, where: str) -> Stated:
        before, after = rule.stated(node, where)
        return before[-1:] if before else None, after[-1:] if after else None

    return Rule(stated, is_elementwise=rule.is_elementwise)


_LINEAR = (nir.Affine, nir.Linear)
_OPEN_LINEAR = Rule(_open_linear, _along_the_last_axis)
_NOTHING = Rule(lambda node, where: (None, None))

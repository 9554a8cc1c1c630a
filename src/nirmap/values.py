"""The values that a forward handles while it is recorded."""

from __future__ import annotations

import dis
import functools
import inspect
import operator
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any, Protocol, cast

import torch
from torch.fx import Node, Proxy

from nirmap.entries import Shape

# What may be done with sizes.
_OPERATORS: Any = operator
_OF_SIZES: frozenset[Any] = frozenset[Any](
    {
        operator.add,
        operator.sub,
        operator.mul,
        _OPERATORS.floordiv,
        operator.mod,
        operator.eq,
        operator.ne,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
        operator.getitem,
    }
)


class UnknownSizeError(Exception):
    """A forward asks for a size that is known of no sample."""


class KnowsShapes(Protocol):
    """A tracer that knows the shapes of inputs, from samples; all their axes, by the placeholder."""

    shapes: dict[Node, Shape]


class Value(Proxy):
    """A recorded value, which knows the sizes of an input of which a sample is given.

    A forward may so loop over as many time steps as the sample has. Of all other values torch.fx records the use, and
    has no in-place operators: Python would record ``+`` for ``+=``.
    """

    # A scalar of numpy leaves what is to be done to this operand.
    __array_ufunc__ = None

    def __iadd__(self, other: Any) -> Any:
        return self._in_place("iadd", other)

    def __isub__(self, other: Any) -> Any:
        return self._in_place("isub", other)

    def __imul__(self, other: Any) -> Any:
        return self._in_place("imul", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place("itruediv", other)

    def _in_place(self, name: str, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", getattr(operator, name), (self, other), {})

    def __index__(self) -> int:
        """The size that a recorded ``x.shape[axis]`` or ``x.size(axis)`` stands for.

        Raises:
            UnknownSizeError: no sample says it.
            TypeError: it stands for something else.
        """
        size = known_of_sizes(self.node, self._shapes())
        if isinstance(size, int):
            return size
        if _asks_for_size(self.node):
            raise UnknownSizeError(str(self.node))
        raise TypeError(f"{str(self.node)!r} is no size, and is asked for as a number")

    def __len__(self) -> int:
        """The length of the first axis.

        Raises:
            UnknownSizeError: no sample says it.
        """
        shape = self._shapes().get(self.node)
        if not shape:
            raise UnknownSizeError(str(self.node))
        return shape[0]

    def unbind(self, dim: int = 0) -> Any:
        """The entries along an axis.

        Raises:
            UnknownSizeError: this is an input, and no sample says how many there are.
        """
        entries = self.along(dim) if dim in (0, 1) else None
        if entries is None and self.node.op == "placeholder":
            raise UnknownSizeError(str(self.node))
        return (
            self.tracer.create_proxy("call_method", "unbind", (self, dim), {})
            if entries is None
            else tuple(entries)
        )

    def __iter__(self) -> Iterator[Any]:
        """The entries, as many as the caller unpacks it into; else what the tracer knows of them.

        torch.fx disassembles the whole of the caller for each unpacking.
        """
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        whole: Any = self
        count = None if caller is None else unpackings(caller.f_code).get(caller.f_lasti)
        if count is None:
            entries: Iterator[Any] = whole.tracer.iter(self)
            return entries
        return (whole[index] for index in range(count))

    def entries(self) -> Iterator[Any] | None:
        """Entries along the first axis, or of what ``torch.unbind`` returned; None for an unknown number."""
        node = self.node
        whole: Any = self
        if node.target is not torch.unbind:
            return self.along(0)
        sequence, *given = node.args
        axis = node.kwargs.get("dim", given[0] if given else 0)
        shape = self._shapes().get(cast("Node", sequence))
        if not isinstance(axis, int) or shape is None or not -len(shape) <= axis < len(shape):
            return None
        return iter([whole[index] for index in range(shape[axis])])

    def along(self, axis: int) -> Iterator[Any] | None:
        """The entries along an axis, 0 or 1; None where no sample says their number."""
        shape = self._shapes().get(self.node)
        if shape is None or len(shape) <= axis:
            return None
        whole: Any = self
        return iter([whole[index] if axis == 0 else whole[:, index] for index in range(shape[axis])])

    def _shapes(self) -> dict[Node, Shape]:
        return cast("KnowsShapes", self.tracer).shapes


@functools.lru_cache(maxsize=1024)
def unpackings(code: CodeType) -> Mapping[int, int]:
    """The places in a function where it unpacks a value, and into how many."""
    return {
        instruction.offset: instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname == "UNPACK_SEQUENCE"
    }


def known_of_sizes(node: Node, known: dict[Node, Shape]) -> Any:
    """What a call gives that only depends on the sizes of inputs; None for any other."""
    source = node.args[0] if node.args else None
    shape = known.get(source) if isinstance(source, Node) else None
    if shape is not None:
        if _is_shape(node):
            return shape
        if node.target == "dim" or (node.target is getattr and node.args[1] == "ndim"):
            return len(shape)
        if node.op == "call_method" and node.target == "size":
            axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
            return shape[axis] if isinstance(axis, int) and -len(shape) <= axis < len(shape) else None
        return None
    if node.op != "call_function" or node.target not in _OF_SIZES or node.kwargs:
        return None
    operands = [known_of_sizes(entry, known) if isinstance(entry, Node) else entry for entry in node.args]
    try:
        function: Any = node.target
        return None if any(entry is None for entry in operands) else function(*operands)
    except (TypeError, IndexError, ZeroDivisionError):
        return None


def _asks_for_size(node: Node) -> bool:
    """Whether a value depends on nothing but the sizes of another one."""
    if (
        _is_shape(node)
        or node.target in ("size", "dim")
        or (node.target is getattr and node.args[1] == "ndim")
    ):
        return True
    sources = node.all_input_nodes
    return node.target in _OF_SIZES and bool(sources) and all(map(_asks_for_size, sources))


def _is_shape(node: Node) -> bool:
    """Whether a call is ``x.shape`` or ``x.size()``."""
    if node.op == "call_method":
        return node.target == "size" and len(node.args) == 1 and not node.kwargs
    return node.target is getattr and node.args[1:] == ("shape",)

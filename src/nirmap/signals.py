"""What the values of a recorded network stand for while its graph is read.

A signal is a weighted sum of nodes' outputs, since two edges into a node are their sum. A weight other than 1 becomes a
Scale node when the signal is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch


class Source(NamedTuple):
    """Where a term of a signal comes from.

    Attributes:
        node: name of the node whose output it is; empty for an entry of the state, which is known only at the end.
        delayed: whether it is the output of the step before.
        entry: the number of the state entry, or None.
    """

    node: str
    delayed: bool = False
    entry: int | None = None


@dataclass(frozen=True)
class Signal:
    """A weighted sum of outputs: the weight of each source."""

    terms: Mapping[Source, float]

    @classmethod
    def of(cls, node: str, *, delayed: bool = False) -> Signal:
        """The output of one node, as it is."""
        return cls({Source(node, delayed): 1.0})

    def plus(self, other: Signal, alpha: float = 1.0) -> Signal:
        """``self + alpha * other``."""
        terms = dict(self.terms)
        for source, weight in other.terms.items():
            terms[source] = terms.get(source, 0.0) + alpha * weight
        return Signal(terms)

    def times(self, factor: float) -> Signal:
        """``factor * self``."""
        return Signal({source: factor * weight for source, weight in self.terms.items()})

    def with_entries(self, entries: Mapping[int, Signal]) -> Signal:
        """The signal with each state entry replaced by what the step before made of it, a step late."""
        result = Signal({source: weight for source, weight in self.terms.items() if source.entry is None})
        for source, weight in self.terms.items():
            if source.entry is not None:
                kept = {Source(term.node, True): value for term, value in entries[source.entry].terms.items()}
                result = result.plus(Signal(kept), weight)
        return result


@dataclass(frozen=True)
class Returned:
    """What a stateful module returned: the output at one index, state at the others.

    Attributes:
        node: the node of the module.
        output_index: where its output is.
        time_axis: the axis of time that the output has; None for none.
        whole: whether the output has all time steps.
    """

    node: str
    output_index: int
    time_axis: int | None = None
    whole: bool = False


@dataclass(frozen=True)
class StateValue:
    """State, of which NIR knows nothing. It goes into modules and out of the network, never along an edge.

    Attributes:
        node: whose state it is, where that is known.
        variable: which variable of it, by the name of the module's argument, where there are several.
    """

    node: str | None = None
    variable: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class StateEntry:
    """An entry of the state of the step before: the state of a module, or an output that is fed back.

    Attributes:
        number: which entry.
        is_part: whether it is only a part of the entry, which then has to be the state of a module.
    """

    number: int
    is_part: bool = False


@dataclass(frozen=True)
class Unread:
    """What a module returns beside its output and its state, such as the spikes of an integrator."""

    node: str


@dataclass(frozen=True)
class StateParts:
    """What :class:`nirmap.network.UnpackState` returned: for each entry its state and its last output."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """A parameter or buffer of the network, or a tensor that its forward made.

    Attributes:
        name: the name of the tensor.
        value: the tensor.
        is_state: whether it is what a module keeps of its state.
    """

    name: str
    value: torch.Tensor
    is_state: bool = False


@dataclass(frozen=True)
class NamedOutputs:
    """The outputs of a network by name."""

    signals: Mapping[str, Signal]


@dataclass(frozen=True)
class Size:
    """How large a signal is: along one axis, or along all of them.

    Attributes:
        axis: the axis as torch counts it, the batch being 0; None for a number that was computed from sizes.
        is_whole: whether it is the size along all axes.
        of: the signal that it is the size of.
        time_axis: the axis of time among the sizes along all axes; None for a signal of a single step.
    """

    axis: int | None = None
    is_whole: bool = False
    of: Signal | None = None
    time_axis: int | None = None


@dataclass(frozen=True)
class Placed:
    """The dtype or the device of a value: ``dtype`` of a constant, None for that of a signal or for a device."""

    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Stepped:
    """A signal with an axis of time.

    Attributes:
        signal: that of a single step.
        axis: the axis of time.
        whole: whether it has all time steps; otherwise it has this one, as a sequence of length one.
    """

    signal: Signal
    axis: int
    whole: bool = False


@dataclass(frozen=True)
class Stacked:
    """Signals side by side along an axis."""

    signals: tuple[Signal, ...]
    axis: int


Value = (
    Signal
    | Returned
    | StateValue
    | StateEntry
    | Unread
    | StateParts
    | Constant
    | NamedOutputs
    | Size
    | Placed
    | Stepped
    | Stacked
)

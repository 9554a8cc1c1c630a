"""What the values of a traced network stand for while its graph is read.

A signal is a weighted sum of nodes' outputs, since two edges into a node are their sum. A weight other than 1 becomes a
Scale node when the signal is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Signal:
    """A weighted sum of outputs.

    Attributes:
        terms: the weight of each node's output.
        delayed: the nodes whose output is that of the step before.
    """

    terms: Mapping[str, float]
    delayed: frozenset[str] = field(default_factory=frozenset[str])

    def plus(self, other: Signal, alpha: float = 1.0) -> Signal:
        """``self + alpha * other``."""
        terms = dict(self.terms)
        for name, weight in other.terms.items():
            terms[name] = terms.get(name, 0.0) + alpha * weight
        return Signal(terms, self.delayed | other.delayed)

    def times(self, factor: float) -> Signal:
        """``factor * self``."""
        return Signal({name: factor * weight for name, weight in self.terms.items()}, self.delayed)


@dataclass(frozen=True)
class Returned:
    """What a stateful module returned: the output at one index, state at the others."""

    node: str
    output_index: int


@dataclass(frozen=True)
class StateValue:
    """State, of which NIR knows nothing. It goes into modules and out of the network, never along an edge."""

    node: str | None = None


@dataclass(frozen=True)
class StateParts:
    """What :class:`nirmap.network.UnpackState` returned: for each entry the state, and the output of the step before."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """A parameter or buffer of the network."""

    name: str
    value: torch.Tensor


@dataclass(frozen=True)
class NamedOutputs:
    """The outputs of a network by name."""

    signals: Mapping[str, Signal]


Value = Signal | Returned | StateValue | StateParts | Constant | NamedOutputs

"""Whether the first step of a model, before which there is no state, is that of its graph.

In a graph, all outputs are zero before the first step. A model may do something else as long as its state is None: it
may leave out a layer with a bias, or begin with other numbers. Its graph would be that of its later steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

import nir
import numpy as np
from torch.fx import Node

from nirmap.assembling import GraphUnderConstruction
from nirmap.entries import Entry, keeps_zeros
from nirmap.errors import TraceError
from nirmap.modelling import RecordingReader
from nirmap.signals import Constant, Signal


class FirstStepReader(RecordingReader):
    """Reads the recording of a first step, in which zeros stand for what there was before."""

    def signal(self, entry: Any, where: str) -> Signal:
        """The signal of an operand; that of zeros has no terms."""
        value = self.values.get(entry) if isinstance(entry, Node) else None
        is_zero = isinstance(value, Constant) and not value.value.any()
        return Signal({}) if is_zero else super().signal(entry, where)

    def output(self, node: Node) -> None:
        """Adds an output for each result that is one later on too; what becomes of the state is not looked at."""
        for name, value in self.outputs_of(node):
            self.graph.add_output(name, self._output(value))
        self.draw_edges(node)


def check_first_step(first: GraphUnderConstruction, later: GraphUnderConstruction) -> None:
    """Holds the graph of a first step against that of the later ones.

    Raises:
        TraceError: they give different outputs, or leave neurons in different states.
    """
    numbers: dict[Hashable, int] = {}
    before, after = _Numbered(first, numbers), _Numbered(later, numbers)
    for name, entry in later.entries.items():
        is_compared = isinstance(entry, nir.Output) or later.stateful.get(name, False)
        if is_compared and before.of.get(name) != after.of[name]:
            raise TraceError(
                entry.where if isinstance(entry, Entry) else f"node {name!r}",
                "what it is given in the first step, before which there is no state, is not what it is given later on "
                "if all that was put out before is zero",
                "a first step like the others, as a graph has no other one",
                "begin with zeros in place of None, and use the same layers in every step",
            )


@dataclass
class _Numbered:
    """The nodes of a graph in its first step, each with a number that equal ones share."""

    graph: GraphUnderConstruction
    numbers: dict[Hashable, int]
    of: dict[str, int | None] = field(default_factory=dict[str, "int | None"])

    def __post_init__(self) -> None:
        sources: dict[str, list[str]] = {name: [] for name in self.graph.entries}
        for (source, target), delayed in self.graph.edges.items():
            if not delayed:
                sources[target].append(source)
        for name in TopologicalSorter(sources).static_order():
            entry = self.graph.entries[name]
            given = sorted(number for source in sources[name] if (number := self.of[source]) is not None)
            if not given and isinstance(entry, Entry) and keeps_zeros(entry):
                self.of[name] = None  # nothing comes out of it
                continue
            key = (_content(name, entry), tuple(given))
            self.of[name] = self.numbers.setdefault(key, len(self.numbers))


def _content(name: str, entry: object) -> Hashable:
    """What two nodes have in common that do the same; of a node of the caller or a sub-graph, the module's name."""
    if not isinstance(entry, Entry):
        return name
    digest = hashlib.sha256()
    for key, value in sorted(entry.values.items()):
        array = np.asarray(value)
        digest.update(f"{key} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return entry.primitive.name, digest.digest()

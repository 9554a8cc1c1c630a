"""The rebuilt network: an fx graph module, and the small modules that take its state apart and put it together.

Names from a NIR graph are kept as data in these modules. They never stand in the generated source, where nodes go by
their safe identifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.fx import GraphModule

from nirmap.errors import GraphError

# Where a node's output is fed back at the next step, its entry keeps the output under the first of these keys, beside
# its state variables. A state that may be anything goes under the second.
OUTPUT = "output"
OWN = "state"


class Network(GraphModule):
    """A ``torch.fx.GraphModule`` whose ``meta`` survives pickling.

    ``net(input, ..., state=None)`` returns the output (a dictionary by name where there are several) and the new state.
    ``net.meta["nirmap"]`` is the :class:`nirmap.report.Report` of the conversion.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, arguments = super().__reduce__()[:2]
        return _unpickle, (rebuild, arguments, self.meta)


def _unpickle(
    rebuild: Callable[..., GraphModule], arguments: tuple[Any, ...], meta: dict[str, Any]
) -> Network:
    plain = rebuild(*arguments)
    network = Network(plain, plain.graph, type(plain).__name__)
    network.training = plain.training
    network.meta = meta
    return network


@dataclass(frozen=True)
class StateEntry:
    """What a network keeps of one node.

    Attributes:
        name: the node.
        stateful: whether the node's module takes state.
        fed_back: whether the node's output is read at the next step.
        shape: shape of that output, without batch.
        variables: names in the module's own state, a dictionary; None for a module whose state may be anything.
    """

    name: str
    stateful: bool
    fed_back: bool
    shape: tuple[int, ...] | None
    variables: frozenset[str] | None = None

    @property
    def output_key(self) -> str:
        """The key of the output that is fed back: ``output``, unless the node's own state has that name."""
        key = OUTPUT
        while key in (self.variables or ()):
            key += "_"
        return key

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the node's entry, where its output is fed back."""
        own = frozenset({OWN}) if self.variables is None else self.variables
        return own | {self.output_key} if self.stateful else frozenset({self.output_key})

    def pack(self, own: Any, output: Any) -> Any:
        """The node's entry in the network's state: its own state, with the output where that is fed back."""
        if not self.fed_back:
            return own
        if not self.stateful:
            return {self.output_key: output}
        return {**({OWN: own} if self.variables is None else own), self.output_key: output}

    def unpack(self, kept: Any) -> tuple[Any, Any]:
        """The module's own state and the output of the step before; None where there is none.

        Raises:
            GraphError: the entry does not have the keys that it has to have.
        """
        expected = self.keys if self.fed_back else self.variables
        if expected is None:
            return kept, None
        entries = _entries(kept)
        if entries is None or len(entries) != len(expected) or not expected.issuperset(entries):
            raise _wrong_state(f"state of node {self.name!r}", kept, expected)
        if not self.fed_back:
            return kept, None
        output = entries[self.output_key]
        if not self.stateful:
            return None, output
        if self.variables is None:
            return entries[OWN], output
        return {name: entries[name] for name in self.variables}, output


def _entries(state: object) -> Mapping[str, Any] | None:
    """A state as a mapping by name; None for anything else."""
    return cast("Mapping[str, Any]", state) if isinstance(state, dict | Mapping) else None


def _wrong_state(where: str, state: object, expected: frozenset[str]) -> GraphError:
    entries = _entries(state)
    unknown = ", ".join(sorted(map(repr, set(entries or ()) - expected))) or "(none)"
    missing = ", ".join(sorted(map(repr, expected - set(entries or ())))) or "(none)"
    found = f"unknown entries {unknown}, missing entries {missing}"
    if entries is None:
        found = f"a {type(state).__name__}, missing entries {missing}"
    return GraphError(where, found, "the state that this network returned, or None for the initial state")


class UnpackState(torch.nn.Module):
    """Takes a network's state apart: for each entry the node's state and the output of the step before.

    Args:
        entries: what the network keeps.
        ranks: for each input the number of its axes without batch, or None where that is not known.
    """

    def __init__(self, entries: list[StateEntry], ranks: list[int | None]) -> None:
        super().__init__()
        self.entries = entries
        self.ranks = ranks
        self.names = frozenset(entry.name for entry in entries)

    def forward(self, state: Mapping[str, Any] | None, *inputs: torch.Tensor) -> list[Any]:
        """States and fed-back outputs, two for each entry; initial ones (None, and zeros) where state is None."""
        parts: list[Any] = []
        if state is None:
            for entry in self.entries:
                parts += [None, self._zeros(entry, inputs) if entry.fed_back else None]
            return parts
        given = _entries(state)
        if given is None or frozenset(given) != self.names:
            raise _wrong_state("state", state, self.names)
        for entry in self.entries:
            parts += entry.unpack(given[entry.name])
        return parts

    def _zeros(self, entry: StateEntry, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        for value, rank in zip(inputs, self.ranks, strict=True):
            if rank is not None and entry.shape is not None:
                return value.new_zeros((*value.shape[: value.dim() - rank], *entry.shape))
        raise GraphError(
            f"node {entry.name!r}",
            "its output is fed back, and its shape, or that of every input, is not known",
            "a shape at the graph's Input node",
            "set input_type of the Input node",
        )


class PackState(torch.nn.Module):
    """Puts a network's new state together from the nodes' states and the outputs that are fed back."""

    def __init__(self, entries: list[StateEntry]) -> None:
        super().__init__()
        self.entries = entries

    def forward(self, *parts: Any) -> dict[str, Any]:
        """The state; ``parts`` are two for each entry: what its module returned, output and state, and its output."""
        state: dict[str, Any] = {}
        for index, entry in enumerate(self.entries):
            returned, output = parts[2 * index], parts[2 * index + 1]
            kept = returned[1] if entry.stateful else None
            state[entry.name] = entry.pack(kept, output)
        return state


class NameOutputs(torch.nn.Module):
    """Gives several outputs their names."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, *outputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The outputs by name."""
        return dict(zip(self.names, outputs, strict=True))

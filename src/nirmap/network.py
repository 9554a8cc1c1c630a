"""The rebuilt network: an fx graph module, and the small modules that take its state apart and put it together.

Names from a NIR graph are kept as data in these modules. They never stand in the generated source, where nodes go by
their safe identifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule

from nirmap.errors import GraphError

# The key under which a node's state keeps the output that is fed back at the next step.
OUTPUT = "output"


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


class StateEntry:
    """What a network keeps of one node.

    Attributes:
        name: the node.
        stateful: whether the node's module takes state.
        fed_back: whether the node's output is read at the next step.
        shape: shape of that output, without batch.
    """

    def __init__(self, name: str, stateful: bool, fed_back: bool, shape: tuple[int, ...] | None) -> None:
        self.name = name
        self.stateful = stateful
        self.fed_back = fed_back
        self.shape = shape


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

    def forward(self, state: Mapping[str, Any] | None, *inputs: torch.Tensor) -> list[Any]:
        """States and fed-back outputs, two for each entry; initial ones (None, and zeros) where state is None."""
        parts: list[Any] = []
        if state is not None and state.keys() != {entry.name for entry in self.entries}:
            self._refuse(state)
        for entry in self.entries:
            if state is None:
                parts.append(None)
                parts.append(self._zeros(entry, inputs) if entry.fed_back else None)
            elif entry.fed_back:
                kept = dict(state[entry.name])
                parts.append(None)
                parts.append(kept.pop(OUTPUT))
                parts[-2] = kept.get("state", kept) if entry.stateful else None
            else:
                parts.append(state[entry.name])
                parts.append(None)
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

    def _refuse(self, state: Mapping[str, Any]) -> None:
        expected = {entry.name for entry in self.entries}
        wrong = sorted(map(repr, state.keys() - expected)), sorted(map(repr, expected - state.keys()))
        raise GraphError(
            "state",
            f"unknown entries {', '.join(wrong[0]) or '(none)'}, missing entries {', '.join(wrong[1]) or '(none)'}",
            "the state that this network returned, or None for the initial state",
        )


class PackState(torch.nn.Module):
    """Puts a network's new state together from the nodes' states and the outputs that are fed back."""

    def __init__(self, entries: list[StateEntry]) -> None:
        super().__init__()
        self.entries = entries

    def forward(self, *parts: Any) -> dict[str, Any]:
        """The state; ``parts`` are two for each entry, as :class:`UnpackState` gives them."""
        state: dict[str, Any] = {}
        for index, entry in enumerate(self.entries):
            kept, output = parts[2 * index], parts[2 * index + 1]
            if not entry.fed_back:
                state[entry.name] = kept
            elif isinstance(kept, dict):
                state[entry.name] = {**kept, OUTPUT: output}
            else:
                state[entry.name] = {OUTPUT: output} if kept is None else {"state": kept, OUTPUT: output}
        return state


class NameOutputs(torch.nn.Module):
    """Gives several outputs their names."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, *outputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The outputs by name."""
        return dict(zip(self.names, outputs, strict=True))

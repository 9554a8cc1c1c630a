"""A node as several modules in a row: what a rewrite becomes in a rebuilt network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nirmap.neuron import State
from nirmap.resets import Reset
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rewrites import REWRITES
from nirmap_registry.rows import Rewrite, Values


class Series(torch.nn.Module):
    r"""Modules that the signal passes through in turn, and that together are one node.

    ``series(input, state)`` returns the output and the new state, in the node's own variables; for a node without
    state, the output alone. Input and output have the shape (\*batch, \*shape).

    Args:
        rewrite: the rewrite that was applied.
        parts: the module of each part, by its name.
        stateful: the parts whose module takes and returns state.
        reset: what a spike does to the membrane potential.
    """

    def __init__(
        self,
        rewrite: Rewrite,
        parts: Mapping[str, torch.nn.Module],
        stateful: frozenset[str],
        reset: Reset = "value",
    ) -> None:
        super().__init__()
        self.reset: Reset = reset
        self.rewrite_name = rewrite.name
        self.names = [name for name, _ in rewrite.series]
        self.taking_state = stateful
        # The node's variable for each variable of a part.
        self.variables: dict[str, dict[str, str]] = {name: {} for name in self.names}
        for variable, (part, inner) in rewrite.state.items():
            self.variables[part][inner] = variable
        self.stateful = bool(rewrite.state)
        for name, module in parts.items():
            self.add_module(name, module)

    @property
    def rewrite(self) -> Rewrite:
        """The rewrite that was applied."""
        return next(entry for entry in REWRITES if entry.name == self.rewrite_name)

    @property
    def node(self) -> str:
        """Name of the primitive that the parts are together."""
        return self.rewrite.node

    def part(self, name: str) -> torch.nn.Module:
        """The module of a part."""
        module: torch.nn.Module = self.get_submodule(name)
        return module

    def begins_anew(self, name: str) -> bool:
        """Whether a part holds none of the node's variables, although it has state: it begins every step anew."""
        return name in self.taking_state and not self.variables[name]

    def forward(self, input: torch.Tensor, state: State | None = None) -> Any:
        """One step of all parts."""
        new: State = {}
        for name in self.names:
            module, variables = self._modules[name], self.variables[name]
            if module is None:
                raise TypeError(f"the part {name!r} was removed")
            if name not in self.taking_state:
                input = module(input)
                continue
            anew = state is None or self.begins_anew(name)
            held = (
                None if anew or state is None else {inner: state[outer] for inner, outer in variables.items()}
            )
            input, after = module(input, held)
            new.update({outer: after[inner] for inner, outer in variables.items()})
        return (input, new) if self.stateful else input

    def extra_repr(self) -> str:
        """The node and the rewrite."""
        return f"{PRIMITIVES[self.node].path}, {self.rewrite_name}"


@dataclass(frozen=True)
class Change:
    """A parameter of a part that is not what the rewrite makes it.

    Attributes:
        part: the part.
        parameter: its parameter.
        found: what it is now.
        expected: what the rewrite makes it.
    """

    part: str
    parameter: str
    found: str
    expected: str


def unrewritten(series: Series, parts: Mapping[str, Values], dt: float) -> tuple[Values, list[Change]]:
    """The parameters of the node that a series was made of.

    Args:
        series: the series.
        parts: the parameters of each part, as they are now.
        dt: time step in s.

    Returns:
        The parameters, and what the rewrite would not make of a node with them, as after training. Numbers are compared
        in relation to their size, in the precision of the series, and so zeros exactly.
    """
    rewrite, tolerance = series.rewrite, _tolerance(series)
    values = rewrite.read(parts, dt)
    again = rewrite.parts(values, dt)
    changes: list[Change] = []
    for name, node in rewrite.series:
        for parameter in PRIMITIVES[node].declared:
            found, expected = np.asarray(parts[name][parameter.name]), np.asarray(again[name][parameter.name])
            if found.shape != expected.shape:
                changes.append(
                    Change(name, parameter.name, f"of shape {found.shape}", f"of shape {expected.shape}")
                )
                continue
            differs = ~np.isclose(found, expected, rtol=tolerance, atol=0)
            if differs.any():
                changes.append(
                    Change(name, parameter.name, f"{found[differs][0]:g}", f"{expected[differs][0]:g}")
                )
    return values, changes


def _tolerance(series: Series) -> float:
    """The relative error of a number that was held in the lowest precision of a series."""
    tensors = (*series.parameters(), *series.buffers())
    return max([1e-5, *(4 * torch.finfo(value.dtype).eps for value in tensors if value.is_floating_point())])

"""The base of the nodes that NIR does not have: equations as data, and the checks that nir's own nodes do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar

import nir
import numpy as np

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOT_PARAMETERS = ("input_type", "output_type", "metadata")


@dataclass(frozen=True)
class Equations:
    """What a node does in a time step, as the mappings write it.

    Attributes:
        state: the state variables, each with its value before the first step, from the parameters.
        dynamics: ``d/dt`` of each, in the order in which they are stepped; each sees those before it as they are then,
            and ``before(x)`` is x as it was before the step.
        spike: the condition for a spike; empty for none.
        reset: what a spike sets state variables to, in the same step and in this order.
        reset_by_subtraction: the same, where the node is reset by subtraction.
        output: what leaves the node, ``spike`` for the spikes.
    """

    state: Mapping[str, str]
    dynamics: Mapping[str, str]
    spike: str
    reset: Mapping[str, str]
    reset_by_subtraction: Mapping[str, str]
    output: str


@dataclass(eq=False)
class ExtensionNode(nir.NIRNode):
    """A node of which nir knows nothing, and whose class is generated from ``mappings/extensions/``.

    Attributes:
        defaults: the values of parameters that are left out.
        domains: what a legal value fulfils, ``tau > 0`` or ``delay >= 0``.
        equations: what it does.
    """

    defaults: ClassVar[Mapping[str, float]] = _NOTHING
    domains: ClassVar[Mapping[str, str]] = _NOTHING
    equations: ClassVar[Equations]

    def __post_init__(self) -> None:
        names = [entry.name for entry in fields(self) if entry.name not in _NOT_PARAMETERS]
        given = {
            name: np.asarray(_plain(value)) for name in names if (value := getattr(self, name)) is not None
        }
        shapes = {name: value.shape for name, value in given.items()}
        try:
            shape = np.broadcast_shapes(*shapes.values())
        except ValueError:
            shown = ", ".join(f"{name} {value}" for name, value in shapes.items())
            raise ValueError(
                f"{type(self).__name__}: all parameters must have the same shape: {shown}"
            ) from None
        for name in names:
            value = given.get(name, np.asarray(self.defaults[name], dtype=np.float32))
            if name in self.domains and not bool(np.all(_in_domain(value, self.domains[name]))):
                raise ValueError(f"{type(self).__name__}: {name} must fulfil {self.domains[name]}")
            setattr(self, name, np.broadcast_to(value, shape).copy())
        self.input_type = {"input": np.array(shape)}
        self.output_type = {"output": np.array(shape)}


def _plain(value: Any) -> Any:
    """A tensor as an array; anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _in_domain(value: np.ndarray[Any, Any], domain: str) -> Any:
    return value >= 0 if ">=" in domain else value > 0

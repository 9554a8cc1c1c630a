"""Draws nodes and settings of modules for the proofs: the same ones on every run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from nirmap_generator.check import WISHES
from nirmap_generator.evaluate import Transposed
from nirmap_generator.model import Parameter, Primitive

# So many nodes are drawn in search of one that fulfils a row's requirements.
TRIES = 400


class Draw:
    """Draws for one row, or for one rewrite.

    Args:
        seed: what is drawn for; the same is drawn for the same text.
        primitive: the node's primitive.
    """

    def __init__(self, seed: str, primitive: Primitive) -> None:
        self.primitive = primitive
        self.random = random.Random(seed)

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Nodes: their parameters, with dt, and stand-ins for what the caller chooses."""
        for _ in range(TRIES):
            node = {name: self.parameter(self.primitive.parameters[name]) for name in self.primitive.declared}
            node["dt"] = 10 ** self.random.uniform(-4, -3)
            for name in self.primitive.declared:
                if self.primitive.parameters[name].whole_steps:
                    node[name] = self.random.randint(0, 6) * node["dt"]
            node |= {name: name for name in WISHES}
            yield node

    def parameter(self, parameter: Parameter) -> Any:
        """A legal value of one parameter."""
        axes = range(parameter.axes)
        low = parameter.minimum if parameter.minimum is not None else -3
        if parameter.kind == "integer":
            return self.random.randint(low, low + 6)
        if parameter.kind == "integers":
            return tuple(self.random.randint(low, low + 3) for _ in axes)
        if parameter.kind == "padding":
            return self.random.choice(["same", "valid", tuple(self.random.randint(0, 3) for _ in axes)])
        if parameter.domain is not None:
            return 10 ** self.random.uniform(-2.5, -0.5)
        return self.random.choice([-1, 1]) * 10 ** self.random.uniform(-1.5, 1)

    def settings(self, value: Any, count: int) -> Iterator[Any]:
        """Other values of the same sort; a number where there was none. Every third one has the other sign."""
        for number in range(count):
            yield self.changed(value, 1 if number % 3 else -1)

    def changed_entries(self, values: Any, sign: int) -> tuple[Any, ...]:
        """Other values for all entries of a tuple."""
        return tuple(self.changed(value, sign) for value in values)

    def changed(self, value: Any, sign: int) -> Any:
        """Another value of the same sort; one number, of this sign, where there was none."""
        if isinstance(value, tuple):
            return self.changed_entries(value, sign)
        match value:
            case bool():
                return not value
            case int():
                return value * self.random.choice([-2, 2, 3]) if value else 1
            case float():
                factor = sign * 10 ** self.random.uniform(-0.7, 0.7)
                return value * factor if value else factor
            case str():
                return f"not {value}"
            case Transposed():
                return Transposed(self.changed(value.value, sign))
            case _:
                return 3

"""The tensors that a forward uses while it is recorded, as they are at that time: it may change them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from nirmap.errors import TraceError
from nirmap.structures import version_of

HeldState = Callable[[torch.nn.Module], frozenset[str]]
# What a module holds as its state, each with its version.
Held = list[tuple[Any, int]]


def check_held(after: Held, now: Held, where: str, between: str, do: str) -> None:
    """Refuses a forward that changes what a module keeps in itself as its state; it may detach it.

    Args:
        after: what the module held after a call.
        now: what it holds before the next one.
        where: the next call, for errors.
        between: what it is that lies between the two.
        do: what the user can do.

    Raises:
        TraceError: it was changed.
    """
    if not all(map(_is_kept, after, now)):
        raise TraceError(
            where,
            f"its state is changed, or set back, between two {between}",
            "the state that it has after the call before",
            do,
        )


def _is_kept(after: tuple[Any, int], now: tuple[Any, int]) -> bool:
    (one, version), (other, later) = after, now
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return version == later and other.is_set_to(one)
    return one is other


class Constants:
    """Names of tensors that are no parameters.

    Args:
        root: the module that is recorded. Numbers that its modules keep as their state become tensors.
        state_of: the attributes in which a module keeps its state.
        is_leaf: whether a module is not entered.

    Attributes:
        values: the values of those that the module does not have under a name.
        states: those that are the state of a module, by the name of its attribute.
    """

    def __init__(
        self, root: torch.nn.Module, state_of: HeldState, is_leaf: Callable[[torch.nn.Module], bool]
    ) -> None:
        self.values: dict[str, torch.Tensor] = {}
        self.states: dict[str, torch.Tensor] = {}
        self._names: dict[str, list[str]] = {}
        kind_of_all: Any = torch.nn.Module
        modules: list[tuple[str, torch.nn.Module]] = list(kind_of_all.named_modules(root))
        for path, module in modules:
            names = sorted(state_of(module)) if is_leaf(module) else []
            if names:
                self._names[path] = names
            for name in names:
                value = getattr(module, name, None)
                if isinstance(value, int | float):
                    value = torch.tensor(float(value))
                    setattr(module, name, value)
                elif isinstance(value, torch.Tensor) and not value.numel():
                    # Empty is what it was before the first call. Some modules do not set it back as long as it is.
                    value = value.new_zeros(1)
                    setattr(module, name, value)
                if isinstance(value, torch.Tensor):
                    self.states[f"{path}.{name}"] = value
        # Tensors are told apart as objects, and each by its version, which changes with its numbers.
        self._named = {
            (buffer, version_of(buffer)): name for name, buffer in torch.nn.Module.named_buffers(root)
        }
        self._states = {tensor: name for name, tensor in self.states.items()}
        self._known: dict[tuple[torch.Tensor, int], str] = {}

    def anew(self) -> Constants:
        """For the next call of the same module, from which it has other names for what changed in this one."""
        other = copy.copy(self)
        other.values, other._known = {}, {}
        return other

    def held(self, path: str, module: torch.nn.Module) -> Held:
        """What a module holds as its state, with its version; nothing where it is no module that keeps some."""
        values = [getattr(module, name, None) for name in self._names.get(path, ())]
        # An alias keeps its memory where ``data`` of the tensor is exchanged.
        return [
            (value.detach(), version_of(value)) if isinstance(value, torch.Tensor) else (value, 0)
            for value in values
        ]

    def held_anew(self, path: str, module: torch.nn.Module) -> Held:
        """The same after a call, which leaves other tensors behind: so it is seen if a forward sets the state back."""
        for name in self._names[path]:
            before = getattr(module, name, None)
            if isinstance(before, int | float | torch.Tensor):
                after = before.clone() if isinstance(before, torch.Tensor) else torch.tensor(float(before))
                self._states[after] = f"{path}.{name}"
                self.states.setdefault(f"{path}.{name}", after)
                setattr(module, name, after)
        return self.held(path, module)

    def name_of(self, value: torch.Tensor) -> str:
        """The name of a tensor; one for each of the values that it has in the course of a forward."""
        key = value, version_of(value)
        if value in self._states:
            return self._states[value]
        if key in self._named:
            return self._named[key]
        if key not in self._known:
            self._known[key] = f"constant_{len(self.values)}"
            self.values[self._known[key]] = value.detach().clone()
        return self._known[key]

"""Runs a framework's module by itself, in the way its users call it, as the registry says how that is."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import torch

from nirmap.declared_graphs import primitive_of
from nirmap_registry.rows import Row, StateCall


def own_outputs(
    module: Any, row: Row, xs: torch.Tensor, dt: float, *, begins_anew: bool = False
) -> torch.Tensor:
    """The outputs over a sequence, from the state in which the node begins, or from that in which the module comes.

    A module that takes sequences gets the whole of it in one call.

    Args:
        module: a module of the row's class; the state that it keeps in attributes is overwritten.
        row: the row.
        xs: the input, (T, B, *shape).
        dt: time step in s.
        begins_anew: whether a state that the module keeps in attributes is left as it is.
    """
    with torch.no_grad():
        if row.state is None:
            return torch.stack([module(x) for x in xs])
        if row.state.call == "attributes":
            return _with_attributes(module, row.state, xs, begins_anew)
        return _with_arguments(module, row.state, xs, _first(module, row, row.state, xs[0], dt))


def _first(module: Any, row: Row, state: StateCall, step: torch.Tensor, dt: float) -> dict[str, torch.Tensor]:
    """What the module's variables are where the node's have not been stepped, as far as that is not 0."""
    values = row.read(module, dt)
    initial = {variable.name: variable.initial for variable in primitive_of(row).state}
    found: dict[str, torch.Tensor] = {}
    for variable in state.variables:
        begins = initial[variable.name]
        if callable(begins):
            factor = 1.0 if variable.times is None else variable.times(values, dt)
            value = torch.as_tensor(np.asarray(begins(values) * factor), dtype=step.dtype)
            found[variable.kept_as] = value.expand(step.shape)
    return found


def sample_of(row: Row, step: torch.Tensor) -> torch.Tensor:
    """A sample of what a row's module takes, from the input of one step, (B, *shape)."""
    axis = None if row.state is None else row.state.time_axis
    return step if axis is None else step.unsqueeze(axis)


def _with_arguments(
    module: Any, state: StateCall, xs: torch.Tensor, first: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """State goes in as an argument or several, and comes back behind the output."""
    kept = [variable.kept_as for variable in state.variables]
    names: Iterable[str] = (*kept, *state.zeroed)
    if state.call == "positional":  # in the order of the arguments
        names = [
            name for name in inspect.signature(module.forward).parameters if name in (*kept, *state.zeroed)
        ]
    given: dict[str, Any] = {name: first.get(name, torch.zeros_like(xs[0])) for name in names}
    record = None if state.record is None else state.record(**given)
    if state.time_axis is not None:
        return cast("torch.Tensor", module(xs.movedim(0, state.time_axis), record)[0]).movedim(
            state.time_axis, 0
        )
    outputs: list[torch.Tensor] = []
    explicit: Any = None
    for x in xs:
        if state.call == "explicit":
            output, explicit = module(x, explicit)
            new: dict[str, Any] = explicit
        elif state.call == "record":
            output, record = module(x, record)
            new = {name: getattr(record, name) for name in kept}
        else:
            output, *values = module(x, **given)
            new = dict(zip(state.returns or kept, values, strict=True))
            # Where there are as many arguments as values, the output is fed back too; without any, nothing is.
            fed_back = values if len(values) == len(given) else [output, *values]
            given = dict(zip(given, fed_back, strict=True)) if given else {}
        outputs.append(new[state.output] if state.output else output)
    return torch.stack(outputs)


def _with_attributes(module: Any, state: StateCall, xs: torch.Tensor, begins_anew: bool) -> torch.Tensor:
    """State stays in attributes of the module."""
    # The state of a module that spreads it over a batch has no batch axis.
    zeros = torch.zeros_like(xs[0] if state.spread_by is None else xs[0, 0])
    lists = {variable.kept_as for variable in state.variables if variable.entries is not None}
    names = [] if begins_anew else [*(variable.kept_as for variable in state.variables), *state.zeroed]
    for name in names:
        if name in lists:
            setattr(module, name, [])
        elif name in module._buffers:
            module._buffers[name] = zeros.clone()
        else:
            setattr(module, name, zeros.clone())
    if state.time_axis is not None:
        return _output(module, state, module(xs.movedim(0, state.time_axis))).movedim(state.time_axis, 0)
    return torch.stack([_output(module, state, module(x)) for x in xs])


def _output(module: Any, state: StateCall, returned: Any) -> torch.Tensor:
    """What the module returned first, or the variable that is the output."""
    if state.output is None:
        if isinstance(returned, list):  # one for each step
            return torch.stack(cast("list[torch.Tensor]", returned))
        values = cast("tuple[torch.Tensor, ...]", returned if isinstance(returned, tuple) else (returned,))
        return values[0]
    (variable,) = [entry for entry in state.variables if entry.kept_as == state.output]
    value: torch.Tensor = getattr(module, variable.read_from or variable.kept_as)
    return value

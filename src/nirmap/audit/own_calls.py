"""Runs a framework's module by itself, in the way its users call it, as the registry says how that is."""

from __future__ import annotations

from typing import Any, cast

import torch

from nirmap_registry.rows import Row, StateCall


def own_outputs(module: Any, row: Row, xs: torch.Tensor) -> torch.Tensor:
    """The outputs over a sequence, from a state of zeros.

    A module that takes sequences gets the whole of it in one call.

    Args:
        module: a module of the row's class; the state that it keeps in attributes is overwritten.
        row: the row.
        xs: the input, (T, B, *shape).
    """
    with torch.no_grad():
        if row.state is None:
            return torch.stack([module(x) for x in xs])
        if row.state.call == "attributes":
            return _with_attributes(module, row.state, xs)
        return _with_arguments(module, row.state, xs)


def _with_arguments(module: Any, state: StateCall, xs: torch.Tensor) -> torch.Tensor:
    """State goes in as an argument or several, and comes back behind the output."""
    kept = [variable.kept_as for variable in state.variables]
    given: dict[str, Any] = {name: torch.zeros_like(xs[0]) for name in [*kept, *state.zeroed]}
    record = None if state.record is None else state.record(**given)
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
            given = {name: new.get(name, value) for name, value in given.items()}
        outputs.append(new[state.output] if state.output else output)
    return torch.stack(outputs)


def _with_attributes(module: Any, state: StateCall, xs: torch.Tensor) -> torch.Tensor:
    """State stays in attributes of the module."""
    # The state of a module that spreads it over a batch has no batch axis.
    zeros = torch.zeros_like(xs[0] if state.spread_by is None else xs[0, 0])
    for name in [*(variable.kept_as for variable in state.variables), *state.zeroed]:
        if name in module._buffers:
            module._buffers[name] = zeros.clone()
        else:
            setattr(module, name, zeros.clone())
    if state.time_axis is not None:
        return _output(module, state, module(xs.movedim(0, state.time_axis))).movedim(state.time_axis, 0)
    return torch.stack([_output(module, state, module(x)) for x in xs])


def _output(module: Any, state: StateCall, returned: Any) -> torch.Tensor:
    """What the module returned first, or the variable that is the output."""
    if state.output is None:
        values = cast("tuple[torch.Tensor, ...]", returned if isinstance(returned, tuple) else (returned,))
        return values[0]
    (variable,) = [entry for entry in state.variables if entry.kept_as == state.output]
    value: torch.Tensor = getattr(module, variable.read_from or variable.kept_as)
    return value

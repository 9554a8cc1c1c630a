"""Runs a network over a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch


def run(
    net: torch.nn.Module, xs: torch.Tensor | tuple[torch.Tensor, ...], state: Mapping[str, Any] | None = None
) -> tuple[Any, Any]:
    r"""Runs a rebuilt network over a whole sequence, step by step.

    Args:
        net: a network from :func:`nirmap.from_nir`.
        xs: the input, of shape (time, \*batch, \*shape); a tuple of them for a network with several inputs.
        state: the state before the first step; None is the initial state. It is not changed.

    Returns:
        The outputs, stacked along a leading time axis (a dictionary by name where there are several), and the state
        after the last step.

    Raises:
        ValueError: there is no time step, the inputs are not of the same length, or not as many as the network has.
    """
    inputs = xs if isinstance(xs, tuple) else (xs,)
    report = getattr(net, "meta", {}).get("nirmap")
    if report is not None and len(inputs) != len(report.inputs):
        raise ValueError(
            f"xs: {len(inputs)} sequences; expected one for each of the inputs {', '.join(map(repr, report.inputs))}"
        )
    lengths = {len(entry) for entry in inputs}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"xs: sequences of {sorted(lengths)} steps; expected one common length of at least 1"
        )
    outputs: list[Any] = []
    for step in zip(*inputs, strict=True):
        output, state = net(*step, state)
        outputs.append(output)
    if isinstance(outputs[0], dict):
        names = list(cast("dict[str, torch.Tensor]", outputs[0]))
        return {name: torch.stack([output[name] for output in outputs]) for name in names}, state
    return torch.stack(outputs), state

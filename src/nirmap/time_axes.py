"""The axis of time: which modules take single time steps, which take sequences, and what the inputs of a model are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import torch
from torch.fx import Node

from nirmap.leaves import OWN, Leaves
from nirmap.subclasses import class_of
from nirmap_registry.catalogue import PRIMITIVES

# A single step, the axis of time of a sequence, or either of them.
Takes = Literal["step", "any"] | int
# The shapes of nodes that do the same along all leading axes.
_ALONG_LAST_AXIS = ("linear", "elementwise")


def one_step(sequence: Any, axis: int) -> Any:
    """Stands in a recording for one step of a sequence, in a module that goes through all of them."""
    raise NotImplementedError(f"{sequence!r} has no steps along axis {axis}: it is recorded, never run")


def all_steps(step: Any, axis: int) -> Any:
    """Stands in a recording for the sequence of what a module gives for each step."""
    raise NotImplementedError(f"{step!r} is no sequence along axis {axis}: it is recorded, never run")


def takes(leaves: Leaves, module: torch.nn.Module) -> Takes:
    """What a leaf module takes."""
    if isinstance(module, OWN):
        return "step"
    if leaves.given(module) is not None:
        return "any"
    axis = leaves.sequence_axis(module)
    if axis is not None:
        return axis
    bypassed = leaves.bypass(module)
    if bypassed is not None:
        return "any" if bypassed.splits_time is None else "step"
    return takes_of_class(leaves, class_of(module))


def takes_of_class(leaves: Leaves, kind: type[torch.nn.Module]) -> Takes:
    """What modules of a class take that have no node, or the one of a row."""
    base = next((entry for entry in kind.__mro__ if entry in leaves.rows), None)
    row = leaves.rows[base][0] if base is not None else None
    if row is None or row.state is not None or row.node not in PRIMITIVES:
        return "step"
    return "any" if PRIMITIVES[row.node].shape in _ALONG_LAST_AXIS else "step"


def axis_of_inputs(
    graph: torch.fx.Graph, root: torch.nn.Module, leaves: Leaves, inputs: Collection[str]
) -> int | None:
    """The axis of time that a model's inputs have; None for inputs of a single step.

    The first module that takes either a step or a sequence, and that is given an input as it is, says it.

    Args:
        graph: the recording.
        root: the module whose submodules are called.
        leaves: the leaf modules.
        inputs: the names of the placeholders that are inputs.
    """
    as_given: set[Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            if node.name in inputs:
                as_given.add(node)
        elif as_given.isdisjoint(node.all_input_nodes):
            continue
        elif node.op == "call_module":
            taken = takes(leaves, root.get_submodule(str(node.target)))
            if taken != "any":
                return None if taken == "step" else taken
            as_given.add(node)
        elif node.target is one_step:
            return int(node.args[1])
        elif node.target not in _CHANGE_AXES and node.op != "output":
            as_given.add(node)
    return None


# Behind these it is not known any more how the axes of an input lie.
_CHANGE_AXES = frozenset(
    {
        "unsqueeze",
        "squeeze",
        "flatten",
        "unflatten",
        "reshape",
        "view",
        torch.unsqueeze,
        torch.squeeze,
        torch.flatten,
        torch.unflatten,
        torch.reshape,
    }
)

"""Why a framework cannot express a node: every condition that does not hold, in its own rows and in the rewrites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nirmap.audit.cells import Condition
from nirmap.building import Builder
from nirmap.registry import rows_for_node
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rewrites import REWRITES
from nirmap_registry.rows import NodeConstraint, Primitive, Row, Values


@dataclass(frozen=True)
class Obstacle:
    """One condition that a node does not fulfil.

    Attributes:
        condition: the condition. Where the framework has no module, ``that`` is empty and ``because`` says why.
        parameters: the node's parameters that it speaks of (and ``dt``), as text: the number, or the range. All of
            them, where the framework has no module.
        rule: the rewrite in whose way it is; empty for the node itself.
    """

    condition: Condition
    parameters: Mapping[str, str]
    rule: str = ""


def obstacles(
    builder: Builder, primitive: Primitive, values: Values, within: tuple[str, ...] = ()
) -> list[Obstacle]:
    """All that keeps a framework from expressing a node.

    Args:
        builder: the framework's table and dt; its fallback is left out of account.
        primitive: the node's primitive.
        values: its parameters, as :func:`nirmap.building.node_values` gives them.
        within: names of the rewrites of which the node is a part.
    """
    rule = ": ".join(within)
    rows = _rows(builder, primitive)
    found = [
        _obstacle(row.path, constraint, values, builder.dt, rule)
        for row in rows
        for constraint in row.requires
        if not constraint.holds(values, builder.dt)
    ]
    if not rows:
        found.append(
            Obstacle(Condition("", _why_no_row(builder, primitive)), _shown(primitive, values), rule)
        )
    for rewrite in REWRITES:
        if rewrite.node != primitive.name or rewrite.name in within:
            continue
        inner = (*within, rewrite.name)
        broken = [entry for entry in rewrite.requires if not entry.holds(values, builder.dt)]
        found += [_obstacle("", entry, values, builder.dt, ": ".join(inner)) for entry in broken]
        if not broken:
            parts = rewrite.parts(values, builder.dt)
            for name, node in rewrite.series:
                if not _is_native(builder, PRIMITIVES[node], parts[name]):
                    found += obstacles(builder, PRIMITIVES[node], parts[name], inner)
    return found


def _rows(builder: Builder, primitive: Primitive) -> list[Row]:
    return rows_for_node(builder.registry, primitive.name, builder.reset if primitive.subtracts else "value")


def _why_no_row(builder: Builder, primitive: Primitive) -> str:
    framework = builder.registry.framework
    if builder.reset == "subtract" and primitive.subtracts:
        return f"{framework} has no {primitive.name} that subtracts its threshold"
    return builder.registry.not_mapped.get(primitive.name, f"{framework} has no module for {primitive.path}")


def _is_native(builder: Builder, primitive: Primitive, values: Values) -> bool:
    rows = _rows(builder, primitive)
    return any(all(entry.holds(values, builder.dt) for entry in row.requires) for row in rows)


def _obstacle(module: str, constraint: NodeConstraint, values: Values, dt: float, rule: str) -> Obstacle:
    condition = Condition(constraint.that, constraint.because, constraint.do, module)
    shown = {name: f"{dt:g}" if name == "dt" else as_text(values[name]) for name in constraint.names}
    return Obstacle(condition, shown, rule)


def _shown(primitive: Primitive, values: Values) -> dict[str, str]:
    """All parameters of a node, for which there is no module whatever they are."""
    return {parameter.name: as_text(values[parameter.name]) for parameter in primitive.declared}


def as_text(value: object) -> str:
    """A parameter in short: up to three different numbers, else the range; the shape, of a weight."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        return repr(value)
    if array.ndim > 1:
        return f"an array of shape {array.shape}"
    numbers = np.unique(array)
    if numbers.size <= 3:
        return ", ".join(f"{number:g}" for number in numbers)
    return f"{numbers[0]:g} ... {numbers[-1]:g}"

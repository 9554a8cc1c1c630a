"""Builds the module that stands for one node, from a framework's registry."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

import nir
import numpy as np
import torch

from nirmap.calling import build_cell
from nirmap.cells import normal_form
from nirmap.errors import ConstraintError, GraphError, UnsupportedNodeError
from nirmap.parameters import as_array, as_integers, as_padding, neuron_parameters
from nirmap.registry import rows_for_node
from nirmap.report import NodeReport
from nirmap.resets import Reset
from nirmap.series import Series
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rewrites import REWRITES
from nirmap_registry.rows import (
    NodeConstraint,
    Parameter,
    Placement,
    Primitive,
    Registry,
    Rewrite,
    Row,
    Values,
)


@dataclass(frozen=True)
class Built:
    """A module and how it was made.

    Attributes:
        module: the module.
        stateful: whether it takes and returns state.
        report: how it was made.
        variables: names of its state variables, where they are known.
        state_argument: name of the argument of ``forward`` that takes the state; None for the second one.
    """

    module: torch.nn.Module
    stateful: bool
    report: NodeReport
    variables: frozenset[str] | None = None
    state_argument: str | None = None


def primitive_of(node: nir.NIRNode, where: str) -> Primitive:
    """The catalogue's entry for a node.

    Raises:
        UnsupportedNodeError: the node's type is not in the catalogue.
    """
    primitive = PRIMITIVES.get(type(node).__name__)
    if primitive is None or type(node) is not primitive.node:
        raise UnsupportedNodeError(
            where,
            f"a {type(node).__name__}",
            "one of " + ", ".join(PRIMITIVES),
            "declare it in mappings/nir.yaml",
        )
    return primitive


def node_values(node: nir.NIRNode, primitive: Primitive, where: str) -> dict[str, Any]:
    """The parameters of a node: neurons as float64 of one common shape, weights, integers as tuples.

    Arrays may be those of the node: they are for reading only.

    Raises:
        GraphError: a parameter is not of its kind, or outside its domain.
    """
    neurons = [parameter.name for parameter in primitive.declared if parameter.kind == "neuron"]
    values: dict[str, Any] = (
        dict(neuron_parameters(node, neurons, where=where, copy=False)) if neurons else {}
    )
    for parameter in primitive.declared:
        if parameter.kind == "neuron":
            _check_domain(parameter, values[parameter.name], where)
        else:
            values[parameter.name] = _value(getattr(node, parameter.name), parameter, where)
    return values


def _value(value: object, parameter: Parameter, where: str) -> Any:
    name = parameter.name
    if parameter.kind == "weight":
        return as_array(value, where=where, parameter=name, dtype=None, copy=False)
    if parameter.kind == "padding":
        return as_padding(value, parameter.axes, where=where, parameter=name)
    count = parameter.axes if parameter.kind == "integers" else 1
    entries = as_integers(value, count, where=where, parameter=name, minimum=parameter.minimum)
    return entries if parameter.kind == "integers" else entries[0]


def _check_domain(parameter: Parameter, value: Any, where: str) -> None:
    if parameter.positive is None:
        return
    low = value.min() if value.size else 1.0
    if low < 0 or (parameter.positive and low == 0):
        expected = "above 0" if parameter.positive else "at least 0"
        raise GraphError(
            where, f"{parameter.name} = {low:g}", f"{parameter.name} {expected}", "correct the node"
        )


@dataclass(frozen=True)
class Builder:
    """What stays the same for all nodes of a conversion.

    Attributes:
        registry: the table of the framework.
        dt: time step in s.
        to: dtype, device and surrogate gradient.
        trainable: names of the neuron parameters that become trainable.
        fallback: the table that serves where the framework cannot express a node; None for an error.
        reset: what a spike does to the membrane potential.
    """

    registry: Registry
    dt: float
    to: Placement
    trainable: frozenset[str] = frozenset()
    fallback: Registry | None = None
    reset: Reset = "value"

    def build(self, node: nir.NIRNode, where: str) -> Built:
        """The module that stands for a node: one of the framework's, a rewrite of them, or the fallback.

        Raises:
            UnsupportedNodeError: the framework has no module for the node, and no rewrite helps.
            ConstraintError: no module of the framework can express the node's parameters, and no rewrite helps.
            GraphError: a parameter is malformed.
        """
        primitive = primitive_of(node, where)
        return self.build_values(primitive, node_values(node, primitive, where), where)

    def build_values(
        self, primitive: Primitive, values: dict[str, Any], where: str, within: frozenset[str] = frozenset()
    ) -> Built:
        """As :meth:`build`, from the parameters.

        Args:
            primitive: the node's primitive.
            values: its parameters.
            where: the node, for errors.
            within: the rewrites of which this node is a part; they are not applied again.
        """
        if self.reset != "value" and not primitive.subtracts:
            return replace(self, reset="value").build_values(primitive, values, where, within)
        try:
            return self._native(self.registry, primitive, values, where)
        except (UnsupportedNodeError, ConstraintError) as error:
            refused = error
        reasons: list[str] = []
        for rewrite in REWRITES:
            if rewrite.node == primitive.name and rewrite.name not in within:
                rewritten = self._rewritten(rewrite, primitive, values, where, within, refused, reasons)
                if rewritten is not None:
                    return rewritten
        if self.fallback is not None and not within:
            built = self._native(self.fallback, primitive, values, where)
            return replace(built, report=replace(built.report, how="fallback", because=str(refused)))
        raise type(refused)(
            refused.where, refused.found, refused.expected, _help(refused.do, reasons)
        ) from None

    def _native(self, registry: Registry, primitive: Primitive, values: dict[str, Any], where: str) -> Built:
        """A module of one table."""
        candidates = rows_for_node(registry, primitive.name, self.reset)
        if not candidates:
            raise _unsupported(registry, primitive, self.reset, where)
        if primitive.methods:
            candidates = _stepped_by(self.to.method, candidates, primitive, registry, where)
        failed: list[tuple[Row, NodeConstraint]] = []
        for row in candidates:
            broken = next((entry for entry in row.requires if not entry.holds(values, self.dt)), None)
            if broken is None:
                return self._build(row, primitive, values, where)
            failed.append((row, broken))
        raise _refusal(failed, primitive, values, self.dt, where)

    def _rewritten(
        self,
        rewrite: Rewrite,
        primitive: Primitive,
        values: dict[str, Any],
        where: str,
        within: frozenset[str],
        refused: UnsupportedNodeError | ConstraintError,
        reasons: list[str],
    ) -> Built | None:
        """The node as a series, if the framework has all of its parts; else None, and a reason."""
        broken = next((entry for entry in rewrite.requires if not entry.holds(values, self.dt)), None)
        if broken is not None:
            reasons.append(f"{rewrite.name} needs {broken.that} ({broken.because})")
            return None
        parameters = rewrite.parts(values, self.dt)
        built: dict[str, Built] = {}
        for name, node in rewrite.series:
            place, inner = f"{where} ({rewrite.name}: {name})", within | {rewrite.name}
            builder = replace(self, trainable=frozenset())
            try:
                built[name] = builder.build_values(PRIMITIVES[node], dict(parameters[name]), place, inner)
            except (UnsupportedNodeError, ConstraintError) as error:
                reasons.append(f"{rewrite.name} needs {error.expected}, and found {error.found}")
                return None
        stateful = frozenset(name for name, entry in built.items() if entry.stateful)
        series = Series(rewrite, {name: entry.module for name, entry in built.items()}, stateful, self.reset)
        _train(series, primitive, self.trainable, where)
        if primitive.shape == "elementwise":
            # What was one number per neuron, and fixed, stays so: an optimiser would else train a whole matrix.
            series.requires_grad_(False)
        rules = [rewrite.name, *(rule for entry in built.values() for rule in entry.report.rules)]
        report = NodeReport(
            primitive.name,
            " -> ".join(entry.report.module for entry in built.values()),
            "rewritten",
            rewrite.source,
            tuple(rules),
            str(refused),
            values,
            {f"{part}.{name}": value for part in parameters for name, value in parameters[part].items()},
            self.reset,
        )
        return Built(series, series.stateful, report, frozenset(rewrite.state))

    def _build(self, row: Row, primitive: Primitive, values: dict[str, Any], where: str) -> Built:
        variables = frozenset(variable.name for variable in primitive.state)
        how: Literal["native", "normal form"] = "native" if row.normal_form is None else "normal form"
        if row.state is None or (row.state.call == "explicit" and row.normal_form is None):
            module = _placed(row, values, self.dt, self.to, where)
            _train(module, primitive, self.trainable, where)
            report = NodeReport(
                primitive.name, row.path, how, row.source, before=values, after=values, reset=row.reset
            )
            return Built(module, row.state is not None, report, variables)
        cell = build_cell(row, values, self.dt, self.to)
        _train(cell.module, primitive, self.trainable, where)
        after = normal_form(row, values, self.dt).parameters
        report = NodeReport(
            primitive.name, row.path, how, row.source, before=values, after=after, reset=row.reset
        )
        return Built(cell, primitive.stateful, report, variables)


def _unsupported(registry: Registry, primitive: Primitive, reset: Reset, where: str) -> UnsupportedNodeError:
    """A framework has no module for a primitive with this reset."""
    framework, found = registry.framework, f"a {primitive.path}"
    if reset == "subtract":
        expected = f"one that is reset to a value: {framework} has none that subtracts"
        return UnsupportedNodeError(where, f"{found} that is reset by subtraction", expected)
    expected = f"a node that {framework} has ({_why_not(registry, primitive.name)})"
    do = (
        "reset='subtract' if the network was trained with it"
        if rows_for_node(registry, primitive.name, "subtract")
        else ""
    )
    return UnsupportedNodeError(where, found, expected, do)


def _stepped_by(
    method: str, candidates: list[Row], primitive: Primitive, registry: Registry, where: str
) -> list[Row]:
    """The rows whose modules integrate by a method."""
    found = f"method = {method!r} for a {primitive.path}"
    if method not in primitive.methods:
        expected = f"a method for its equations: {' or '.join(map(repr, primitive.methods))}"
        raise ConstraintError(where, found, expected, f"use method={primitive.methods[0]!r}")
    fitting = [row for row in candidates if row.steps_by(method)]
    if not fitting:
        known = candidates[0].discretisation
        expected = f"{known!r}, by which {registry.framework} integrates"
        raise ConstraintError(where, found, expected, f"use framework='torch', or method={known!r}")
    return fitting


def _why_not(registry: Registry, node: str) -> str:
    """Why no module of a framework is built for a primitive."""
    never = [row.not_built for row in registry.rows if row.node == node and row.not_built]
    reason = registry.not_mapped.get(node, never[0] if never else "")
    return reason or f"{registry.framework} has no module for it"


def _help(do: str, reasons: list[str]) -> str:
    """What the user can do: what the table says, why no rewrite helped, and the fallback."""
    parts = [do] if do else []
    parts += [f"no rewrite helps: {'; '.join(reasons)}"] if reasons else []
    parts += ["fallback='torch' takes the built-in module for this node"]
    return "; or ".join(parts)


def _refusal(
    failed: list[tuple[Row, NodeConstraint]], primitive: Primitive, values: Values, dt: float, where: str
) -> ConstraintError:
    broken = failed[0][1]
    shown = [
        f"{name} = {dt:g}" if name == "dt" else f"{name} = {_shown(values[name])}" for name in broken.names
    ]
    reasons = "; ".join(f"{entry.path}: {constraint.because}" for entry, constraint in failed)
    return ConstraintError(
        where, f"{primitive.path} with {', '.join(shown)}", f"{broken.that} ({reasons})", broken.do
    )


def _shown(value: Any) -> str:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        return repr(value)
    numbers = np.unique(array)
    if numbers.size <= 3:
        return ", ".join(f"{number:g}" for number in numbers)
    return f"{numbers[0]:g} ... {numbers[-1]:g}"


def _placed(row: Row, values: Values, dt: float, to: Placement, where: str) -> torch.nn.Module:
    """The module of a row that takes a node as it is, with the node's name in the errors of its constructor."""
    if row.build is None:
        raise TypeError(f"{row.path} is never built: {row.not_built}")
    try:
        return row.build(values, dt, to)
    except ConstraintError as error:
        raise ConstraintError(f"{where} ({error.where})", error.found, error.expected, error.do) from error


def check_trainable(names: Collection[str]) -> None:
    """That every name is that of a neuron parameter.

    Raises:
        ConstraintError: one is not.
    """
    known = {p.name for primitive in PRIMITIVES.values() for p in primitive.parameters if p.kind == "neuron"}
    for name in names:
        if name not in known:
            raise ConstraintError("trainable", repr(name), "neuron parameters: " + ", ".join(sorted(known)))


def _train(module: torch.nn.Module, primitive: Primitive, trainable: frozenset[str], where: str) -> None:
    """Makes the named neuron parameters trainable, where this node has them."""
    names = [p.name for p in primitive.parameters if p.kind == "neuron" and p.name in trainable]
    if not names:
        return
    from nirmap.neuron import Neuron

    if not isinstance(module, Neuron):
        raise ConstraintError(
            where,
            f"{', '.join(names)} cannot be trained in {type(module).__name__}",
            "a module that holds it as a buffer of that name",
            "leave it out of trainable, or use framework='torch'",
        )
    fixed = [name for name in names if name in module.fixed_names]
    if fixed:
        raise ConstraintError(
            where,
            f"{', '.join(fixed)} cannot be trained in {type(module).__name__}: no gradient reaches it",
            "parameters on which the output depends smoothly",
            "leave it out of trainable",
        )
    module.train_parameters(names)


def is_stateful(node: nir.NIRNode, otherwise: bool = False) -> bool:
    """Whether a node keeps state; a sub-graph does if a node in it does.

    Args:
        node: the node.
        otherwise: the answer for a node that the catalogue does not have.
    """
    pending = [node]
    while pending:
        entry = pending.pop()
        if isinstance(entry, nir.NIRGraph):
            pending.extend(entry.nodes.values())
            continue
        primitive = PRIMITIVES.get(type(entry).__name__)
        if primitive.stateful if primitive else otherwise and entry is node:
            return True
    return False

"""Layers that are no modules, and what goes into the layer before: normalisation with fixed statistics, constants.

A function such as ``torch.nn.functional.conv2d`` is read as a module of the table that has its arguments as attributes.
A module that multiplies each channel by a number and adds one, or a constant that is added, changes the weights and the
bias of the layer before it, where nothing else uses that layer's output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from nirmap.arithmetic import Handler
from nirmap.entries import Entry
from nirmap.errors import ConstraintError, TraceError
from nirmap.functions import asks_only, module_class
from nirmap.leaves import inexpressible, setting
from nirmap.signals import Constant, Signal, Source, Stacked, Stepped, Value
from nirmap.structures import values_of
from nirmap.views import Views, name_of
from nirmap_registry import rows
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Folded, Function, ModuleConstraint, Row

# How many axes the weight of a layer has that takes something in; the first is that of its channels.
_AXES = {"Affine": 2, "Linear": 2, "Conv1d": 3, "Conv2d": 4}
_OWN = "the output of a Linear, Conv1d or Conv2d that nothing else uses, which takes it in"


class Attributes:
    """Stands for a module that has the arguments of a function as attributes. Those that it lacks are None."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        vars(self).update(values)

    def __getattr__(self, name: str) -> Any:
        return None


class Layers(Views):
    """What functions mean that are layers, and what layers take in.

    Attributes:
        needed: the calls that the result depends on.
    """

    needed: set[Node]

    def further_handlers(self) -> dict[str, Handler]:
        """What is done for each meaning."""
        return {**super().further_handlers(), "module": self._as_module}

    def check_conditions(self, conditions: Iterable[ModuleConstraint], module: Any, where: str) -> None:
        """Holds what a bypassed or folded module is set to against the conditions.

        Raises:
            TraceError: one does not hold.
        """
        for constraint in conditions:
            if not constraint.holds(module, self.leaves.dt):
                raise TraceError(where, setting(module, constraint), constraint.because, constraint.do)

    def _as_module(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        kind = module_class(function)
        operand = arguments.pop("input")
        given = {name: self._argument(name, value, where) for name, value in arguments.items()}
        held = Attributes({**given, **function.attributes(given)})
        bypassed, folded = self.leaves.bypass_of(kind), self.leaves.folded_of(kind)
        if bypassed is not None:
            self.check_conditions(bypassed.reads_only_if, held, where)
            return self._bypass(node, function, {"input": operand}, where)
        if folded is not None:
            return self.fold(node, operand, folded, held, where)
        signal = self.signal(operand, where)
        row = self._row_for(kind, held, where)
        primitive, values = PRIMITIVES[row.node], row.read(held, self.leaves.dt)
        axes = _AXES.get(row.node)
        if axes is not None and np.ndim(values["weight"]) != axes:
            found = f"a weight with {np.ndim(values['weight'])} axes"
            raise TraceError(where, found, f"one with {axes}, for a nir.{row.node}", f"use {function.module}")
        return Signal.of(self.graph.add_node(name_of(node), primitive, values, signal, where))

    def _argument(self, name: str, value: Any, where: str) -> Any:
        """The value of an argument; a constant as an array.

        Raises:
            TraceError: it depends on the input.
        """
        held = self.values.get(value) if isinstance(value, Node) else None
        if isinstance(held, Constant):
            return rows.weight(held.value)
        if values_of(value, Node):
            raise TraceError(
                where,
                f"the argument {name} = {value!r}, which depends on the input",
                "a parameter or a number",
                "NIR has no node that multiplies two signals",
            )
        return value

    def _row_for(self, kind: type[torch.nn.Module], held: Attributes, where: str) -> Row:
        """The first row of a class whose conditions hold.

        Raises:
            ConstraintError: there is none.
        """
        broken: list[tuple[Row, ModuleConstraint]] = []
        for row in self.leaves.rows.get(kind, ()):
            failed = next(
                (entry for entry in row.reads_only_if if not entry.holds(held, self.leaves.dt)), None
            )
            if failed is None:
                return row
            broken.append((row, failed))
        if broken:
            raise inexpressible(where, held, broken)
        known = f"a function that the table of {self.leaves.registry.framework!r} has a module for"
        raise ConstraintError(
            where, f"what is as a {kind.__qualname__}", known, "name its framework with framework="
        )

    # What layers take in

    def fold(self, node: Node, operand: Any, folded: Folded, module: Any, where: str) -> Value:
        """The operand, after the layers that it is the sum of have taken in a module.

        Raises:
            TraceError: it is not the sum of layers alone, or something else uses their output too.
        """
        self.check_conditions(folded.reads_only_if, module, where)
        signal = self.signal(operand, where)
        scale, shift = (function(module, self.leaves.dt) for function in (folded.scale, folded.shift))
        do = f"put it right behind a layer (NIR has no node for a {folded.path})"
        for source in signal.terms:
            why = self._not_own(source, signal, node)
            if why:
                raise TraceError(where, why, _OWN, do)
            channels = _weight_of(self.graph.entries[source.node]).shape[0]
            if np.shape(shift) not in ((), (channels,)):
                found = f"{np.shape(shift)[0]} channels behind a layer with {channels}"
                raise TraceError(where, found, "as many as the layer has", "correct one of them")
        for index, (source, weight) in enumerate(signal.terms.items()):
            self._take_in(source.node, scale, shift / weight if index == 0 else np.zeros(()))
        return signal

    def shifted(self, node: Node, operand: Any, constant: torch.Tensor, factor: float, where: str) -> Value:
        """``factor`` times an operand, and a constant, which goes into the bias of a layer.

        Raises:
            TraceError: no layer can take it.
        """
        signal = self.signal(operand, where).times(factor)
        reasons: list[str] = []
        for source, weight in signal.terms.items():
            why = self._not_own(source, signal, node)
            shift = None if why else _per_channel(constant, _weight_of(self.graph.entries[source.node]))
            if shift is not None:
                self._take_in(source.node, np.ones(()), shift / weight)
                return signal
            reasons.append(why or f"its shape {tuple(constant.shape)} is not one number for each channel")
        raise TraceError(
            where,
            f"a constant that is added, where {reasons[0] if reasons else 'nothing is left of the other operand'}",
            _OWN,
            "use a layer with a bias",
        )

    def _not_own(self, source: Source, signal: Signal, user: Node) -> str:
        """Why a call may not change the layer that a term of its operand comes from; empty if it may."""
        entry = self.graph.entries.get(source.node)
        if source.delayed or source.entry is not None:
            return "it is of the step before"
        if not isinstance(entry, Entry) or entry.primitive.name not in _AXES:
            return f"{source.node!r} is no such layer"
        if _weight_of(entry).ndim != _AXES[entry.primitive.name]:
            return f"{source.node!r} has a weight with {_weight_of(entry).ndim} axes"
        if signal.terms[source] == 0:
            return f"nothing is left of {source.node!r}"
        # Back from the call to the one that made the output: each may have one user only, which is on that way.
        pending = [(call, user) for call in user.all_input_nodes]
        while pending:
            call, only = pending.pop()
            if not _holds(self.values.get(call), source):
                continue
            if any(
                other in self.needed and other is not only and not asks_only(other) for other in call.users
            ):
                return f"the output of {source.node!r} is used by something else too"
            pending += [(before, call) for before in call.all_input_nodes]
        return ""

    def _take_in(self, name: str, scale: Any, shift: Any) -> None:
        """Replaces a layer by one that does what follows it as well."""
        entry = self.graph.entries[name]
        if not isinstance(entry, Entry):
            raise TypeError(f"{name!r} is no layer")
        weight = _weight_of(entry)
        factors = np.broadcast_to(scale, weight.shape[:1]).reshape(-1, *(1,) * (weight.ndim - 1))
        bias = np.asarray(entry.values.get("bias", 0.0), dtype=np.float64) * scale + shift
        values = {
            **entry.values,
            "weight": (weight * factors).astype(weight.dtype),
            "bias": np.broadcast_to(bias, weight.shape[:1]).astype(weight.dtype),
        }
        kind = "Affine" if entry.primitive.name == "Linear" else entry.primitive.name
        self.graph.entries[name] = replace(entry, primitive=PRIMITIVES[kind], values=values)


def _weight_of(entry: object) -> rows.Array:
    """The weight of a layer."""
    return np.asarray(entry.values["weight"]) if isinstance(entry, Entry) else np.zeros(())


def _holds(value: Value | None, source: Source) -> bool:
    """Whether a value is made of an output."""
    if isinstance(value, Stacked):
        return any(source in signal.terms for signal in value.signals)
    signal = value.signal if isinstance(value, Stepped) else value
    return isinstance(signal, Signal) and source in signal.terms


def _per_channel(constant: torch.Tensor, weight: rows.Array) -> rows.Array | None:
    """A constant as one number for each channel of a layer, or one for all; None where it is neither."""
    if constant.ndim > weight.ndim:  # the output of a layer, batch included, has as many axes as its weight
        return None
    shape = tuple(constant.shape)
    while shape and shape[0] == 1:
        shape = shape[1:]
    array = rows.array(constant)
    if not shape:
        return array.reshape(())
    # Behind the channels, a convolution has spatial axes.
    return array.reshape(-1) if shape == (weight.shape[0], *(1,) * (weight.ndim - 2)) else None

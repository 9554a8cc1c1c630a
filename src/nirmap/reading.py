"""Reads a recorded network, or a rebuilt one, into a NIR graph: one pass over its calls, in order."""

from __future__ import annotations

import inspect
import operator
from dataclasses import replace
from typing import Any, cast

import torch
from torch.fx import Node

from nirmap.assembling import GraphUnderConstruction
from nirmap.cells import Cell
from nirmap.entries import Entry
from nirmap.errors import ConstraintError, TraceError
from nirmap.functions import is_in_place, is_zeros
from nirmap.graph_cells import WHOLE, GraphCell
from nirmap.graphs import written
from nirmap.leaves import Leaves, check_hooks, effective, returned_values
from nirmap.network import NameOutputs, Network, PackState, UnpackState
from nirmap.report import Report
from nirmap.resets import metadata_of
from nirmap.series import Change, Series, unrewritten
from nirmap.signals import (
    Constant,
    NamedOutputs,
    Returned,
    Signal,
    StateEntry,
    StateParts,
    StateValue,
    Stepped,
    Value,
)
from nirmap.state_arguments import misplaced, state_arguments
from nirmap.stepping import Stepping
from nirmap.structures import parts_of
from nirmap.subclasses import class_of
from nirmap.time_axes import takes
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Rewrite, Values


class Reader(Stepping):
    """Reads the calls of an fx graph, each of which gives a :data:`nirmap.signals.Value`."""

    def read(self) -> GraphUnderConstruction:
        """The NIR graph; its shapes are not known yet."""
        self.needed = _needed(self.traced)
        self.graph.reserved |= self.reserved_names()
        for node in self.traced.nodes:
            if node not in self.needed:
                continue
            where = self.where(node)
            if node.op == "placeholder":
                self.values[node] = self.placeholder(node)
            elif node.op == "get_attr":
                self.values[node] = self.constant(node)
            elif node.op == "call_module":
                self.values[node] = self._module(node, where)
            elif node.op == "output":
                self.output(node)
            else:
                self.values[node] = self.function(node, where)
        return self.graph

    def reserved_names(self) -> set[str]:
        """The names that nodes will have, before any is added."""
        targets = [
            str(node.target) for node in self.traced.nodes if node.op in ("call_module", "placeholder")
        ]
        return {self.names.get(target, target) for target in targets}

    def placeholder(self, node: Node) -> Value:
        """What an argument stands for."""
        raise NotImplementedError

    def constant(self, node: Node) -> Value:
        """A parameter or buffer."""
        value: Any = self.root
        for name in str(node.target).split("."):
            value = getattr(value, name)
        return Constant(str(node.target), value.detach())

    def output(self, node: Node) -> None:
        """Adds the outputs."""
        raise NotImplementedError

    # Modules

    def _module(self, node: Node, where: str) -> Value:
        target = str(node.target)
        module = self.root.get_submodule(target)
        if isinstance(module, UnpackState):
            return StateParts(tuple(entry.name for entry in module.entries))
        if isinstance(module, PackState):
            return StateValue()
        if isinstance(module, NameOutputs):
            signals = [self.signal(entry, where) for entry in node.args]
            return NamedOutputs(dict(zip(module.names, signals, strict=True)))
        check_hooks(module, where)
        entry, others = _input_and_state(node, module, where)
        bypassed = None if self.leaves.given(module) else self.leaves.bypass(module)
        if bypassed is not None and bypassed.splits_time is not None:
            return Stepped(self.signal(entry, where), bypassed.splits_time, whole=True)
        value = self.for_each_step(
            (entry,), takes(self.leaves, module), where, lambda: self._call(node, entry, module, where)
        )
        if bypassed is not None and bypassed.joins_time is not None and isinstance(value, Stepped):
            return value.signal
        for name, other in others.items():
            self._take_state(name, other, value, where)
        return value

    def _call(self, node: Node, entry: Any, module: torch.nn.Module, where: str) -> Value:
        """What a module makes of a single step."""
        signal = self.signal(entry, where)
        if not self.leaves.given(module):
            bypassed, folded = self.leaves.bypass(module), self.leaves.folded(module, where)
            if bypassed is not None:
                self.check_conditions(bypassed.reads_only_if, module, where)
                return signal
            if folded is not None:
                with effective(module):
                    return self.fold(node, entry, folded, module, where)
        target = str(node.target)
        return self.add(node, module, self.names.get(target, target), signal, where)

    def _take_state(self, name: str, entry: Any, value: Value, where: str) -> None:
        """Takes note of a module's state argument.

        Raises:
            TraceError: it is no state, or that of another module.
        """
        parts = parts_of(entry)
        for part in () if parts is None else parts.values():
            self._take_state(name, part, value, where)
        held = self.values.get(entry) if isinstance(entry, Node) else entry
        is_zero = not held.value.any() if isinstance(held, Constant) else held in (0, False)
        if held is None or parts is not None or is_zero:
            return  # nothing, or the initial state
        if isinstance(value, Returned) and isinstance(held, StateEntry):
            self.given_to[held.number], self.given_as[held.number] = value.node, name
        elif not isinstance(value, Returned) or not isinstance(held, StateValue):
            expected = "one input, and state that modules returned"
            do = "join several inputs with + before the module"
            raise TraceError(where, f"the further argument {entry!r}", expected, do)
        elif held.node is not None and self.graph.last_part(held.node) != value.node:
            expected = f"that of {value.node!r}"
            raise TraceError(where, f"the state of {held.node!r}", expected, "give each module its own state")
        elif held.variable not in (None, name):
            raise misplaced(where, name, str(held.variable))

    def add(self, node: Node, module: torch.nn.Module, name: str, signal: Signal, where: str) -> Value:
        """The node for a module, and what the module returned."""
        given = self.leaves.given(module)
        if given is not None:
            added = self.graph.add_given(name, module, given(module), signal, where)
            is_stateful = (
                class_of(module) in self.leaves.stateful
                or "state" in inspect.signature(module.forward).parameters
            )
            return Returned(added, 0) if is_stateful or _is_unpacked(node) else Signal.of(added)
        if isinstance(module, Network):
            return Returned(self.graph.add_graph(name, module, self.sub_graph(module), signal, where), 0)
        if isinstance(module, Series):
            return self._series(module, name, signal, where)
        row = self.leaves.row_of(module, where)
        if row.graph is not None:
            for part in torch.nn.Module.modules(module):
                check_hooks(part, where)
            inner = written(row.graph, self.leaves.read(module, row)[1], where, reset=row.reset)
            added = self.graph.add_graph(name, module, inner, signal, where)
        else:
            primitive, values = self.leaves.read(module, row)
            added = self.graph.add_module(
                name, module, primitive, values, signal, where, metadata_of(row.reset)
            )
        if row.state is None:
            return Signal.of(added)
        if isinstance(module, Cell):
            return Returned(added, 0) if module.stateful else Signal.of(added)
        if returned_values(row.state, module) is None:
            return Signal.of(added)
        if row.state.output is None:
            return Returned(added, 0)
        returned = row.state.returns or [entry.kept_as for entry in row.state.variables]
        return Returned(added, 1 + list(returned).index(row.state.output))

    def _series(self, series: Series, name: str, signal: Signal, where: str) -> Value:
        """The node that a series stands for; where training made another one of it, the nodes of its parts."""
        rewrite = series.rewrite
        values, changes, parts = self._unrewritten(series, name, where)
        if not changes:
            added = self.graph.add_module(
                name, series, PRIMITIVES[series.node], values, signal, where, metadata_of(series.reset)
            )
            return Returned(added, 0) if series.stateful else Signal.of(added)
        for change in changes:
            if series.begins_anew(change.part):
                kind = dict(rewrite.series)[change.part]
                why = f"this part begins every step anew, while a {PRIMITIVES[kind].path} remembers the step before"
                raise _changed(rewrite, change, f"node {name!r}", why)
        written: list[tuple[str, Entry, torch.nn.Module]] = []
        for part, node in rewrite.series:
            primitive = PRIMITIVES[node]
            metadata = metadata_of(series.reset if primitive.subtracts else "value")
            written.append((part, Entry(primitive, parts[part], where, metadata), series.part(part)))
        last = self.graph.add_series(name, written, signal, where)
        return Returned(last, 0) if series.stateful else Signal.of(last)

    def _unrewritten(
        self, series: Series, name: str, where: str
    ) -> tuple[Values, list[Change], dict[str, Values]]:
        """The parameters of the node, what the rewrite would not make of it, and the parameters of the parts."""
        parts = {part: self._part(series.part(part), f"{name}_{part}", where) for part in series.names}
        return *unrewritten(series, parts, self.leaves.dt), parts

    def _part(self, module: torch.nn.Module, name: str, where: str) -> Values:
        """The parameters of one part of a series, which may be a series itself."""
        if not isinstance(module, Series):
            return self.leaves.read(module, self.leaves.row_of(module, where))[1]
        values, changes, _ = self._unrewritten(module, name, where)
        if changes:
            why = "it is itself a part of a node"
            raise _changed(module.rewrite, changes[0], f"node {name!r}", why)
        return values

    def sub_graph(self, network: Network) -> GraphUnderConstruction:
        """The graph of a rebuilt network inside of this one."""
        return NetworkReader(network, self.leaves).read()


class NetworkReader(Reader):
    """Reads a network that :func:`nirmap.from_nir` rebuilt: its report has the names of the graph.

    Raises:
        TraceError: it was rebuilt for another time step.
    """

    def __init__(self, network: Network, leaves: Leaves) -> None:
        self.report = cast("Report", network.meta["nirmap"])
        if self.report.dt != leaves.dt:
            raise TraceError(
                "dt",
                f"{leaves.dt:g} s for a network that was rebuilt for {self.report.dt:g} s",
                "the time step that its modules were made for",
                "leave out dt, or rebuild the network with it",
            )
        identifiers = self.report.identifiers
        # Whoever rebuilt the network said how its neurons are reset.
        leaves = replace(leaves, reset="subtract")
        super().__init__(
            network.graph, network, leaves, {identifiers[name]: name for name in self.report.nodes}
        )
        self.arguments = {identifiers[name]: name for name in self.report.inputs}
        self.graph.shapes_are_exact = True

    def read(self) -> GraphUnderConstruction:
        """The NIR graph; that of one module of the framework, where the network is one."""
        whole = self.root.get_submodule(WHOLE) if hasattr(self.root, WHOLE) else None
        if not isinstance(whole, GraphCell) or whole.cell.graph is None:
            return super().read()
        row = self.leaves.row_of_cell(whole.cell, whole.cell.path)
        _, values = self.leaves.read(whole.cell, row)
        return written(whole.cell.graph, values, whole.cell.path, whole.names, row.reset)

    def reserved_names(self) -> set[str]:
        """All names of the graph."""
        return super().reserved_names() | {*self.report.inputs, *self.report.outputs}

    def placeholder(self, node: Node) -> Value:
        """An input, under the name of its Input node, or the state."""
        name = self.arguments.get(str(node.target))
        return StateValue() if name is None else Signal.of(self.graph.add_input(name))

    def output(self, node: Node) -> None:
        """Adds the outputs under the names of their Output nodes."""
        result = cast("tuple[Node, ...]", node.args[0])[0]
        value = self.values[result]
        if isinstance(value, NamedOutputs):
            for name, signal in value.signals.items():
                self.graph.add_output(name, signal)
        else:
            self.graph.add_output(self.report.outputs[0], self.signal(result, "the network's output"))
        self.graph.connect({})


def _changed(rewrite: Rewrite, change: Change, where: str, why: str) -> ConstraintError:
    """The error for a part of a series that no node can express as it is now."""
    return ConstraintError(
        f"{where} ({rewrite.name}: {change.part})",
        f"{change.parameter} = {change.found}",
        f"{change.expected}, which {rewrite.name} makes it for a {PRIMITIVES[rewrite.node].path} ({why})",
        "set it back, or rebuild the network from a graph with the nodes that you want",
    )


def _needed(graph: torch.fx.Graph) -> set[Node]:
    """The calls that the result depends on, calls in place, and all arguments."""
    pending = [node for node in graph.nodes if node.op in ("placeholder", "output") or is_in_place(node)]
    needed = set(pending)
    while pending:
        user = pending.pop()
        for node in () if is_zeros(user) else user.all_input_nodes:
            if node not in needed:
                needed.add(node)
                pending.append(node)
    return needed


def _input_and_state(node: Node, module: torch.nn.Module, where: str) -> tuple[Any, dict[str, Any]]:
    """The first argument of a module's call, and the others by their names."""
    others = state_arguments(node, module)
    if node.args:
        return node.args[0], others
    name = next(iter(inspect.signature(module.forward).parameters), "")
    if name not in others:
        raise TraceError(where, "a call without its first argument", f"the input, as {name!r}")
    return others.pop(name), others


def _is_unpacked(node: Node) -> bool:
    return any(user.target is operator.getitem for user in node.users)

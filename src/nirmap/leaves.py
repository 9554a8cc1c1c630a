"""Which modules a tracer does not enter, and what each of them stands for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import nir
import torch

from nirmap.cells import Cell
from nirmap.declared_graphs import primitive_of
from nirmap.errors import ConstraintError, TraceError
from nirmap.network import NameOutputs, Network, PackState, UnpackState
from nirmap.registry import frameworks, load_registry, rows_for_module
from nirmap.resets import RESET_KEY, Reset
from nirmap.series import Series
from nirmap.subclasses import check_overrides, class_of, has_parametrizations
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import (
    Bypassed,
    Container,
    Folded,
    ModuleConstraint,
    Primitive,
    Registry,
    Row,
    StateCall,
    Values,
)

ModuleMap = Mapping[type[torch.nn.Module], Callable[[torch.nn.Module], nir.NIRNode]]
OWN = (Cell, Series, UnpackState, PackState, NameOutputs, Network)


@dataclass(frozen=True)
class Leaves:
    """The leaf modules of one conversion.

    Attributes:
        registry: the framework's table.
        module_map: the caller's functions, which take precedence over the table.
        dt: time step in s.
        reset: ``subtract`` if modules that subtract their threshold are written too.
        stateful: classes in ``module_map`` whose modules return their output and their state.
    """

    registry: Registry
    module_map: ModuleMap
    dt: float
    reset: Reset = "value"
    stateful: frozenset[type[torch.nn.Module]] = frozenset()
    rows: dict[type[torch.nn.Module], list[Row]] = field(
        default_factory=dict[type[torch.nn.Module], list[Row]]
    )
    leaf_kinds: dict[type[torch.nn.Module], bool] = field(
        default_factory=dict[type[torch.nn.Module], bool], init=False
    )

    def __post_init__(self) -> None:
        for row in (*self.registry.rows, *self.registry.graphs):
            self.rows.setdefault(row.module, rows_for_module(self.registry, row.module))
        # The built-in modules are known in every framework: they serve where one cannot express a node.
        built_in = load_registry("torch")
        for row in built_in.rows:
            self.rows.setdefault(row.module, rows_for_module(built_in, row.module))

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """Beginnings of module names: those of frameworks, whose modules are not entered."""
        names = ({entry.__module__.partition(".")[0] for entry in self.rows} | frameworks().keys()) - {
            "torch"
        }
        return tuple(f"{name}." for name in sorted(names))

    def is_leaf(self, module: torch.nn.Module) -> bool:
        """Whether a module is one node, or one of the project's own, or cannot be entered at all."""
        kind = class_of(module)
        if kind not in self.leaf_kinds:
            self.leaf_kinds[kind] = self._is_leaf_kind(kind)
        return self.leaf_kinds[kind]

    def _is_leaf_kind(self, kind: type[torch.nn.Module]) -> bool:
        if issubclass(kind, OWN) or kind in self.module_map or self.bypass_of(kind) is not None:
            return True
        if self.container_of(kind) is not None:
            return False
        if any(base in self.rows for base in kind.__mro__) or self.folded_of(kind) is not None:
            return True
        containers = torch.nn.Sequential | torch.nn.ModuleList | torch.nn.ModuleDict
        is_known = kind.__module__.startswith(("torch.nn", "torch.ao.nn", *self.packages))
        return is_known and not issubclass(kind, containers)

    def given(self, module: torch.nn.Module) -> Callable[[torch.nn.Module], nir.NIRNode] | None:
        """The caller's function for a module."""
        return self.module_map.get(class_of(module))

    def bypass(self, module: torch.nn.Module) -> Bypassed | None:
        """The entry for a module that only hands its input on."""
        return self.bypass_of(class_of(module))

    def bypass_of(self, kind: type[torch.nn.Module]) -> Bypassed | None:
        """The entry for a class whose modules only hand their input on."""
        return next((entry for entry in self.registry.bypassed if kind is entry.module), None)

    def container(self, module: torch.nn.Module) -> Container | None:
        """The entry for a module of a framework that only arranges others."""
        return self.container_of(class_of(module))

    def container_of(self, kind: type[torch.nn.Module]) -> Container | None:
        """The entry for a class whose modules only arrange others."""
        return next((entry for entry in self.registry.containers if kind is entry.module), None)

    def sequence_axis(self, module: torch.nn.Module) -> int | None:
        """The axis of time of the sequences that a module of the table takes; None for one that takes single steps."""
        sequences = self.registry.sequences
        if sequences is not None and sequences.holds(_Attributes(module)):
            return sequences.time_axis
        container, bypassed = self.container(module), self.bypass(module)
        if container is not None:
            return container.time_axis
        if bypassed is not None:
            return bypassed.joins_time
        state = self._state_of(module)
        return None if state is None else state.time_axis

    def _state_of(self, module: torch.nn.Module) -> StateCall | None:
        """How a module of the table keeps its state."""
        base = next((entry for entry in class_of(module).__mro__ if entry in self.rows), None)
        return None if base is None else self.rows[base][0].state

    def folded_of(self, kind: type[torch.nn.Module]) -> Folded | None:
        """The entry for a class, or for a base class of it, whose modules are taken in by the layer before them."""
        entries = {entry.module: entry for entry in self.registry.folded}
        return next((entries[base] for base in kind.__mro__ if base in entries), None)

    def folded(self, module: torch.nn.Module, where: str) -> Folded | None:
        """The entry for a module that the layer before it takes in.

        Raises:
            TraceError: it is of a subclass that overrides what the entry relies on.
        """
        entry = self.folded_of(class_of(module))
        if entry is not None:
            check_overrides(module, entry.module, [], entry.path, where)
        return entry

    def returned_values(self, module: torch.nn.Module) -> int | None:
        """How many values a stateful module of the table returns, its output among them; None for any other module."""
        if self.given(module) is not None:
            return None
        if isinstance(module, Cell | Series):
            return 2 if module.stateful else None
        if isinstance(module, Network):
            return 2
        state = self._state_of(module)
        return None if state is None else returned_values(state, module)

    def variable(self, module: torch.nn.Module, index: int) -> str | None:
        """The state variable that a module returns at an index, as its argument is called; None where that is open."""
        state = None if isinstance(module, OWN) or self.given(module) is not None else self._state_of(module)
        if state is None or state.call != "positional":
            return None
        names = state.returns or [entry.kept_as for entry in state.variables]
        return names[index - 1] if 0 < index <= len(names) else None

    def goes_on(self, module: torch.nn.Module) -> bool:
        """Whether a module that is given no state goes on from that of its last call."""
        state = None if isinstance(module, OWN) or self.given(module) is not None else self._state_of(module)
        return state is not None and (state.call == "attributes" or state.alone_if is not None)

    def kept_state(self, module: torch.nn.Module) -> frozenset[str]:
        """The attributes in which a module of the table keeps its state; none for any other module."""
        calls = [row.state for row in self.rows.get(class_of(module), ()) if row.state is not None]
        return frozenset(
            name
            for call in calls
            for name in (*call.zeroed, *call.hides, *(variable.kept_as for variable in call.variables))
        )

    def candidates(self, module: torch.nn.Module, where: str) -> list[Row]:
        """The rows of a module's class, or of a base class that it does not change in what the rows rely on.

        Raises:
            TraceError: no row is there, or a subclass overrides ``forward`` or an attribute that is read.
        """
        kind = class_of(module)
        base = next((entry for entry in kind.__mro__ if entry in self.rows), None)
        if base is None:
            raise TraceError(
                where,
                f"a {kind.__module__}.{kind.__qualname__}",
                f"a module that the table of {self.registry.framework!r} knows",
                "add it to the mappings, pass a function for it in module_map, or name its framework with framework=",
            )
        rows = self.rows[base]
        check_overrides(module, base, rows, rows[0].path, where)
        return rows

    def holds(self, condition: ModuleConstraint, module: torch.nn.Module) -> bool:
        """Whether a module fulfils a condition, as its next call would find it."""
        with effective(module):
            return condition.holds(_Attributes(module), self.dt)

    def row_for(self, module: torch.nn.Module, where: str) -> Row:
        """The first row whose conditions the module fulfils.

        Raises:
            ConstraintError: NIR cannot express the module as it is set.
        """
        broken: list[tuple[Row, ModuleConstraint]] = []
        rows = self.candidates(module, where)
        for row in rows:
            if row.not_read:
                continue
            failed = self._broken(module, row)
            if failed is None and row.reset not in ("value", self.reset):
                raise _subtracting(module, row, where)
            if failed is None:
                return row
            if row.reset in ("value", self.reset):
                broken.append((row, failed))
        if not broken:
            raise ConstraintError(
                where, f"a {rows[0].path}", "a module that stands for a node", rows[0].not_read
            )
        raise inexpressible(where, module, broken)

    def _broken(self, module: torch.nn.Module, row: Row) -> ModuleConstraint | None:
        """The first condition of a row that a module does not fulfil."""
        if not row.reads_only_if:
            return None
        with effective(module):
            attributes = _Attributes(module)
            return next((entry for entry in row.reads_only_if if not entry.holds(attributes, self.dt)), None)

    def read(self, module: torch.nn.Module, row: Row) -> tuple[Primitive, Values]:
        """The primitive that a module stands for and its parameters, as the module's next call would use them.

        Those of a module that is a graph go by ``node.parameter``.
        """
        primitive = primitive_of(row)
        if not isinstance(module, Cell):
            with effective(module):
                return primitive, row.read(module, self.dt)
        return primitive, module.read(row, self.dt)

    def row_of(self, module: torch.nn.Module, where: str) -> Row:
        """The row that a module is read by: that from which a cell was built, else the first that fits."""
        return self.row_of_cell(module, where) if isinstance(module, Cell) else self.row_for(module, where)

    def row_of_cell(self, cell: Cell, where: str) -> Row:
        """The row from which a cell was built.

        Raises:
            TraceError: the framework's table has no such row.
            ConstraintError: the module was changed since, into one that NIR cannot express.
        """
        for rows in self.rows.values():
            for row in rows:
                if row.build is cell.recipe.build:
                    failed = self._broken(cell.current(), row)
                    if failed is not None:
                        raise inexpressible(where, cell.module, [(row, failed)])
                    return row
        raise TraceError(
            where,
            f"a cell around {cell.path}",
            f"a module of {self.registry.framework!r}",
            "name the framework",
        )


@dataclass(frozen=True)
class _Attributes:
    """The attributes of a module, of which those that it lacks are None."""

    module: torch.nn.Module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name, None)


def inexpressible(where: str, module: Any, broken: list[tuple[Row, ModuleConstraint]]) -> ConstraintError:
    """The error for a module that no row reads, with the condition of each row that it does not fulfil."""
    return ConstraintError(
        where,
        f"{broken[0][0].path} with " + ", ".join(sorted({setting(module, entry) for _, entry in broken})),
        "; or ".join(dict.fromkeys(_demand(row, entry) for row, entry in broken)),
        next((entry.do for _, entry in broken if entry.do), ""),
    )


def _subtracting(module: torch.nn.Module, row: Row, where: str) -> ConstraintError:
    """A module that is reset by subtraction, where nobody said that it may be."""
    return ConstraintError(
        where,
        f"a {class_of(module).__qualname__} that is reset by subtraction",
        "a neuron that is reset to a value, as those of NIR are",
        f"reset='subtract' writes it as {_what(row)} with metadata[{RESET_KEY!r}] = 'subtract', which nirmap reads "
        "and other tools may not",
    )


def returned_values(state: StateCall, module: torch.nn.Module) -> int | None:
    """How many values a module returns, the output among them; None for one that returns the output alone."""
    if state.alone_if is not None and state.alone_if(_Attributes(module)):
        return None
    if state.call in ("explicit", "record"):
        return 2
    if state.returns is not None:
        return 1 + len(state.returns)
    return 1 + len(state.variables) if state.call == "positional" else None


@contextmanager
def effective(module: torch.nn.Module) -> Generator[None]:
    """Inside, a module's attributes are those that its next call would use; afterwards they are as before.

    Weights that torch computes before each call (``torch.nn.utils.weight_norm``, ``spectral_norm``, ``prune``) are out
    of date between calls; those of ``torch.nn.utils.parametrizations`` are computed whenever they are read, which may
    change buffers.
    """
    # Frameworks may have a method of their own that is called ``modules``.
    parts = list(torch.nn.Module.modules(module))
    hooks = [
        (hook, part)
        for part in parts
        for hook in vars(part)["_forward_pre_hooks"].values()
        if is_of_torch(hook)
    ]
    if not hooks and not any(has_parametrizations(part) for part in parts):
        yield
        return
    attributes = [(part, dict(vars(part))) for part in parts]
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    try:
        with torch.no_grad():
            for hook, part in hooks:
                hook(part, ())
        yield
    finally:
        for part, held in attributes:
            vars(part).update(held)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def is_of_torch(hook: object) -> bool:
    """Whether a hook computes a weight in torch's own way."""
    return type(hook).__module__.startswith("torch.nn.utils.")


def check_hooks(module: torch.nn.Module, where: str) -> None:
    """Refuses hooks, which may change what goes into and comes out of a module.

    Raises:
        TraceError: a module has a forward hook that is not one of torch's own.
    """
    hooks = (*vars(module)["_forward_pre_hooks"].values(), *vars(module)["_forward_hooks"].values())
    foreign = [hook for hook in hooks if not is_of_torch(hook)]
    if foreign:
        raise TraceError(
            where,
            f"a forward hook, {getattr(foreign[0], '__qualname__', type(foreign[0]).__qualname__)}",
            "a module without hooks, since a hook may change its result",
            "remove the hook with the handle that registering it returned",
        )


def _demand(row: Row, constraint: ModuleConstraint) -> str:
    """What a module has to fulfil for a row."""
    return f"{constraint.that} for {_what(row)} ({constraint.because})"


def _what(row: Row) -> str:
    """What a module of a row is in NIR."""
    if row.graph is None:
        return f"a {PRIMITIVES[row.node].path}"
    return "a graph of " + ", ".join(dict.fromkeys(node for _, node in row.graph.nodes))


def setting(module: Any, constraint: ModuleConstraint) -> str:
    """The attributes that a condition speaks of, as a module has them."""
    parts: list[str] = []
    for path in constraint.attributes:
        value: Any = module
        for name in path.split("."):
            value = getattr(value, name, None)
        if isinstance(value, torch.Tensor):
            numbers = [entry.item() for entry in value.detach().flatten()]
            value = numbers[0] if len(set(numbers)) == 1 else numbers[:3]
        parts.append(f"{path} = {value}")
    return ", ".join(parts)

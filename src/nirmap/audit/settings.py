"""Modules made with their class's own constructor: as a row can be read, and such that one of its conditions is broken.

Users set modules in ways in which nirmap never builds one. So arguments of the constructor are varied until all
conditions of a row hold, and then until one of them does not. The values come from the signature (defaults, types) and
from the conditions, whose constants are what a module is compared with; nothing here knows a framework.
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from nirmap.audit.sketches import DT, Random
from nirmap.audit.substitutes import OWN, as_given, as_layer
from nirmap.declared_graphs import GRAPH
from nirmap.errors import NirmapError
from nirmap.leaves import Leaves
from nirmap.registry import constructor_parameters, rows_for_module
from nirmap.structures import is_named_tuple
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import ModuleConstraint, Row

WIDTH = 4
_NUMBERS = (2 * DT, 0.0, 1.0, 1e30, 0.6, 3.0, 0.1, -0.5, 1e-9)
_INTEGERS = (2, 1, 0)
# Between which numbers an argument is drawn, one of the ranges for each: decays, and thresholds or times in steps.
_RANGES = ((0.3, 0.95), (1.2, 6.0))
_TRIES = 200
_SHAPES: Mapping[str, tuple[int, ...]] = {
    "Conv1d": (WIDTH, 7),
    "Conv2d": (WIDTH, 7, 8),
    "SumPool2d": (2, 7, 8),
    "AvgPool2d": (2, 7, 8),
    "Flatten": (2, 3, 4),
}

Arguments = dict[str, Any]


def input_shape(row: Row) -> tuple[int, ...]:
    """The shape of an input, without batch, of the modules that are made for a row."""
    if row.node != GRAPH:
        return _SHAPES.get(row.node, (WIDTH,))
    kinds = [node for _, node in row.graph.nodes] if row.graph is not None else []
    # A kernel of an odd size leaves the shape as it is.
    return (3, 7, 8) if "Conv2d" in kinds else (3,)


@dataclass(frozen=True)
class Setting:
    """A module that can be made as often as it is needed.

    Attributes:
        row: the row of its class.
        arguments: of its constructor.
        attribute: dotted path of an attribute that is set afterwards; empty where none is.
        value: its value.
    """

    row: Row
    arguments: Arguments
    attribute: str = ""
    value: Any = None

    def make(self) -> torch.nn.Module:
        """The module, in evaluation mode; the constructor's exceptions pass."""
        torch.default_generator.manual_seed(0)  # frameworks draw weights
        module = self.row.module(**copy.deepcopy(self.arguments)).eval()
        if self.attribute:
            *path, name = self.attribute.split(".")
            owner: Any = module
            for part in path:  # an object may be a default that all modules of the class share
                setattr(owner, part, copy.deepcopy(getattr(owner, part)))
                owner = getattr(owner, part)
            held: Any = getattr(owner, name, None)
            if (
                isinstance(owner, torch.nn.Module)
                and isinstance(held, torch.Tensor)
                and self.value is not None
            ):
                with torch.no_grad():
                    held.fill_(self.value)
            else:
                setattr(owner, name, self.value)
        return module


class Settings:
    """The settings of the modules of one row.

    Args:
        leaves: the framework's table and dt.
        row: the row.
    """

    def __init__(self, leaves: Leaves, row: Row) -> None:
        self.leaves = leaves
        self.row = row
        self.parameters = _parameters(row.module)
        self.width = input_shape(row)[0] if row.node == GRAPH else WIDTH

    @cached_property
    def fitting(self) -> Setting | None:
        """The first setting found by which all conditions hold."""
        required = [name for name, value in self.parameters.items() if value.default is value.empty]
        one_more = [
            {name: self.width if "tuple" in str(value.annotation) or self.row.node == GRAPH else 2}
            for name, value in self.parameters.items()
            if value.default is None and name in constructor_parameters(self.row.module)
        ]
        all_of_them: Arguments = {name: self._required(name) for name in required}
        # Some of those that only a base class takes are given by the class itself.
        own = {
            name: value
            for name, value in all_of_them.items()
            if name in constructor_parameters(self.row.module)
        }
        starts: list[Arguments] = [own, all_of_them, *(all_of_them | more for more in one_more)]
        if len(input_shape(self.row)) > 1 and self.row.node == GRAPH:  # a convolution has several sizes
            several = [all_of_them | one | other for one, other in itertools.combinations(one_more, 2)]
            starts = several + starts
        starts.append(dict.fromkeys(required, (self.width, self.width)))
        found = (self._mended(Setting(self.row, arguments)) for arguments in starts)
        fitting = next((setting for setting in found if setting is not None), None)
        return fitting if fitting is None or self.row.graph is None else self._own(fitting)

    def _own(self, setting: Setting) -> Setting:
        """The setting, with one switch more where another row of the class reads it as it is."""
        switches = [name for name, value in self.parameters.items() if isinstance(value.default, bool)]
        others = [
            Setting(self.row, setting.arguments | {name: not self.parameters[name].default})
            for name in switches
        ]
        own = (entry for entry in (setting, *others) if self._count(entry) == 0 and self._is_read(entry))
        return next(own, setting)

    def _is_read(self, setting: Setting) -> bool:
        """Whether a module is read by this row, and not by one before it."""
        try:
            return self.leaves.row_for(setting.make(), "module") is self.row
        except NirmapError:
            return False

    def _required(self, name: str) -> Any:
        """A value for an argument without default, of the type that its annotation names."""
        kind: object = self.parameters[name].annotation
        annotation = str(kind)
        if name == "dt":
            return DT
        if isinstance(kind, type) and issubclass(kind, tuple):
            # The module of a class of records has records of its own, such as sets of parameters by name.
            known: list[object] = list(vars(sys.modules[kind.__module__]).values())
            return next((value for value in known if value.__class__ is kind), self.width)
        if "Tensor" in annotation and "float" not in annotation:
            return torch.full((self.width,), 0.6)
        if "bool" in annotation:
            return True
        is_elementwise = self.row.node == GRAPH or PRIMITIVES[self.row.node].shape == "elementwise"
        return self.width if "int" in annotation or not is_elementwise else 0.6

    def breaking(self, condition: ModuleConstraint) -> Setting | None:
        """A setting by which this is the first condition that does not hold; by the constructor, where that can be."""
        if self.fitting is None:
            return None
        heads = {path.partition(".")[0] for path in condition.attributes}
        named = [name for name in self.parameters if name in heads]
        others = [name for name, value in self.parameters.items() if isinstance(value.default, bool)]
        return next(
            (
                setting
                for setting in self._changed(self.fitting, named, others, condition.attributes)
                if self._first_broken(setting) is condition
            ),
            None,
        )

    def _changed(
        self, setting: Setting, named: list[str], others: list[str], paths: Iterable[str]
    ) -> Iterator[Setting]:
        """Settings that differ in one argument, in two, or in an attribute that is set afterwards."""
        nested = [path for path in paths if "." in path]
        yield from self._changed_attributes(setting, nested)
        for name, value in (*self._values(named), *self._values(others)):
            yield Setting(self.row, setting.arguments | {name: value})
        for first, second in itertools.combinations(named, 2):
            for left, right in itertools.product(self._values([first]), self._values([second])):
                yield Setting(self.row, setting.arguments | dict((left, right)))
        yield from self._changed_attributes(setting, [path for path in paths if path not in nested])

    def _changed_attributes(self, setting: Setting, paths: Iterable[str]) -> Iterator[Setting]:
        for path in paths:
            for value in self._like(_held(setting.make(), path)):
                yield Setting(self.row, setting.arguments, path, value)

    def drawn(self, random: Random) -> Iterator[Setting]:
        """Settings with other numbers, by which all conditions hold; the fitting one, where there are no numbers."""
        if self.fitting is None:
            return
        numeric = [
            name for name in self.fitting.arguments.keys() | self.parameters.keys() if self._is_drawn(name)
        ]
        if not numeric:
            yield self.fitting
            return
        # What a condition pins to a number is drawn in vain.
        for is_pinned in (False, True):
            found = False
            for _ in range(_TRIES):
                setting = self._drawn(numeric, random)
                setting = self._as_demanded(setting) if is_pinned else setting
                if self._count(setting) == 0:
                    found = True
                    yield setting
            if found:
                return

    def _drawn(self, names: list[str], random: Random) -> Setting:
        """The fitting setting with other numbers for some arguments."""
        arguments = dict(self.fitting.arguments) if self.fitting is not None else {}
        for name in sorted(names):
            low, high = _RANGES[random.integers(len(_RANGES))]
            is_tensor = isinstance(arguments.get(name), torch.Tensor)
            drawn = random.uniform(low, high, self.width) if is_tensor else float(random.uniform(low, high))
            arguments[name] = torch.tensor(drawn) if is_tensor else drawn
        return Setting(self.row, arguments)

    def _as_demanded(self, setting: Setting) -> Setting:
        """The setting with those arguments as they fit that conditions speak of which do not hold."""
        broken = self._broken(setting)
        if not broken or self.fitting is None:
            return setting
        heads = {path.partition(".")[0] for entry in broken for path in entry.attributes}
        fitting = self.fitting.arguments
        arguments = {
            name: fitting.get(name) if name in heads else value for name, value in setting.arguments.items()
        }
        return Setting(
            self.row,
            {name: value for name, value in arguments.items() if name not in heads or name in fitting},
        )

    def _is_drawn(self, name: str) -> bool:
        """Whether an argument is a number that may be another: dt is the caller's, what is enormous is meant so."""
        fitting = self.fitting
        value: Any = fitting.arguments.get(name, self.parameters[name].default) if fitting else None
        if isinstance(value, torch.Tensor):
            return bool((value.abs() < 1e6).all())
        return isinstance(value, float) and name != "dt" and abs(value) < 1e6

    def _mended(self, setting: Setting) -> Setting | None:
        """The setting with arguments changed one after the other until no condition is left that does not hold."""
        count = self._count(setting)
        while count:
            changes = [
                Setting(self.row, setting.arguments | {name: value})
                for name, value in self._values(self._likely(setting))
            ]
            better = next((change for change in changes if self._count(change) < count), None)
            if better is None:
                return None
            setting, count = better, self._count(better)
        return setting

    def _likely(self, setting: Setting) -> list[str]:
        """The arguments, those first that the first broken condition is about."""
        broken = self._first_broken(setting)
        heads = {path.partition(".")[0] for path in broken.attributes} if broken else set[str]()
        return sorted(self.parameters, key=lambda name: name not in heads)

    def _broken(self, setting: Setting) -> list[ModuleConstraint] | None:
        """The conditions that do not hold, and those that cannot be asked; None where there is no such module."""
        try:
            module = setting.make()
        except Exception:  # noqa: BLE001  a constructor may refuse in any way
            return None
        found: list[ModuleConstraint] = []
        for condition in self.row.reads_only_if:
            try:
                with np.errstate(all="ignore"):
                    holds = self.leaves.holds(condition, module)
            except (TypeError, AttributeError, ValueError):
                holds = False
            if not holds:
                found.append(condition)
        return found

    def _count(self, setting: Setting) -> int:
        broken = self._broken(setting)
        return len(self.row.reads_only_if) + 1 if broken is None else len(broken)

    def _first_broken(self, setting: Setting) -> ModuleConstraint | None:
        broken = self._broken(setting)
        return broken[0] if broken else None

    def _values(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        for name in names:
            default = self.parameters[name].default
            if name == "dt":
                yield from ((name, DT), (name, 2 * DT))
            elif default is inspect.Parameter.empty or default is None:
                parameter = self.parameters[name]
                annotation = str(parameter.annotation)
                integers = _INTEGERS if "int" in annotation or parameter.annotation is parameter.empty else ()
                tensors = (
                    [torch.full((self.width,), number) for number in _NUMBERS]
                    if "Tensor" in annotation
                    else []
                )
                texts = ("another",) if "str" in annotation else ()
                yield from (
                    (name, value) for value in (*texts, *integers, *tensors, *_NUMBERS, *self._named(None))
                )
            else:
                yield name, default
                yield from ((name, value) for value in self._like(default))

    def _like(self, value: Any) -> Iterator[Any]:
        """Other values of the kind of one, and None."""
        constants = self._constants
        if isinstance(value, bool):
            yield not value
        elif isinstance(value, int):
            yield from _INTEGERS
        elif isinstance(value, float | torch.Tensor):
            yield from (*(entry for entry in constants if isinstance(entry, float)), *_NUMBERS)
        elif isinstance(value, str):
            yield from (entry for entry in constants if isinstance(entry, str) and entry != value)
            yield value + " no more"
        elif is_named_tuple(value):
            record: Any = value
            for path in (
                path for entry in self.row.reads_only_if for path in entry.attributes if "." in path
            ):
                field = path.rpartition(".")[2]
                for other in self._like(getattr(record, field, None)):
                    yield record._replace(**{field: other})
        else:
            yield from self._named(value)
        yield None

    @cached_property
    def _constants(self) -> list[Any]:
        """What the conditions compare with, those of other rows for the class too."""
        rows = [self.row, *rows_for_module(self.leaves.registry, self.row.module)]
        conditions = dict.fromkeys(entry.that for row in rows for entry in row.reads_only_if)
        trees = [ast.parse(entry, mode="eval") for entry in conditions]
        nodes = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        return [
            float(value) if isinstance(value, int) and not isinstance(value, bool) else value
            for value in nodes
        ]

    def _named(self, value: Any) -> Iterator[Any]:
        """Functions, classes and objects in place of one: those that conditions name, then others of its module."""
        kind: Any = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
        places = [getattr(kind, "__module__", None), self.row.module.__module__, "torch", "torch.nn", OWN]
        names = [entry for entry in self._constants if isinstance(entry, str)]
        for place in filter(None, places):
            for name in names:
                other: Any = getattr(sys.modules.get(place), name, None)
                yield from as_layer(other, self.width) if place == "torch.nn" else as_given(other, value)
        module = sys.modules.get(str(getattr(kind, "__module__", None)))
        for other in vars(module).values() if module and value is not None else ():
            if getattr(other, "__module__", None) == kind.__module__ and other is not kind:
                yield from as_given(other, value)


def _parameters(kind: type[torch.nn.Module]) -> dict[str, inspect.Parameter]:
    """The arguments of a class's constructor; with ``**kwargs`` also those of the class that it hands them on to."""
    found: dict[str, inspect.Parameter] = {}
    bases = [base for base in kind.__mro__ if "__init__" in vars(base) and base is not torch.nn.Module]
    for base in bases:
        parameters = constructor_parameters(base)
        for name, parameter in parameters.items():
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                found.setdefault(name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            break
    return found


def _held(module: torch.nn.Module, path: str) -> Any:
    """An attribute by its dotted path; None where there is none."""
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name, None)
    return value

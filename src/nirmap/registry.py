"""Loads a framework's registry and holds it against the framework that is installed.

A registry is imported when it is asked for, and checked once: each declared class exists, its constructor takes what
``build`` gives and has no argument that the declaration does not account for, and its ``forward`` has the state
argument that is promised. Registries of other packages are found through the entry points ``nirmap.frameworks``, which
are looked for once; :func:`forget` has them looked for anew.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import sys
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from nirmap import extensions
from nirmap.errors import MappingError, UnsupportedNodeError
from nirmap.extensions import load_extensions
from nirmap.resets import Reset
from nirmap_registry import FRAMEWORKS
from nirmap_registry.rows import Registry, Row, SubGraph

ENTRY_POINTS = "nirmap.frameworks"
# The framework of the reference modules, also of those that other packages declare.
BUILT_IN = "torch"


def frameworks() -> dict[str, str]:
    """Every known framework and the module that holds its registry; nothing is imported.

    Raises:
        MappingError: an installed package declares a framework under a name that is taken.
    """
    found = dict(FRAMEWORKS)
    for name, value in _declared_elsewhere(tuple(sys.path)):
        if found.setdefault(name, value) != value:
            raise MappingError(
                f"entry point {name!r} of group {ENTRY_POINTS}",
                f"{value}, while {found[name]} has the name already",
                "a name of its own for each framework",
                "rename or uninstall one of the packages",
            )
    return found


@functools.cache
def _declared_elsewhere(path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Name and value of the entry points of all packages on a path; to look through them takes longer than to trace."""
    return tuple((entry.name, entry.value) for entry in importlib.metadata.entry_points(group=ENTRY_POINTS))


def forget() -> None:
    """Forgets what was found and loaded, so that a package is found that was installed while the process runs.

    Packages on another ``sys.path`` than before are found without.
    """
    importlib.invalidate_caches()
    _declared_elsewhere.cache_clear()
    extensions.forget()
    load_registry.cache_clear()


@functools.cache
def load_registry(framework: str) -> Registry:
    """The registry of a framework, imported and checked.

    Raises:
        UnsupportedNodeError: no framework of that name is known.
        MappingError: the framework is not installed, fails on import, or differs from what is declared.
    """
    known = frameworks()
    if framework not in known:
        raise UnsupportedNodeError("framework", repr(framework), "one of " + ", ".join(sorted(known)))
    try:
        module = importlib.import_module(known[framework])
    except Exception as error:
        raise MappingError(
            f"framework {framework!r}",
            f"its registry cannot be imported ({type(error).__name__}: {error})",
            "the framework to be installed, in a version that its mappings hold for",
            "install the framework: pip install DISTRIBUTION",
        ) from error
    registry: Registry = module.REGISTRY
    further = load_extensions()
    if framework == BUILT_IN:
        registry = replace(registry, rows=(*registry.rows, *further))
    check_version(registry)
    check_registry(registry)
    return registry


def check_version(registry: Registry) -> None:
    """Warns where the installed version is outside the declared range."""
    from packaging.specifiers import SpecifierSet

    try:
        installed = importlib.metadata.version(registry.distribution)
    except importlib.metadata.PackageNotFoundError:
        return
    if not SpecifierSet(registry.versions).contains(installed, prereleases=True):
        warnings.warn(
            f"{registry.distribution} {installed} is installed; the mappings of {registry.framework!r} hold for "
            f"{registry.versions}",
            stacklevel=3,
        )


def check_registry(registry: Registry) -> None:
    """Holds every row against the real class.

    Raises:
        MappingError: with the row's file and line, what the class has, and what was declared.
    """
    for row in (*registry.rows, *registry.graphs):
        check_row(row)


def check_row(row: Row) -> None:
    """Holds one row against its class; see :func:`check_registry`."""
    # Where no user's module is read, nothing that it holds can be dropped.
    accounted = None if row.not_read else row.accounted
    _check_constructor(row.path, row.module, row.arguments, accounted, "", row.source)
    for name, record, fields in row.records:
        _check_constructor(f"{row.path}({name}=...)", record, fields, accounted, name + ".", row.source)
    if row.state is not None:
        _check_forward(row)
    if row.graph is not None and row.build is not None:
        _check_feedback(row, row.graph)


def _check_feedback(row: Row, graph: SubGraph) -> None:
    """The state of a graph holds the outputs that are fed back, and no others."""
    from nirmap.declared_graphs import OUTPUT, delayed_in

    fed_back = {f"{source}.{OUTPUT}" for source, _ in delayed_in(graph)}
    held = {variable.name for variable in row.state.variables} if row.state is not None else set[str]()
    found = {name for name in held if name.rpartition(".")[2] == OUTPUT}
    if found != fed_back:
        raise MappingError(
            row.source,
            f"the state of the graph {graph.name} holds {', '.join(sorted(found)) or 'no output'}",
            f"the outputs that are fed back: {', '.join(sorted(fed_back)) or 'there is none'}",
            "correct state.variables, or the edges",
        )


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    return {name: value for name, value in inspect.signature(function).parameters.items() if name != "self"}


def _check_constructor(
    path: str, cls: type[Any], given: Iterable[str], accounted: Iterable[str] | None, prefix: str, source: str
) -> None:
    parameters = constructor_parameters(cls)
    takes_any = any(value.kind is inspect.Parameter.VAR_KEYWORD for value in parameters.values())
    named = [
        name
        for name, value in parameters.items()
        if value.kind not in (value.VAR_KEYWORD, value.VAR_POSITIONAL)
    ]
    for name in given:
        if name not in named and not takes_any:
            raise MappingError(
                source,
                f"build gives {path} the argument {name!r}",
                "one of " + ", ".join(named),
                "correct the mapping",
            )
    if accounted is None:
        return
    accounted_here = {name.removeprefix(prefix) for name in accounted if name.startswith(prefix)}
    dropped = [name for name in named if name not in accounted_here and name not in set(given)]
    if dropped:
        raise MappingError(
            source,
            f"{path} has the argument {dropped[0]!r}, which the mapping does not account for",
            "it in build, read, reads_only_if, or, with a reason, in ignores",
            "otherwise a module that uses it would be written as if it did not",
        )


def constructor_parameters(cls: type[Any]) -> dict[str, inspect.Parameter]:
    """The constructor's parameters; what goes on to a base class through ``**keywords`` is not looked into."""
    fields: tuple[str, ...] | None = getattr(cls, "_fields", None)
    if fields is not None:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return {name: inspect.Parameter(name, kind) for name in fields}
    return _parameters(cls.__init__)


def _check_forward(row: Row) -> None:
    state = row.state
    if state is None:
        return
    parameters = list(_parameters(row.module.forward))
    kept = [variable.kept_as for variable in state.variables]
    expected = {
        "positional": [state.argument, *kept, *state.zeroed],
        "attributes": list[str](),
    }.get(state.call, [state.argument])
    for name in expected:
        if name not in parameters:
            raise MappingError(
                row.source,
                f"{row.path}.forward({', '.join(parameters)}) has no state argument {name!r}",
                f"forward to take {name!r}, as the declaration promises",
                "correct 'state' in the mapping, or leave it out if the module keeps no state",
            )
    if state.record is not None:
        fields: tuple[str, ...] = getattr(state.record, "_fields", ())
        if sorted(fields) != sorted([*kept, *state.zeroed]):
            raise MappingError(
                row.source,
                f"the record {state.record.__name__} has the fields {', '.join(fields)}",
                ", ".join(kept),
                "declare every field of the record under state.variables or state.zeroed",
            )


def rows_for_node(registry: Registry, node: str, reset: Reset = "value") -> list[Row]:
    """The rows from which a primitive with a reset is built, in the order of preference."""
    return [row for row in registry.rows if row.node == node and row.build is not None and row.reset == reset]


def rows_for_module(registry: Registry, module: type[torch.nn.Module]) -> list[Row]:
    """The rows of exactly this class, in the order of the table, and behind them those for which it is a graph."""
    return [row for row in (*registry.rows, *registry.graphs) if row.module is module]

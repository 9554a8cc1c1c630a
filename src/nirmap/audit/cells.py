"""The result of an audit: columns (frameworks) of cells (what was executed, and what came of it)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

Direction = Literal["from NIR", "to NIR"]
How = Literal["native", "normal form", "rewritten", "fallback", "refused", "wrong"]
Status = Literal["exact", "by rewrite", "exact when", "fallback", "no", "wrong"]
State = Literal["ran", "absent", "broken"]

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
STATUSES: tuple[Status, ...] = get_args(Status)
"""From the best to the worst."""
COVERED: frozenset[Status] = frozenset({"exact", "by rewrite", "exact when"})
MEANINGS: Mapping[Status, str] = {
    "exact": "every draw gave what the equations give",
    "by rewrite": "the same, as other nodes that together do exactly what the node does",
    "exact when": "exact where the conditions hold, and refused where they do not",
    "fallback": "refused, unless fallback='torch' is given: then the built-in module serves",
    "no": "refused",
    "wrong": "declared, and not what the equations give",
}

# What an error is rounded up to: the rounding of float64 and of float32 over the steps of a draw, then powers of ten.
_LADDER = (1e-12, 1e-5, *(10.0**exponent for exponent in range(-4, 1)))


@dataclass(frozen=True)
class Condition:
    """What has to hold for a node or a module.

    Attributes:
        that: the condition, as it is declared.
        because: its reason.
        do: what a user can do; empty where nothing is declared.
        module: dotted path of the module whose condition it is, or the name of a rewrite.
        executed: whether something was drawn that does not fulfil it, so that it was seen to be refused.
    """

    that: str
    because: str
    do: str = ""
    module: str = ""
    executed: bool = True


@dataclass(frozen=True)
class Case:
    """One draw, executed.

    Attributes:
        name: what was drawn.
        how: ``native``; ``normal form`` (native, with the input scaled or the state shifted); ``rewritten``;
            ``fallback`` (refused, and exact with the built-in module); ``refused``; ``wrong``.
        modules: dotted paths of the modules that stand for the node.
        rules: the rewrites.
        because: why it was refused, or what was wrong.
        conditions: those that did not hold, where it was refused.
        errors: by dtype the largest deviation from the oracle, relative to the largest magnitude of the variable. A
            dtype is missing where the framework cannot compute in it.
    """

    name: str
    how: How
    modules: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    because: str = ""
    conditions: tuple[Condition, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Cell:
    """One row of the table in one framework and one direction.

    Attributes:
        row: name of the primitive or of the small network, or class (and name) of a module that is a small graph.
        direction: ``from NIR`` or ``to NIR``.
        status: the verdict; see ``MEANINGS``.
        modules: dotted paths of the modules that were executed.
        rules: the rewrites that were applied.
        conditions: those under which it is exact.
        because: reasons, for ``fallback``, ``no`` and ``wrong``.
        declared_only: modules that are declared for this direction, and that no draw leads to.
        cases: the draws.
    """

    row: str
    direction: Direction
    status: Status
    modules: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    because: tuple[str, ...] = ()
    declared_only: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()

    @property
    def errors(self) -> dict[str, float]:
        """By dtype the largest error of all cases that were right."""
        largest: dict[str, float] = {}
        for case in self.cases:
            for dtype, error in case.errors.items():
                if case.how != "wrong":
                    largest[dtype] = max(error, largest.get(dtype, 0.0))
        return dict(sorted(largest.items(), reverse=True))


@dataclass(frozen=True)
class Column:
    """One framework.

    Attributes:
        framework: its name.
        state: ``ran``; ``absent`` (it is not installed); ``broken`` (it cannot be imported, is not what is declared, or
            ended its process).
        problem: what is wrong, where it did not run.
        distribution: what pip installs.
        declared: the versions that the table holds for.
        installed: the installed version, or an empty string.
        cells: two for each row, where it ran; then those of its own modules that are small graphs, each of which is a
            row of this column alone.
    """

    framework: str
    state: State
    problem: str = ""
    distribution: str = ""
    declared: str = ""
    installed: str = ""
    cells: tuple[Cell, ...] = ()

    def cell(self, row: str, direction: Direction) -> Cell | None:
        """The cell of a row, if the framework ran."""
        return next((cell for cell in self.cells if (cell.row, cell.direction) == (row, direction)), None)

    def covered(self, direction: Direction, rows: Iterable[str]) -> int:
        """How many of the rows are exact, some with conditions or by rewrites."""
        cells = [self.cell(row, direction) for row in rows]
        return sum(cell is not None and cell.status in COVERED for cell in cells)


@dataclass(frozen=True)
class Audit:
    """All columns, and what they were measured with.

    Attributes:
        versions: of nirmap, nir, torch and Python.
        primitives: names of the rows that are primitives.
        subtracting: names of the rows that are primitives which are reset by subtraction.
        networks: names of the rows that are small networks.
        columns: the frameworks.
    """

    versions: Mapping[str, str]
    primitives: tuple[str, ...]
    subtracting: tuple[str, ...]
    networks: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def rows(self) -> tuple[str, ...]:
        """Primitives, then those that are reset by subtraction, then networks."""
        return (*self.primitives, *self.subtracting, *self.networks)

    def wrong(self) -> list[tuple[Column, Cell]]:
        """The cells whose mapping is wrong."""
        return [(column, cell) for column in self.columns for cell in column.cells if cell.status == "wrong"]

    def percent(self) -> float:
        """The share of primitives that are covered, over directions and columns; 0 for a column that did not run."""
        total = len(DIRECTIONS) * len(self.primitives) * len(self.columns)
        covered = sum(
            column.covered(direction, self.primitives) for column in self.columns for direction in DIRECTIONS
        )
        return 100.0 * covered / total if total else 0.0

    def modules(self, column: Column) -> tuple[str, ...]:
        """The rows that a column has alone: its modules that are small graphs."""
        return tuple(dict.fromkeys(cell.row for cell in column.cells if cell.row not in self.rows))

    def summary(self) -> list[str]:
        """A line for each framework, and one for its modules that are small graphs."""
        count = len(self.primitives)
        lines = [
            f"{column.framework}: {column.covered('from NIR', self.primitives)} of {count} primitives from NIR, "
            f"{column.covered('to NIR', self.primitives)} to NIR"
            if column.state == "ran"
            else f"{column.framework}: {column.state}, {column.problem}"
            for column in self.columns
        ]
        for column in self.columns:
            modules = self.modules(column)
            if modules:
                lines.append(
                    f"{column.framework}: of {len(modules)} recurrent and other modules that are no primitive, "
                    f"{column.covered('from NIR', modules)} from NIR, {column.covered('to NIR', modules)} to NIR"
                )
        return lines

    def to_json(self) -> dict[str, Any]:
        """As the schema ``audit.schema.json`` says."""
        return {
            "kind": "nirmap audit",
            "versions": dict(self.versions),
            "primitives": list(self.primitives),
            "subtracting": list(self.subtracting),
            "networks": list(self.networks),
            "percent": self.percent(),
            "columns": [_plain(column) for column in self.columns],
        }


def _plain(column: Column) -> dict[str, Any]:
    plain: dict[str, Any] = asdict(column)
    for entry, cell in zip(plain["cells"], column.cells, strict=True):
        entry["errors"] = cell.errors
    return plain


def audit_from_json(document: Mapping[str, Any]) -> Audit:
    """The audit that :meth:`Audit.to_json` wrote; the document is valid against its schema."""
    columns: list[Column] = []
    for entry in document["columns"]:
        fields: dict[str, Any] = {**entry, "cells": tuple(map(_cell, entry["cells"]))}
        columns.append(Column(**fields))
    return Audit(
        dict(document["versions"]),
        tuple(document["primitives"]),
        tuple(document["subtracting"]),
        tuple(document["networks"]),
        tuple(columns),
    )


def _cell(entry: Mapping[str, Any]) -> Cell:
    fields: dict[str, Any] = {name: value for name, value in entry.items() if name != "errors"}
    fields |= {name: tuple(entry[name]) for name in ("modules", "rules", "because", "declared_only")}
    fields["conditions"] = _conditions(entry["conditions"])
    fields["cases"] = tuple(map(_case, entry["cases"]))
    return Cell(**fields)


def _case(entry: Mapping[str, Any]) -> Case:
    fields: dict[str, Any] = {**entry, **{name: tuple(entry[name]) for name in ("modules", "rules")}}
    fields["conditions"] = _conditions(entry["conditions"])
    return Case(**fields)


def _conditions(entries: Iterable[Mapping[str, Any]]) -> tuple[Condition, ...]:
    return tuple(Condition(**entry) for entry in entries)


def rounded_up(error: float) -> float:
    """An error as what it stays below on any machine; above 1 it is infinite."""
    return next((step for step in _LADDER if error <= step), math.inf)

"""The command ``audit``: which framework has a module for which primitive."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nirmap.cli.declarations import read_mappings
from nirmap.cli.places import nirmap_version
from nirmap.cli.text import add_row, help_text, output, shown, table, write

if TYPE_CHECKING:
    from nirmap_generator.coverage import Cell

# How a cell of the table says what the declarations say, and its style.
MARKS = {"exact": ("yes", "green"), "exact when": ("if", "yellow"), "no": ("no", "red")}

HELP = help_text(
    "Show which framework has a module for which NIR primitive.",
    "This is what is declared. Conditions are those that a node (from NIR) or a module (to NIR) has to fulfil; one "
    "that does not is refused with the reason, and never converted inexactly.",
    examples=(
        "nirmap audit",
        "nirmap audit --framework snntorch --reasons",
        "nirmap audit --format markdown > coverage.md",
        "nirmap audit --format json",
    ),
)


class Format(str, enum.Enum):
    """How the coverage is written."""

    table = "table"
    markdown = "markdown"
    json = "json"


def audit(
    framework: Annotated[
        list[str] | None,
        typer.Option(
            "--framework", "-f", metavar="NAME", help="Only this framework; can be given repeatedly."
        ),
    ] = None,
    show: Annotated[Format, typer.Option("--format", help="How the coverage is written.")] = Format.table,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Show every condition, with its reason.")
    ] = False,
    mappings: Annotated[
        Path | None,
        typer.Option("--mappings", metavar="FOLDER", help="A folder of mappings of your own."),
    ] = None,
) -> None:
    """Reads the declarations and shows their coverage."""
    from nirmap_generator.coverage import coverage, coverage_table

    declarations = read_mappings(mappings)
    cells = coverage(declarations.catalogue, declarations.frameworks)
    known = sorted({cell.framework for cell in cells})
    for name in framework or ():
        if name not in known:
            raise typer.BadParameter(
                f"{shown(name)} is not one of {', '.join(known)}", param_hint="--framework"
            )
    cells = [cell for cell in cells if not framework or cell.framework in framework]
    if show is Format.markdown:
        typer.echo(coverage_table(cells), nl=False)
    elif show is Format.json:
        everything = {"nirmap": nirmap_version(), "coverage": "declared", "cells": [asdict(c) for c in cells]}
        typer.echo(json.dumps(everything, indent=2))
    else:
        _show(cells, reasons)


def _show(cells: list[Cell], reasons: bool) -> None:
    frameworks = list(dict.fromkeys(cell.framework for cell in cells))
    found = {(cell.primitive, cell.framework): cell for cell in cells}
    write("Declared coverage: from NIR / to NIR", style="bold")
    made = table("primitive", *frameworks)
    for primitive in dict.fromkeys(cell.primitive for cell in cells):
        row = [found[primitive, framework] for framework in frameworks]
        add_row(made, primitive, *((_mark(cell), _style(cell)) for cell in row))
    output().print(made)
    for framework in frameworks:
        own = [cell for cell in cells if cell.framework == framework]
        covered = sum(cell.from_nir != "no" for cell in own), sum(cell.to_nir != "no" for cell in own)
        write(f"{framework}: {covered[0]} of {len(own)} primitives from NIR, {covered[1]} to NIR")
    write("")
    write("yes: exact   if: exact where conditions hold, else refused   no: refused")
    if not reasons:
        write("Conditions and reasons: nirmap audit --reasons", style="dim")
        return
    for cell in cells:
        if cell.conditions:
            write("")
            write(
                f"{cell.framework} {cell.primitive}  {', '.join(cell.modules) or 'no module'}", style="bold"
            )
        for condition in cell.conditions:
            write(f"  {condition}")


def _mark(cell: Cell) -> str:
    return f"{MARKS[cell.from_nir][0]} / {MARKS[cell.to_nir][0]}"


def _style(cell: Cell) -> str:
    """The style of the weaker direction."""
    order = list(MARKS)
    return MARKS[max(cell.from_nir, cell.to_nir, key=order.index)][1]

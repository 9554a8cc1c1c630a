"""Commands about the declarations: ``generate``, ``check``, ``audit`` and ``list``."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nirmap.cli.places import generated_folder, mappings_folder

STYLES = {"exact": "green", "exact when": "yellow", "no": "red"}
Folder = Annotated[Path | None, typer.Argument(help="Folder of mappings; the one of nirmap if left out.")]
Out = Annotated[Path | None, typer.Option("--out", help="Where the generated files go.")]


class Format(str, enum.Enum):
    """How a table is shown."""

    table = "table"
    markdown = "markdown"
    json = "json"


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(generate)
    app.command()(check)
    app.command()(audit)
    app.command("list")(list_frameworks)


def generate(folder: Folder = None, out: Out = None) -> None:
    """Generate the registries from the YAML mappings, after proving that build and read are inverse.

    Example: [bold]nirmap generate[/bold]
    """
    from rich.console import Console

    from nirmap_generator.pipeline import generate as run

    console = Console()
    with console.status("Proving and rendering the mappings"):
        changes = run(folder or mappings_folder(), out or generated_folder())
    for name in changes.written:
        console.print(f"written   {name}", highlight=False)
    for name in changes.deleted:
        console.print(f"deleted   {name}", highlight=False)
    console.print(f"{len(changes.unchanged)} files unchanged", highlight=False)


def check(folder: Folder = None, out: Out = None) -> None:
    """Check that the mappings are valid and proven, and that the generated files are fresh.

    Exit code 1 where they are not. Example: [bold]nirmap check[/bold]
    """
    from rich.console import Console

    from nirmap_generator.pipeline import check as run

    console = Console()
    with console.status("Proving and comparing the mappings"):
        differences = run(folder or mappings_folder(), out or generated_folder())
    for difference in differences:
        typer.echo(difference)
    if differences:
        typer.echo(f"{len(differences)} generated files are stale: run 'nirmap generate'", err=True)
        raise typer.Exit(1)
    console.print("mappings valid and proven, generated files fresh", highlight=False)


def audit(
    folder: Folder = None,
    show: Annotated[Format, typer.Option("--format", help="How to show the coverage.")] = Format.table,
    reasons: Annotated[bool, typer.Option("--reasons", help="Show every condition and reason.")] = False,
) -> None:
    """Show which framework has a module for which NIR primitive, and under which conditions.

    Example: [bold]nirmap audit --reasons[/bold]
    """
    from nirmap_generator.coverage import Cell, coverage, coverage_table
    from nirmap_generator.pipeline import read

    declarations = read(folder or mappings_folder())
    cells: list[Cell] = coverage(declarations.catalogue, declarations.frameworks)
    if show is Format.markdown:
        typer.echo(coverage_table(cells), nl=False)
    elif show is Format.json:
        typer.echo(json.dumps([asdict(cell) for cell in cells], indent=2))
    else:
        _show_coverage(cells, reasons)


def _show_coverage(cells: list[object], reasons: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from nirmap_generator.coverage import Cell

    known = [cell for cell in cells if isinstance(cell, Cell)]
    frameworks = list(dict.fromkeys(cell.framework for cell in known))
    table = Table("primitive", *frameworks, title="Declared coverage (from NIR / to NIR)")
    found = {(cell.primitive, cell.framework): cell for cell in known}
    for primitive in dict.fromkeys(cell.primitive for cell in known):
        row = [found[primitive, framework] for framework in frameworks]
        texts = [
            Text.assemble((cell.from_nir, STYLES[cell.from_nir]), " / ", (cell.to_nir, STYLES[cell.to_nir]))
            for cell in row
        ]
        table.add_row(primitive, *texts)
    console = Console()
    console.print(table)
    for cell in known if reasons else ():
        for condition in cell.conditions:
            console.print(Text(f"{cell.framework} {cell.primitive}: {condition}"))
    if not reasons:
        console.print("Conditions and reasons: nirmap audit --reasons", highlight=False)


def list_frameworks(
    modules: Annotated[
        bool, typer.Option("--modules", help="Show leaf and stateful modules of each.")
    ] = False,
) -> None:
    """List the known frameworks: installed or not, their nodes, and their leaf and stateful modules.

    Example: [bold]nirmap list --modules[/bold]
    """
    from rich.console import Console
    from rich.table import Table

    from nirmap.errors import NirmapError
    from nirmap.registry import frameworks, load_registry

    table = Table("framework", "distribution", "dt", "NIR nodes", "leaf modules", "stateful")
    details: list[str] = []
    for name in sorted(frameworks()):
        try:
            registry = load_registry(name)
        except NirmapError as error:
            table.add_row(name, "not usable", "", error.found, "", "")
            continue
        leaves = sorted({row.path for row in registry.rows})
        stateful = sorted({row.path for row in registry.rows if row.state is not None})
        nodes = {row.node for row in registry.rows}
        table.add_row(
            name,
            f"{registry.distribution} {registry.versions}",
            f"{registry.time_step:g} s",
            str(len(nodes)),
            str(len(leaves)),
            str(len(stateful)),
        )
        details += [f"{name}: {path}{' (stateful)' if path in stateful else ''}" for path in leaves]
    console = Console()
    console.print(table)
    for line in details if modules else ():
        console.print(line, highlight=False)

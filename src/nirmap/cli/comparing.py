"""The command ``compare``: one graph in several frameworks, and where they first differ."""

from __future__ import annotations

import contextlib
import enum
import json
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nirmap.cli.inspecting import check_file
from nirmap.cli.options import FallbackOption, OverrideTimeStep, ResetOption, as_options
from nirmap.cli.places import nirmap_version
from nirmap.cli.text import (
    NAME_LIMIT,
    add_row,
    escaped,
    help_text,
    messages,
    note,
    output,
    show_refusal,
    shown,
    status,
    table,
    write,
)

if TYPE_CHECKING:
    import nir

    from nirmap.comparing import Progress
    from nirmap.comparison import Comparison, Difference, Result
    from nirmap.observing import Array

HELP = help_text(
    "Run a .nir file in several frameworks and show where they first differ.",
    "All get the same input from the same initial state, and are held against the graph's equations in float64, the "
    "reference, node by node and step by step. Spikes are compared exactly, other values within the tolerance.",
    "The exit code is 0 where every framework ran and is equal to the reference, else 1.",
    examples=(
        "nirmap compare model.nir --frameworks torch,norse,snntorch --steps 200",
        "nirmap compare model.nir -f norse -f torch --input data.csv --column current",
        "nirmap compare model.nir --input constant:0.5 --node lif1 --output lif1.svg",
        "nirmap compare lif.nir -i lif.csv -c 1 --recorded v=2 --output lif.png",
    ),
)

RECORDABLE = ("output", "v", "i")
FIGURES = (".png", ".svg")


class Format(str, enum.Enum):
    """How the comparison is written."""

    table = "table"
    json = "json"


File = Annotated[Path, typer.Argument(metavar="FILE.nir", show_default=False, help="A .nir file.")]
Frameworks = Annotated[
    list[str] | None,
    typer.Option(
        "--frameworks",
        "--framework",
        "-f",
        metavar="NAMES",
        help="Frameworks, with commas between them or given repeatedly; every known one if left out.",
    ),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="SOURCE",
        help="A .csv or .npy file; random or random:HIGH, drawn evenly between 0 and HIGH (1); constant:VALUE. "
        "For a graph with several inputs NAME=SOURCE, given repeatedly. random if left out.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        metavar="NAME",
        help="Column of the CSV file, by its name or its position, counted from 1; one for all elements of the "
        "input, or one for each of them.",
    ),
]
Recorded = Annotated[
    list[str] | None,
    typer.Option(
        "--recorded",
        metavar="VARIABLE=COLUMN",
        help="A recording of the node in a column of the same CSV file: of its output, of v or of i.",
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps", min=1, metavar="N", help="Time steps; all that a file has, else 500, if left out."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of random input.")]
TimeStep = Annotated[
    float | None,
    typer.Option(
        "--dt", metavar="SECONDS", help="Time step; the graph's own, else that of torch, if left out."
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        min=0.0,
        help="How far a value may be off, relative to its variable's largest value.",
    ),
]
Node = Annotated[
    str | None,
    typer.Option(
        "--node",
        metavar="NAME",
        help="Node to draw; the first that fires, else the last with state, if left out.",
    ),
]
Neuron = Annotated[
    int | None,
    typer.Option(
        "--neuron", metavar="N", help="Neuron to draw, counted from 0; the most active if left out."
    ),
]
FigureFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FIGURE.png|.svg", help="Draw the traces into this file."),
]
Show = Annotated[Format, typer.Option("--format", help="How the comparison is written.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every node.")]


def compare(
    file: File,
    frameworks: Frameworks = None,
    sources: Sources = None,
    column: Columns = None,
    recorded: Recorded = None,
    steps: Steps = None,
    seed: Seed = 0,
    dt: TimeStep = None,
    tolerance: Tolerance = 1e-4,
    fallback: FallbackOption = None,
    reset: ResetOption = None,
    override_dt: OverrideTimeStep = False,
    node: Node = None,
    neuron: Neuron = None,
    figure: FigureFile = None,
    show: Show = Format.table,
    verbose: Verbose = False,
) -> None:
    """Reads the file and the input, compares, shows, and draws."""
    check_file(file)
    _check_figure(figure)
    with status("Importing torch"):
        from nirmap.files import read_graph
        from nirmap.structure import check_structure

    wanted = _frameworks(frameworks or ())
    with status(f"Reading {file}"):
        graph = read_graph(file)
        check_structure(graph)
        given = _inputs(graph, sources or ["random"], column or [], steps, seed)
    variables = _recordings(recorded or [], sources or [], steps)
    options: dict[str, Any] = {
        "dt": dt,
        "override_dt": override_dt,
        "tolerance": tolerance,
        "fallback": fallback and fallback.value,
        "reset": reset and reset.value,
    }
    comparison = _compare(graph, given, wanted, options)
    if variables:
        comparison = comparison.with_recorded(variables, node)
    comparison.path(node)
    if show is Format.json:
        about = {"nirmap": nirmap_version(), "graph": str(file), "input": sources or ["random"], "seed": seed}
        typer.echo(json.dumps({**about, **comparison.summary()}, indent=2))
    else:
        _show(comparison, str(file), verbose)
    for result in comparison.results:
        _show_error(result)
    if figure is not None:
        with status(f"Drawing {figure}"):
            comparison.draw(figure, node=node, neuron=neuron)
        note(f"Drawn: {figure}, node {shown(' / '.join(comparison.path(node)))}")
    if not comparison.equal:
        raise typer.Exit(1)


def _check_figure(figure: Path | None) -> None:
    if figure is None:
        return
    if figure.suffix.lower() not in FIGURES:
        raise typer.BadParameter(
            f"{shown(str(figure), None)}: expected a name that ends in {' or '.join(FIGURES)}",
            param_hint="--output",
        )
    if not figure.parent.is_dir():
        raise typer.BadParameter(
            f"there is no folder {shown(str(figure.parent), None)}", param_hint="--output"
        )


def _frameworks(given: list[str] | tuple[str, ...]) -> list[str] | None:
    """The frameworks, each once; None for all."""
    from nirmap.registry import frameworks

    known = sorted(frameworks())
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"{shown(name)} is not one of {', '.join(known)}", param_hint="--frameworks"
            )
    return list(dict.fromkeys(names)) or None


def _inputs(
    graph: nir.NIRGraph, sources: list[str], columns: list[str], steps: int | None, seed: int
) -> dict[str, Array]:
    """What goes into each Input node. What has no length of its own is as long as the files are."""
    from nirmap.errors import GraphError
    from nirmap.shapes import infer_shapes
    from nirmap.stimuli import as_sources, is_generated, stimulus
    from nirmap.structure import inputs

    shapes = infer_shapes(graph).outputs
    names = inputs(graph)
    streams: dict[str, Array] = {}
    for name, source in sorted(as_sources(sources, names).items(), key=lambda entry: is_generated(entry[1])):
        if not is_generated(source):
            _check_source(source)
        elif steps is None and streams:
            steps = len(next(iter(streams.values())))
        shape = shapes[name]
        if shape is None:
            raise GraphError(
                f"node {name!r}", "its shape is not known", "a shape at the Input", "set its input_type"
            )
        place = names.index(name)
        streams[name] = stimulus(source, shape, columns=columns, steps=steps, seed=seed, place=place)
    return streams


def _check_source(source: str) -> None:
    if not Path(source).is_file():
        found = "is a folder" if Path(source).is_dir() else "does not exist"
        raise typer.BadParameter(
            f"{shown(source, None)} {found}; expected a .csv or .npy file, random, random:HIGH or "
            "constant:VALUE",
            param_hint="--input",
        )


def _recordings(recorded: list[str], sources: list[str], steps: int | None) -> dict[str, Any]:
    """The recorded columns by variable."""
    from nirmap.stimuli import read_columns

    pairs = [text.partition("=") for text in recorded]
    for text, (variable, equals, _) in zip(recorded, pairs, strict=True):
        if not equals or variable not in RECORDABLE:
            raise typer.BadParameter(
                f"{shown(text)}: expected VARIABLE=COLUMN, with {', '.join(RECORDABLE)} for VARIABLE",
                param_hint="--recorded",
            )
    paths = [Path(source) for source in sources if Path(source).is_file()]
    if recorded and (not paths or paths[0].suffix.lower() == ".npy"):
        raise typer.BadParameter("it needs an --input that is a CSV file", param_hint="--recorded")
    return {variable: read_columns(paths[0], [name])[:steps, 0] for variable, _, name in pairs}


def _compare(
    graph: nir.NIRGraph,
    streams: dict[str, Array],
    frameworks: list[str] | None,
    options: Mapping[str, Any],
) -> Comparison:
    with _progress() as progress:
        from nirmap.comparing import compare as run_all

        return run_all(graph, streams, frameworks, progress=progress, **options)


@contextlib.contextmanager
def _progress() -> Generator[Progress | None]:
    """Shows on a terminal what runs and how far it is; leaves no trace in files and pipes."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.text import Text

    with messages().status(Text("Preparing")) as spinner:

        def report(name: str, done: int, total: int) -> None:
            if done % max(1, total // 100) == 0:
                spinner.update(Text(escaped(f"Running {name}: {done:,} of {total:,} steps")))

        yield report


def _show(comparison: Comparison, title: str, verbose: bool) -> None:
    batch = f", batch of {comparison.batch}" if comparison.batch > 1 else ""
    write(f"{title}: {comparison.steps:,} steps of {comparison.dt:g} s{batch}", style="bold")
    made = table("framework", "spikes", "largest difference", "against the reference")
    add_row(made, "reference", f"{sum(comparison.reference.spikes.values()):,}", "", "")
    for result in comparison.results:
        add_row(
            made,
            (result.name, "bold"),
            "" if result.error else f"{result.spikes:,}",
            _largest(result),
            _verdict(result),
        )
    output().print(made)
    if verbose:
        _show_nodes(comparison)
    if comparison.reference.spikes and not any(comparison.reference.spikes.values()):
        note("No neuron fires: a stronger input, such as --input random:10, tells more.")
    for result in comparison.results:
        if result.first is not None:
            _show_difference(result.name, result.first, comparison.batch)
        if result.fallbacks:
            names = ", ".join(_node(path) for path in result.fallbacks)
            write(f"{result.name}: the built-in module took the place of its own for {names}")
        unseen = [f"{name} of {_node(path)}" for path, node in result.nodes.items() for name in node.unseen]
        if unseen:
            write(f"{result.name} does not show {', '.join(unseen)}; not compared")


def _largest(result: Result) -> str:
    found = result.largest()
    if found is None:
        return ""
    largest, path, variable = found
    return f"{largest:.1e} ({variable} of {_node(path)})" if largest else "0"


def _verdict(result: Result) -> tuple[str, str]:
    if result.error is not None:
        return "cannot run", "red"
    if result.first is None:
        return "equal", "green"
    return f"differs from step {result.first.step:,} on", "red"


def _node(path: tuple[str, ...]) -> str:
    return " / ".join(shown(name, NAME_LIMIT) for name in path)


def _show_nodes(comparison: Comparison) -> None:
    """Each node's spikes and largest difference, in every framework."""
    ran = [result for result in comparison.results if result.error is None]
    made = table("node", "reference", *(result.name for result in ran))
    for path in comparison.reference.order:
        spikes = comparison.reference.spikes.get(path)
        cells: list[str] = []
        for result in ran:
            node = result.nodes.get(path)
            lines = [] if node is None or node.spikes is None else [f"{node.spikes:,} spikes"]
            lines += [
                f"{variable} {largest:.1e}" if largest else f"{variable} 0"
                for variable, largest in (node.largest.items() if node else ())
                if node is not None and (node.spikes is None or variable != "output")
            ]
            cells.append("\n".join(lines))
        add_row(made, _node(path), "" if spikes is None else f"{spikes:,} spikes", *cells)
    output().print(made)
    write("Numbers are the largest differences from the reference.", style="dim")


def _show_difference(name: str, first: Difference, batch: int) -> None:
    what = "" if first.variable == "output" else f"{first.variable}, "
    row = f"row {first.row} of the batch, " if batch > 1 else ""
    neuron = ", ".join(map(str, first.neuron))
    write(
        f"{name} differs first in step {first.step:,} ({first.time:g} s): node {_node(first.node)}, {what}{row}"
        f"neuron ({neuron}): {first.value:.9g}, and {first.reference:.9g} in the reference"
    )
    if first.potential is not None and first.threshold is not None and first.variable == "output":
        write(f"  there {first.potential:.9g} met the threshold {first.threshold:.9g} in the reference")


def _show_error(result: Result) -> None:
    """Why a framework cannot run the graph, and what would help."""
    error = result.error
    if error is not None:
        parts = (("found", error.found), ("expected", error.expected), ("do", as_options(error.do)))
        show_refusal(f"{result.name} cannot run the graph: {error.where}", parts)

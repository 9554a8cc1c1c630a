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

from nirmap.cli.comparison_text import show_comparison, show_error
from nirmap.cli.inspecting import check_file
from nirmap.cli.options import FallbackOption, MethodOption, OverrideTimeStep, ResetOption, SteppedBy
from nirmap.cli.places import nirmap_version
from nirmap.cli.text import (
    escaped,
    help_text,
    messages,
    note,
    shown,
    status,
)

if TYPE_CHECKING:
    import nir

    from nirmap.comparing import Progress
    from nirmap.comparison import Comparison
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
    method: MethodOption = SteppedBy.forward_euler,
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
        "method": method.value,
    }
    comparison = _compare(graph, given, wanted, options)
    if variables:
        comparison = comparison.with_recorded(variables, node)
    comparison.path(node)
    if show is Format.json:
        about = {"nirmap": nirmap_version(), "graph": str(file), "input": sources or ["random"], "seed": seed}
        typer.echo(json.dumps({**about, **comparison.summary()}, indent=2))
    else:
        show_comparison(comparison, str(file), verbose)
    for result in comparison.results:
        show_error(result)
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

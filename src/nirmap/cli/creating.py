"""The command ``new``: files to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nirmap.cli.text import help_text, note, shown, write
from nirmap.errors import MappingError

# Where the neurons of nirmap's own repository lie, as seen from its root.
_EXTENSIONS = Path("mappings") / "extensions"
# The schema, as seen from there.
_SCHEMA = "../schema/catalogue.schema.json"

HELP = help_text(
    "Write a file to start from.",
    "The file works as it is, and has a comment on each of its keys.",
    examples=("nirmap new neuron MyNeuron",),
)
NEURON_HELP = help_text(
    "Write a commented YAML file with a neuron to change into yours.",
    "It holds a leaky neuron with adaptation: parameters, state, equations, spike and reset. nirmap generate makes a "
    "node class, a torch module and documentation of it. A file that is there already is never replaced.",
    examples=("nirmap new neuron MyNeuron", "nirmap new neuron MyNeuron --out my_neurons/my_neuron.yaml"),
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="The name of the node class, such as AdLIF.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="The file to write; NAME.yaml in mappings/extensions if left out, or here where there is no such folder.",
    ),
]

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback(help=HELP)
def new() -> None:
    """What stands before the name of what is to be written."""


@app.command("neuron", help=NEURON_HELP)
def neuron(name: Name, out: Out = None) -> None:
    """Writes the file."""
    from nirmap_generator.new import neuron_text

    _check_name(name)
    target = out or (_EXTENSIONS if _EXTENSIONS.is_dir() else Path()) / f"{name}.yaml"
    folder = target.parent
    if not folder.is_dir():
        raise typer.BadParameter(
            f"there is no folder {shown(str(folder), None)}: make it first", param_hint="--out"
        )
    if target.suffix != ".yaml":
        raise typer.BadParameter(
            f"{shown(str(target), None)} does not end in .yaml, and nirmap generate would not read it",
            param_hint="--out",
        )
    text = neuron_text(name, schema=_SCHEMA if (folder / _SCHEMA).is_file() else "")
    try:
        with target.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise MappingError(
            f"file {shown(str(target), None)}",
            "it is there already",
            "no file of that name, so that nothing of yours is replaced",
            "choose another name, or another file with --out",
        ) from error
    write(f"written   {shown(str(target), None)}")
    note("Change it into your neuron, then: " + _next_command(folder))


def _check_name(name: str) -> None:
    """Refuses a name that no class can have, or that a node has already."""
    import nir

    from nirmap import nodes
    from nirmap_generator.check_extensions import name_problem

    problem = name_problem(name)
    if problem:
        raise typer.BadParameter(
            f"{shown(name)}: {problem}; choose another one, such as AdLIF", param_hint="NAME"
        )
    for owner, module in (("NIR", nir), ("nirmap", nodes)):
        if isinstance(getattr(module, name, None), type):
            raise typer.BadParameter(f"{owner} has a {name} already; choose another name", param_hint="NAME")


def _next_command(folder: Path) -> str:
    if (folder / _SCHEMA).is_file():
        return "nirmap generate"
    return f"nirmap generate {shown(str(folder), None)} --out PACKAGE"

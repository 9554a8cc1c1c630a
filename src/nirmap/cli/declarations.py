"""The commands that start the generator: ``generate`` and ``check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nirmap.cli.places import generated_folder, is_source_tree, mappings_folder
from nirmap.cli.text import help_text, note, shown, status, write

if TYPE_CHECKING:
    from nirmap_generator.pipeline import Declarations

Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER",
        show_default=False,
        help="A folder of mappings: that of nirmap if left out, or one of your own, with a file per framework.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FOLDER",
        help="Where the generated files go: for mappings of your own, the folder of your Python package.",
    ),
]

GENERATE_HELP = help_text(
    "Generate the registries from the YAML mappings.",
    "The mappings are validated first, and every pair of build and read is proven inverse: if anything is wrong, all "
    "of it is shown, with file, line and column, and no file is written. Unchanged mappings change no file.",
    examples=("nirmap generate", "nirmap generate my_mappings --out src/my_package"),
)
CHECK_HELP = help_text(
    "Check that mappings are valid and generated files fresh.",
    "Every proof is made anew, and nothing is written. Where a file is stale, the difference is shown, and the exit "
    "code is 1.",
    examples=("nirmap check", "nirmap check my_mappings --out src/my_package"),
)


def generate(folder: Folder = None, out: Out = None) -> None:
    """Proves, renders and writes."""
    from nirmap_generator import outside, pipeline

    source, target, base = _places(folder, out)
    with status("Proving and rendering the mappings"):
        changes = (
            pipeline.generate(source, target) if base is None else outside.generate(source, target, base)
        )
    for name in changes.written:
        write(f"written   {name}")
    for name in changes.deleted:
        write(f"deleted   {name}")
    write(f"{_files(len(changes.unchanged))} unchanged")
    if base is not None:
        note("nirmap finds them through entry points of your package, as in its pyproject.toml:")
        package = outside.module_of(target)
        names = [Path(name).stem for name in (*changes.written, *changes.unchanged)]
        frameworks = sorted(set(names) - outside.OF_NEURONS)
        if frameworks:
            note('  [project.entry-points."nirmap.frameworks"]')
            for name in frameworks:
                note(f'  {name} = "{package}.{name}"')
        if outside.OF_NEURONS & set(names):
            note('  [project.entry-points."nirmap.neurons"]')
            note(f'  {target.name} = "{package}"')


def check(folder: Folder = None, out: Out = None) -> None:
    """Proves, renders and compares."""
    from nirmap_generator import pipeline

    source, target, base = _places(folder, out)
    with status("Proving the mappings and comparing the generated files"):
        if base is None:
            differences = pipeline.check(source, target)
        else:
            from nirmap_generator import outside

            differences = outside.check(source, target, base)
    for difference in differences:
        for line in difference.splitlines():
            write(line)
    if differences:
        count = len(differences)
        note(f"{_files(count)} {'is' if count == 1 else 'are'} stale: nirmap generate brings them up to date")
        raise typer.Exit(1)
    write("mappings valid and proven, generated files fresh")


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"


def _places(folder: Path | None, out: Path | None) -> tuple[Path, Path, Path | None]:
    """The mappings, the folder of generated files, and the mappings that the former build on, if they do.

    A folder without a catalogue of primitives (``nir.yaml``) builds on nirmap's.
    """
    own = mappings_folder()
    if folder is None and not is_source_tree():
        raise typer.BadParameter(
            "the registries of an installed nirmap are generated already; name the folder of your own mappings",
            param_hint="FOLDER",
        )
    source = own if folder is None else folder.resolve()
    if not source.is_dir():
        raise typer.BadParameter(f"{shown(str(folder), None)} is not a folder", param_hint="FOLDER")
    if source == own.resolve():
        return source, (out or generated_folder()).resolve(), None
    if out is None:
        raise typer.BadParameter(
            "mappings of your own need a place for what is generated from them, such as --out src/my_package",
            param_hint="--out",
        )
    return source, out.resolve(), None if (source / "nir.yaml").is_file() else own


def read_mappings(folder: Path | None) -> Declarations:
    """What a folder of mappings says, nirmap's if None; nothing is proven.

    Raises:
        DeclarationError: with every problem that was found.
        typer.BadParameter: there is no such folder.
    """
    from nirmap_generator import pipeline

    own = mappings_folder()
    source = own if folder is None else folder.resolve()
    if not source.is_dir():
        raise typer.BadParameter(f"{shown(str(folder), None)} is not a folder", param_hint="--mappings")
    if (source / "nir.yaml").is_file():
        return pipeline.read(source)
    from nirmap_generator import outside

    return outside.read(source, source, own).declarations

"""Mappings outside of nirmap: a folder with a file for each framework, which builds on nirmap's own mappings.

Every ``*.yaml`` file in the folder is a framework. It speaks of the primitives of nirmap's catalogue, and may include
nirmap's shared files. Its registry is a module in a package of the user's own, which names that module in the entry
point group ``nirmap.frameworks``. What nirmap itself declares is neither proven nor written again.
"""

from __future__ import annotations

from pathlib import Path

from nirmap_generator import pipeline
from nirmap_generator.check import check_framework
from nirmap_generator.check_files import check_files, is_shared
from nirmap_generator.formatting import formatted
from nirmap_generator.graphs import check_graphs
from nirmap_generator.load import Document, load
from nirmap_generator.parsing import Parser
from nirmap_generator.pipeline import Declarations
from nirmap_generator.problems import DeclarationError, Problem, Problems
from nirmap_generator.prove import prove
from nirmap_generator.render import Renderer, header
from nirmap_generator.validate import load_schema, validate
from nirmap_generator.write import Changes, compare_files, write_files

# How the first line of every generated file begins.
MARK = header({}).partition("(")[0]


def read(folder: Path, base: Path) -> Declarations:
    """Loads, validates and parses a folder of framework files.

    Args:
        folder: holds a ``*.yaml`` file for each framework.
        base: nirmap's own mappings.

    Returns:
        The frameworks of the folder, with nirmap's catalogue, functions and shared files.

    Raises:
        DeclarationError: with every problem that was found.
    """
    problems = Problems()
    known = pipeline.read(base)
    documents = _load(folder, base, problems)
    parser = Parser(problems)
    own = [parser.framework(document) for document in documents]
    shared = {framework.name: framework for framework in known.frameworks if is_shared(framework)}
    # Among all names, so that none of nirmap's own is given a second time.
    check_files([*known.frameworks, *own], list(shared), problems)
    for framework in own:
        included = [row for name in framework.includes if name in shared for row in shared[name].rows]
        check_framework(framework, known.catalogue, problems, included)
        check_graphs(framework, known.catalogue, problems)
    problems.raise_if_any()
    return Declarations(
        known.catalogue,
        (*shared.values(), *own),
        known.functions,
        known.rewrites,
        (*known.documents, *documents),
    )


def _load(folder: Path, base: Path, problems: Problems) -> list[Document]:
    """Every file that is valid against the schema."""
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        problems.add(Problem(folder.name, 1, 1, "", "no *.yaml file", "one for each framework"))
    schema = load_schema(base / "schema" / "framework.schema.json")
    documents: list[Document] = []
    for path in paths:
        before = len(problems)
        try:
            document = load(path, shown_as=f"{folder.name}/{path.name}")
        except DeclarationError as error:
            problems.extend(error.problems)
            continue
        validate(document, schema, problems=problems)
        if len(problems) == before:
            documents.append(document)
    return documents


def _prove(declarations: Declarations) -> None:
    problems = Problems()
    for framework in declarations.frameworks:
        if not is_shared(framework):
            prove(declarations.catalogue, list(framework.all_rows), problems)
    problems.raise_if_any()


def _render(declarations: Declarations) -> dict[str, str]:
    """The text of every registry module, by its file name."""
    renderer = Renderer(declarations.catalogue)
    catalogue = declarations.catalogue.document
    texts: dict[str, str] = {}
    for framework in declarations.frameworks:
        if not is_shared(framework):
            own = framework.document
            digests = {catalogue.file: catalogue.digest, own.file: own.digest}
            texts[f"{framework.name}.py"] = renderer.framework(framework, digests)
    return formatted(texts)


def _is_generated(path: Path) -> bool:
    """Whether a file was written here before, and not by hand."""
    try:
        with path.open(encoding="utf-8") as stream:
            return stream.readline().startswith(MARK)
    except (OSError, UnicodeDecodeError):
        return False


def _refuse_to_replace(package: Path, names: dict[str, str], folder: Path) -> None:
    """A file that somebody wrote by hand stays.

    Raises:
        DeclarationError: there is one of that name.
    """
    problems = Problems()
    for name in names:
        if (package / name).exists() and not _is_generated(package / name):
            file = f"{folder.name}/{Path(name).stem}.yaml"
            found = f"{package.name}/{name}, which is not a generated file"
            do = "rename the framework and its file, or write into another package"
            problems.add(Problem(file, 1, 1, "framework", found, "no file of that name", do))
    problems.raise_if_any()


def generate(folder: Path, package: Path, base: Path) -> Changes:
    """Writes the registry module of each framework into a package.

    Args:
        folder: holds a ``*.yaml`` file for each framework.
        package: the folder of the Python package that the modules belong to; files written by hand in it stay.
        base: nirmap's own mappings.

    Raises:
        DeclarationError: with every problem that was found; nothing is written then.
    """
    declarations = read(folder, base)
    _prove(declarations)
    texts = _render(declarations)
    _refuse_to_replace(package, texts, folder)
    return write_files(package, texts, owned=lambda name: _owned(package, name))


def check(folder: Path, package: Path, base: Path) -> list[str]:
    """The differences between the registry modules in a package and what would be generated now.

    Raises:
        DeclarationError: with every problem that was found.
    """
    declarations = read(folder, base)
    _prove(declarations)
    return compare_files(package, _render(declarations), lambda name: _owned(package, name))


def _owned(package: Path, name: str) -> bool:
    """Whether a file of the package is the generator's to delete; those in folders below it are not."""
    return name.endswith(".py") and "/" not in name and _is_generated(package / name)

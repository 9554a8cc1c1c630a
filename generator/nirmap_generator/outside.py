"""Mappings outside of nirmap: a folder with files for frameworks and neurons, which builds on nirmap's own mappings.

A ``*.yaml`` file in the folder is a framework, or declares primitives (``primitives:``). A framework speaks of the
primitives of nirmap's catalogue and of those in the folder, and may include nirmap's shared files. Its registry is a
module in a package of the user's own, which names that module in the entry point group ``nirmap.frameworks``. For
neurons, the package has the modules ``nodes``, ``neurons``, ``catalogue`` and ``reference``, and names itself in the
group ``nirmap.neurons``. What nirmap itself declares is neither proven nor written again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from nirmap_generator import pipeline
from nirmap_generator.check import check_framework
from nirmap_generator.check_extensions import check_extensions
from nirmap_generator.check_files import check_files, is_shared
from nirmap_generator.extensions import BUILT_IN, extensions, reference_rows
from nirmap_generator.formatting import formatted
from nirmap_generator.graphs import check_graphs
from nirmap_generator.load import Document, load
from nirmap_generator.model import Catalogue, Framework, Place
from nirmap_generator.parsing import Parser
from nirmap_generator.pipeline import Declarations
from nirmap_generator.problems import DeclarationError, Problem, Problems
from nirmap_generator.prove import prove
from nirmap_generator.render import Renderer, header
from nirmap_generator.validate import load_schema, validate
from nirmap_generator.write import Changes, compare_files, write_files

# The modules that are generated for neurons.
OF_NEURONS = frozenset({"catalogue", "neurons", "nodes", "reference"})
# How the first line of every generated file begins.
MARK = header({}).partition(";")[0]


@dataclass(frozen=True)
class Outside:
    """What a folder declares.

    Attributes:
        declarations: the frameworks of the folder and nirmap's shared files, with all primitives.
        own: the primitives of the folder, as a catalogue.
        reference: the rows of their reference modules; None where the folder declares no primitive.
    """

    declarations: Declarations
    own: Catalogue
    reference: Framework | None


def read(folder: Path, package: Path, base: Path) -> Outside:
    """Loads, validates and parses a folder of files for frameworks and neurons.

    Args:
        folder: holds the ``*.yaml`` files.
        package: the folder of the Python package that the generated modules belong to.
        base: nirmap's own mappings.

    Raises:
        DeclarationError: with every problem that was found.
    """
    problems = Problems()
    known = pipeline.read(base)
    documents = _load(folder, base, problems)
    parser = Parser(problems)
    further = [document for document in documents if _declares_neurons(document)]
    catalogue = parser.catalogue(known.catalogue.document, [*known.catalogue.extensions, *further])
    own_catalogue = _own(catalogue, further)
    _check_neurons(own_catalogue, known, problems)
    known = replace(known, catalogue=catalogue)
    own = [parser.framework(document) for document in documents if document not in further]
    shared = {framework.name: framework for framework in known.frameworks if is_shared(framework)}
    # Among all names, so that none of nirmap's own is given a second time.
    check_files([*known.frameworks, *own], list(shared), problems)
    reference = _reference(own_catalogue, parser, package, [framework.name for framework in own], problems)
    for framework in (*own, *([] if reference is None else [reference])):
        included = [row for name in framework.includes if name in shared for row in shared[name].rows]
        check_framework(framework, known.catalogue, problems, included)
        check_graphs(framework, known.catalogue, problems)
    problems.raise_if_any()
    declarations = Declarations(
        known.catalogue,
        (*shared.values(), *own),
        known.functions,
        known.rewrites,
        (*known.documents, *documents),
    )
    return Outside(declarations, own_catalogue, reference)


def _declares_neurons(document: Document) -> bool:
    return "primitives" in document.data


def _own(catalogue: Catalogue, documents: list[Document]) -> Catalogue:
    """The primitives of some files alone."""
    own = {
        name: primitive
        for name, primitive in catalogue.primitives.items()
        if primitive.place.document in documents
    }
    return replace(catalogue, primitives=own, structure={}, extensions=tuple(documents))


def _check_neurons(own: Catalogue, known: Declarations, problems: Problems) -> None:
    """The primitives of the folder, as nirmap's own extensions are checked."""
    from nirmap_generator.check_catalogue import check_against_nir, check_catalogue
    from nirmap_generator.units import check_units

    before = len(problems)
    check_catalogue(own, problems)
    check_units(own, problems)
    check_extensions(own, problems)
    if len(problems) == before:
        check_against_nir(
            replace(
                own,
                primitives={**known.catalogue.primitives, **own.primitives},
                structure=known.catalogue.structure,
            ),
            problems,
        )
    for name, primitive in own.primitives.items():
        if primitive.equivalence is not None:
            do = "leave it out: only nirmap's own primitives have one"
            problems.add((primitive.place / "equivalence").problem(f"an equivalence of {name}", "none", do))


def _reference(
    own: Catalogue, parser: Parser, package: Path, names: list[str], problems: Problems
) -> Framework | None:
    """The rows of the modules that are generated from the equations of a folder."""
    if not own.extensions:
        return None
    for name in sorted(OF_NEURONS & set(names)):
        (place, *_) = [Place(document, ("primitives",)) for document in own.extensions]
        problems.add(place.problem(f"a framework {name!r} beside neurons", "another name for the framework"))
    module = f"{module_of(package)}.neurons"
    return Framework(
        name=BUILT_IN,
        description=f"Reference modules of {module_of(package)}",
        distribution="nirmap",
        versions=">=0",
        imports=(module,),
        time_step=1e-4,
        includes=(),
        rows=tuple(row for entry in extensions(own) for row in reference_rows(entry, parser, module)),
        not_mapped={},
        bypassed=(),
        folded=(),
        document=own.extensions[0],
    )


def module_of(package: Path) -> str:
    """The dotted name of the Python package in a folder: it begins where no ``__init__.py`` is around it any more."""
    path = package.resolve()
    parts = [path.name]
    while (path.parent / "__init__.py").exists():
        path = path.parent
        parts.insert(0, path.name)
    return ".".join(parts)


def _load(folder: Path, base: Path, problems: Problems) -> list[Document]:
    """Every file that is valid against the schema."""
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        expected = "one for each framework, and for neurons"
        problems.add(Problem(folder.name, 1, 1, "", "no *.yaml file", expected))
    schemas = {
        kind: load_schema(base / "schema" / f"{kind}.schema.json") for kind in ("framework", "catalogue")
    }
    documents: list[Document] = []
    for path in paths:
        before = len(problems)
        try:
            document = load(path, shown_as=f"{folder.name}/{path.name}")
        except DeclarationError as error:
            problems.extend(error.problems)
            continue
        if not {"primitives", "framework"} & document.data.keys():
            found = "neither primitives nor framework"
            do = "begin a file for neurons with primitives:, and one for a framework with framework: and its name"
            problems.add(Place(document, ()).problem(found, "one of these keys", do))
            continue
        kind = "catalogue" if _declares_neurons(document) else "framework"
        validate(document, schemas[kind], problems=problems)
        if len(problems) == before:
            documents.append(document)
    return documents


def _prove(outside: Outside) -> None:
    problems = Problems()
    frameworks = [framework for framework in outside.declarations.frameworks if not is_shared(framework)]
    for framework in (*frameworks, *([] if outside.reference is None else [outside.reference])):
        prove(outside.declarations.catalogue, list(framework.all_rows), problems)
    problems.raise_if_any()


def _render(outside: Outside, package: Path) -> dict[str, str]:
    """The text of every module, by its file name."""
    declarations = outside.declarations
    renderer = Renderer(declarations.catalogue)
    catalogue = declarations.catalogue.document
    texts: dict[str, str] = {}
    for framework in declarations.frameworks:
        if not is_shared(framework):
            own = framework.document
            digests = {catalogue.file: catalogue.digest, own.file: own.digest}
            texts[f"{framework.name}.py"] = renderer.framework(framework, digests)
    if outside.reference is not None:
        digests = {document.file: document.digest for document in outside.own.extensions}
        texts["nodes.py"] = renderer.nodes(outside.own, digests)
        texts["neurons.py"] = renderer.neurons(outside.own, digests)
        texts["catalogue.py"] = renderer.catalogue(outside.own, digests, module_of(package))
        texts["reference.py"] = renderer.framework(outside.reference, digests)
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
    """Writes the registry module of each framework, and the modules of neurons, into a package.

    Args:
        folder: holds the ``*.yaml`` files.
        package: the folder of the Python package that the modules belong to; files written by hand in it stay.
        base: nirmap's own mappings.

    Raises:
        DeclarationError: with every problem that was found; nothing is written then.
    """
    outside = read(folder, package, base)
    _prove(outside)
    texts = _render(outside, package)
    _refuse_to_replace(package, texts, folder)
    return write_files(package, texts, owned=lambda name: _owned(package, name))


def check(folder: Path, package: Path, base: Path) -> list[str]:
    """The differences between the registry modules in a package and what would be generated now.

    Raises:
        DeclarationError: with every problem that was found.
    """
    outside = read(folder, package, base)
    _prove(outside)
    return compare_files(package, _render(outside, package), lambda name: _owned(package, name))


def _owned(package: Path, name: str) -> bool:
    """Whether a file of the package is the generator's to delete; those in folders below it are not."""
    return name.endswith(".py") and "/" not in name and _is_generated(package / name)

"""The whole way from YAML files to Python modules: load, validate, check, prove, render, write or compare."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nirmap_generator.check import check_framework
from nirmap_generator.check_catalogue import check_against_nir, check_catalogue
from nirmap_generator.check_extensions import check_extensions
from nirmap_generator.check_files import check_files, check_functions, is_shared
from nirmap_generator.extensions import BUILT_IN, with_reference_rows
from nirmap_generator.formatting import formatted
from nirmap_generator.graphs import check_graphs
from nirmap_generator.load import Document, load
from nirmap_generator.model import Catalogue, Framework, Function
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import DeclarationError, Problems
from nirmap_generator.render import Renderer
from nirmap_generator.rewrites import Rewrite, check_rewrites, parse_rewrites
from nirmap_generator.units import check_units
from nirmap_generator.validate import load_schema, validate
from nirmap_generator.write import Changes, compare_files, write_files

CACHE = Path(".nirmap_cache") / "proofs.json"
PACKAGE = "nirmap_registry"
NEURONS_PAGE = "NEURONS.md"


@dataclass(frozen=True)
class Declarations:
    """Everything that a folder of mappings says."""

    catalogue: Catalogue
    frameworks: tuple[Framework, ...]
    functions: tuple[Function, ...]
    rewrites: tuple[Rewrite, ...]
    documents: tuple[Document, ...]

    @property
    def digest(self) -> str:
        """Digest of all documents and of what proves them: what proofs are remembered by."""
        text = "".join(f"{document.file} {document.digest}\n" for document in self.documents)
        return hashlib.sha256((text + generator_digest() + _versions()).encode()).hexdigest()


@functools.cache
def generator_digest() -> str:
    """Digest of the generator's own source."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".jinja"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _versions() -> str:
    """The installed packages that a proof depends on: the catalogue is held against nir."""
    return "".join(f"\n{name} {importlib.metadata.version(name)}" for name in ("nir", "sympy"))


def read(folder: Path) -> Declarations:
    """Loads, validates and parses a folder of mappings, and checks that its files fit together.

    A file that is not valid is left out, and the others are checked all the same.

    Args:
        folder: holds ``nir.yaml``, ``functions.yaml``, ``rewrites.yaml``, ``extensions/``, ``frameworks/``, ``shared/``
            and ``schema/``.

    Raises:
        DeclarationError: with every problem that was found.
    """
    problems = Problems()
    shared = sorted((folder / "shared").glob("*.yaml"))
    catalogues = _load_all([folder / "nir.yaml"], folder, "catalogue", problems)
    further = _load_all(sorted((folder / "extensions").glob("*.yaml")), folder, "catalogue", problems)
    tables = _load_all([folder / "functions.yaml"], folder, "functions", problems)
    series = _load_all([folder / "rewrites.yaml"], folder, "rewrites", problems)
    files = [*shared, *sorted((folder / "frameworks").glob("*.yaml"))]
    mappings = _load_all(files, folder, "framework", problems)
    parser = Parser(problems)
    functions = tuple(entry for table in tables for entry in parser.functions(table))
    rewrites = tuple(entry for table in series for entry in parse_rewrites(table, parser))
    frameworks = tuple(parser.framework(document) for document in mappings)
    parsed = [parser.catalogue(document, further) for document in catalogues]
    for catalogue in parsed:
        check_extensions(catalogue, problems)
        frameworks = tuple(with_reference_rows(framework, catalogue, parser) for framework in frameworks)
    check_functions(functions, frameworks, problems)
    check_files(frameworks, [path.stem for path in shared], problems)
    for catalogue in parsed:
        check_rewrites(rewrites, catalogue, problems)
        _check_against_catalogue(catalogue, frameworks, problems)
    problems.raise_if_any()
    documents = (*catalogues, *further, *tables, *series, *mappings)
    return Declarations(parsed[0], frameworks, functions, rewrites, documents)


def _check_against_catalogue(
    catalogue: Catalogue, frameworks: tuple[Framework, ...], problems: Problems
) -> None:
    """All names. Where some are wrong, the catalogue is held against nir at once, for it may be the cause."""
    check_catalogue(catalogue, problems)
    check_units(catalogue, problems)
    rows = {framework.name: framework.rows for framework in frameworks if is_shared(framework)}
    for framework in frameworks:
        included = [row for name in framework.includes for row in rows.get(name, ())]
        check_framework(framework, catalogue, problems, included)
        check_graphs(framework, catalogue, problems)
    if len(problems) > 0:
        check_against_nir(catalogue, problems)


def _load_all(paths: list[Path], folder: Path, kind: str, problems: Problems) -> list[Document]:
    """Every document of a kind that is valid against its schema."""
    schema = load_schema(folder / "schema" / f"{kind}.schema.json")
    documents: list[Document] = []
    for path in paths:
        before = len(problems)
        shown = f"{folder.name}/{path.relative_to(folder).as_posix()}"
        try:
            document = load(path, shown_as=shown)
        except DeclarationError as error:
            problems.extend(error.problems)
            continue
        validate(document, schema, problems=problems)
        if len(problems) == before:
            documents.append(document)
    return documents


def prove_all(declarations: Declarations) -> None:
    """Holds the catalogue against nir, and proves every equivalence and every row.

    Raises:
        DeclarationError: with every counter-example.
    """
    from nirmap_generator.equivalences import prove_catalogue
    from nirmap_generator.prove import prove
    from nirmap_generator.prove_rewrites import prove_rewrites

    problems = Problems()
    check_against_nir(declarations.catalogue, problems)
    prove_catalogue(declarations.catalogue, problems)
    prove_rewrites(declarations.catalogue, declarations.rewrites, problems)
    for framework in declarations.frameworks:
        prove(declarations.catalogue, list(framework.all_rows), problems)
    problems.raise_if_any()


def render(declarations: Declarations) -> dict[str, str]:
    """The text of every generated file, by its name in the folder ``generated``."""
    renderer = Renderer(declarations.catalogue)
    catalogue = {document.file: document.digest for document in declarations.catalogue.documents}
    texts = {
        "__init__.py": renderer.render("__init__.py.jinja", {}, frameworks=declarations.frameworks),
        "rows.py": renderer.render("rows.py.jinja", {}),
        "catalogue.py": renderer.catalogue(declarations.catalogue, catalogue, PACKAGE),
        "neurons.py": renderer.neurons(declarations.catalogue, catalogue),
        "nodes.py": renderer.nodes(declarations.catalogue, catalogue),
        "functions.py": renderer.render(
            "functions.py.jinja", _digests(declarations, "functions.yaml"), functions=declarations.functions
        ),
        "rewrites.py": renderer.render(
            "rewrites.py.jinja", _digests(declarations, "rewrites.yaml"), rewrites=declarations.rewrites
        ),
    }
    for framework in declarations.frameworks:
        document = framework.document
        base = catalogue if framework.name == BUILT_IN else _digests(declarations, "nir.yaml")
        texts[f"{framework.name}.py"] = renderer.framework(
            framework, {**base, document.file: document.digest}
        )
    pages = {NEURONS_PAGE: renderer.neurons_page(declarations.frameworks)}
    return pages | {f"{PACKAGE}/{name}": text for name, text in formatted(texts).items()}


def _digests(declarations: Declarations, name: str) -> dict[str, str]:
    return {d.file: d.digest for d in declarations.documents if d.file.endswith(name)}


def _owned(name: str) -> bool:
    """Whether a file below ``generated`` is the generator's to delete."""
    return name == NEURONS_PAGE or (name.startswith(f"{PACKAGE}/") and name.endswith(".py"))


def generate(folder: Path, target: Path, *, cache: Path | None = None) -> Changes:
    """Generates all files; what is unchanged is not touched, and what was proven before is not proven again.

    Args:
        folder: the mappings.
        target: the folder ``generated``.
        cache: file that remembers what was proven; None for ``.nirmap_cache/proofs.json`` beside the mappings.

    Raises:
        DeclarationError: with every problem that was found; nothing is written then.
    """
    declarations = read(folder)
    remembered = folder.parent / CACHE if cache is None else cache
    if not _is_proven(remembered, declarations.digest):
        prove_all(declarations)
        _remember(remembered, declarations.digest)
    return write_files(target, render(declarations), owned=_owned)


def check(folder: Path, target: Path) -> list[str]:
    """The differences between the generated files and what would be generated now; everything is proven anew.

    Raises:
        DeclarationError: with every problem that was found.
    """
    declarations = read(folder)
    prove_all(declarations)
    return compare_files(target, render(declarations), _owned)


def _is_proven(cache: Path, digest: str) -> bool:
    try:
        known: Mapping[str, object] = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(known, dict) and known.get("proven") == digest


def _remember(cache: Path, digest: str) -> None:
    """Remembers a proof, where the folder can be written to; otherwise it is proven again the next time."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_files(
            cache.parent, {cache.name: json.dumps({"proven": digest}) + "\n"}, owned=lambda name: False
        )
    except OSError:
        return

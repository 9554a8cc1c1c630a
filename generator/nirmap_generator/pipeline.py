"""The whole way from YAML files to Python modules: load, validate, check, prove, render, write or compare."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nirmap_generator.check import check_against_nir, check_catalogue, check_framework
from nirmap_generator.coverage import coverage, coverage_table
from nirmap_generator.load import Document, load
from nirmap_generator.model import Catalogue, Framework, Function, Parser
from nirmap_generator.problems import DeclarationError, Problems
from nirmap_generator.render import Renderer, formatted
from nirmap_generator.validate import load_schema, validate
from nirmap_generator.write import Changes, compare_files, write_files

CACHE = Path(".nirmap_cache") / "proofs.json"
COVERAGE = "COVERAGE.md"
PACKAGE = "nirmap_registry"


@dataclass(frozen=True)
class Declarations:
    """Everything that a folder of mappings says."""

    catalogue: Catalogue
    frameworks: tuple[Framework, ...]
    functions: tuple[Function, ...]
    documents: tuple[Document, ...]

    @property
    def digest(self) -> str:
        """Digest of all documents and of the generator itself: what proofs are remembered by."""
        text = "".join(f"{document.file} {document.digest}\n" for document in self.documents)
        return hashlib.sha256((text + generator_digest()).encode()).hexdigest()


@functools.cache
def generator_digest() -> str:
    """Digest of the generator's own source."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".jinja"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def read(folder: Path) -> Declarations:
    """Loads, validates and parses a folder of mappings, and checks that its files fit together.

    Args:
        folder: holds ``nir.yaml``, ``functions.yaml``, ``frameworks/``, ``shared/`` and ``schema/``.

    Raises:
        DeclarationError: with every problem that was found.
    """
    problems = Problems()
    paths = {
        "catalogue": [folder / "nir.yaml"],
        "functions": [folder / "functions.yaml"],
        "framework": [
            *sorted((folder / "shared").glob("*.yaml")),
            *sorted((folder / "frameworks").glob("*.yaml")),
        ],
    }
    documents = {kind: _load_all(found, folder, kind, problems) for kind, found in paths.items()}
    problems.raise_if_any()
    parser = Parser(problems)
    catalogue = parser.catalogue(documents["catalogue"][0])
    functions = parser.functions(documents["functions"][0])
    frameworks = tuple(parser.framework(document) for document in documents["framework"])
    problems.raise_if_any()
    check_catalogue(catalogue, problems)
    for framework in frameworks:
        check_framework(framework, catalogue, problems)
    problems.raise_if_any()
    return Declarations(
        catalogue, frameworks, functions, tuple(d for found in documents.values() for d in found)
    )


def _load_all(paths: list[Path], folder: Path, kind: str, problems: Problems) -> list[Document]:
    """Every document of a kind that loads, validated against its schema."""
    schema = load_schema(folder / "schema" / f"{kind}.schema.json")
    documents: list[Document] = []
    for path in paths:
        shown = f"{folder.name}/{path.relative_to(folder).as_posix()}"
        try:
            document = load(path, shown_as=shown)
        except DeclarationError as error:
            problems.extend(error.problems)
            continue
        validate(document, schema, problems=problems)
        documents.append(document)
    return documents


def prove_all(declarations: Declarations) -> None:
    """Holds the catalogue against nir, and proves every equivalence and every row.

    Raises:
        DeclarationError: with every counter-example.
    """
    from nirmap_generator.prove import prove, prove_catalogue

    problems = Problems()
    check_against_nir(declarations.catalogue, problems)
    prove_catalogue(declarations.catalogue, problems)
    for framework in declarations.frameworks:
        prove(declarations.catalogue, list(framework.rows), problems)
    problems.raise_if_any()


def render(declarations: Declarations) -> dict[str, str]:
    """The text of every generated file, by its name in the folder ``generated``."""
    renderer = Renderer(declarations.catalogue)
    catalogue = {declarations.catalogue.document.file: declarations.catalogue.document.digest}
    neurons = [
        primitive
        for primitive in declarations.catalogue.primitives.values()
        if primitive.output is not None and (primitive.dynamics or not primitive.state)
    ]
    texts = {
        "__init__.py": renderer.render("__init__.py.jinja", {}, frameworks=declarations.frameworks),
        "rows.py": renderer.render("rows.py.jinja", {}),
        "catalogue.py": renderer.render("catalogue.py.jinja", catalogue, catalogue=declarations.catalogue),
        "neurons.py": renderer.render("neurons.py.jinja", catalogue, neurons=neurons),
        "functions.py": renderer.render(
            "functions.py.jinja", _function_digests(declarations), functions=declarations.functions
        ),
    }
    for framework in declarations.frameworks:
        document = framework.document
        texts[f"{framework.name}.py"] = renderer.framework(
            framework, {**catalogue, document.file: document.digest}
        )
    files = {f"{PACKAGE}/{name}": text for name, text in formatted(texts).items()}
    files[COVERAGE] = coverage_table(coverage(declarations.catalogue, declarations.frameworks))
    return files


def _function_digests(declarations: Declarations) -> dict[str, str]:
    return {d.file: d.digest for d in declarations.documents if d.file.endswith("functions.yaml")}


def _owned(name: str) -> bool:
    """Whether a file below ``generated`` is the generator's to delete."""
    return name == COVERAGE or (name.startswith(f"{PACKAGE}/") and name.endswith(".py"))


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
    except (OSError, ValueError):
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

"""The wheel that a user installs, and the direction of the imports in it.

If the first half fails, an installed nirmap lacks files that a checkout has. If the second half fails, the generator
no longer runs where no framework is installed, or importing nirmap costs the import of a framework.
"""

from __future__ import annotations

import ast
import configparser
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {
    "nirmap": ROOT / "src" / "nirmap",
    "nirmap_generator": ROOT / "generator" / "nirmap_generator",
    "nirmap_registry": ROOT / "generated" / "nirmap_registry",
    "nirmap/mappings": ROOT / "mappings",
}
FRAMEWORKS = {"norse", "rockpool", "sinabs", "snntorch", "spikingjelly"}
COMMAND_LINE = "nirmap.cli"  # the one part of the runtime that starts the generator


# ---------------------------------------------------------------------------------------------------- the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the built wheel unpacks to. Nothing is downloaded: hatchling is in the test environment."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    built = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(ROOT)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (file,) = folder.glob("*.whl")
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(file) as archive:
        archive.extractall(unpacked)
    return unpacked


def _files(folder: Path) -> set[str]:
    """All files below a folder, as paths relative to it, without what Python or an editor leaves there."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {
        path.as_posix()
        for path in paths
        if "__pycache__" not in path.parts and not any(part.startswith(".") for part in path.parts)
    }


def _metadata(wheel: Path) -> Path:
    (folder,) = wheel.glob("*.dist-info")
    return folder


def test_wheel_puts_three_packages_in_site_packages_and_nothing_else(wheel: Path) -> None:
    names = {path.name for path in wheel.iterdir()}
    assert names == {"nirmap", "nirmap_generator", "nirmap_registry", _metadata(wheel).name}


@pytest.mark.parametrize("target", SOURCES)
def test_wheel_has_every_file_of_the_checkout(wheel: Path, target: str) -> None:
    expected = _files(SOURCES[target])
    found = _files(wheel / target)
    if target == "nirmap":
        found = {name for name in found if not name.startswith("mappings/")}
    assert found == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "nirmap/py.typed",
        "nirmap_generator/py.typed",
        "nirmap_registry/py.typed",
        "nirmap/mappings/nir.yaml",
        "nirmap/mappings/functions.yaml",
        "nirmap/mappings/frameworks/*.yaml",
        "nirmap/mappings/schema/*.schema.json",
        "nirmap_generator/templates/*",
        "*.dist-info/licenses/LICENSE",
    ],
)
def test_wheel_has_what_is_not_python(wheel: Path, pattern: str) -> None:
    assert list(wheel.glob(pattern))


def test_no_python_file_lies_among_the_declarations() -> None:
    """One would break the editable install, which maps source roots and not single files."""
    assert not list((ROOT / "mappings").rglob("*.py"))


def test_command_starts_a_module_of_the_wheel(wheel: Path) -> None:
    entry_points = configparser.ConfigParser()
    entry_points.read(_metadata(wheel) / "entry_points.txt")
    module, _, function = entry_points["console_scripts"]["nirmap"].partition(":")
    assert function == "main"
    path = wheel.joinpath(*module.split("."))
    assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_core_dependencies_hold_no_framework(wheel: Path) -> None:
    """``pip install nirmap`` brings no framework, and no torchvision, which would have to match torch."""
    metadata = Parser().parsestr((_metadata(wheel) / "METADATA").read_text(encoding="utf-8"))
    core = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    for unwanted in [*FRAMEWORKS, "nirtorch", "samna", "torchvision"]:
        assert not [line for line in core if line.startswith(unwanted)]
    assert [line for line in core if line.startswith("nir>=1.0.8")]


def test_packages_import_from_the_unpacked_wheel(wheel: Path) -> None:
    program = "\n".join(
        f"import {name}; print({name}.__file__)" for name in ("nirmap", "nirmap_generator", "nirmap_registry")
    )
    paths = _run(program, wheel).splitlines()
    assert len(paths) == 3
    assert all(Path(path).is_relative_to(wheel) for path in paths)


# -------------------------------------------------------------------------------------- imports point one way


def _run(program: str, *search_path: Path) -> str:
    """What a program prints, in a fresh interpreter that looks in the given folders first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, search_path))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=search_path[0],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _modules(package: str) -> list[tuple[str, Path]]:
    """Dotted name and file of every module of a package."""
    folder = SOURCES[package]
    found: list[tuple[str, Path]] = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level name of everything that a file imports from elsewhere, at any depth.

    Counts ``import_module("x")`` and ``__import__("x")`` with a literal name too.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield node.lineno, alias.name.partition(".")[0]
            case ast.ImportFrom(level=0, module=str(name)):
                yield node.lineno, name.partition(".")[0]
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name.partition(".")[0]
            case _:
                pass


def _forbidden(module: str) -> set[str]:
    """Top-level names that a module must not import."""
    package, *rest = module.split(".")
    if package == "nirmap_generator":
        return {"nirmap", "nirmap_registry", "torch", "torchvision", *FRAMEWORKS}
    if package == "nirmap_registry":
        # A generated module imports its own framework, and no other. The reference modules of the framework torch, and
        # the nodes that NIR lacks, have bases in nirmap, which imports those modules only when it is asked for; layers
        # of sinabs take functions of it.
        own = {"nirmap"} if rest[:1] in (["torch"], ["neurons"], ["nodes"], ["sinabs"]) else set[str]()
        return {"nirmap", "nirmap_generator", "yaml", *(FRAMEWORKS - set(rest[:1]))} - own
    if module == COMMAND_LINE or module.startswith(f"{COMMAND_LINE}."):
        return set(FRAMEWORKS)
    # The page of the audit is a template; what converts a network needs none.
    templates = set[str]() if module == "nirmap.audit.page" else {"jinja2"}
    return {"nirmap_generator", "yaml", *templates, *FRAMEWORKS}


@pytest.mark.parametrize("package", ["nirmap", "nirmap_generator", "nirmap_registry"])
def test_imports_point_one_way(package: str) -> None:
    modules = _modules(package)
    assert modules
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module} imports {name}"
        for module, path in modules
        for line, name in _imported(path)
        if name in _forbidden(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_spelling_of_an_import_is_seen(tmp_path: Path) -> None:
    """The test above passes for nothing if the scan overlooks imports."""
    file = tmp_path / "module.py"
    file.write_text(
        "import a.b, c as d\n"
        "from e.f import g\n"
        "from . import own\n"
        "from .own import h\n"
        "def later():\n"
        "    import i\n"
        "    importlib.import_module('j.k')\n"
        "    __import__('l')\n"
    )
    assert [name for _, name in sorted(_imported(file))] == ["a", "c", "e", "i", "j", "l"]


def test_generator_runs_where_neither_torch_nor_a_framework_is_installed() -> None:
    """Imports every module of the generator with those names made unimportable."""
    absent = sorted({"nirmap", "nirmap_registry", "torch", *FRAMEWORKS})
    modules = [name for name, _ in _modules("nirmap_generator") if not name.endswith("__main__")]
    program = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({absent!r}))\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "print('done')"
    )
    assert _run(program, SOURCES["nirmap_generator"].parent) == "done\n"


def test_importing_nirmap_imports_no_framework_and_no_generator() -> None:
    absent = {"nirmap_generator", "jinja2", "yaml", *FRAMEWORKS}
    program = (
        "import sys, torch, nir\nbefore = set(sys.modules)\nimport nirmap\n"
        f"print(sorted({absent!r} & (set(sys.modules) - before)))"
    )
    search_path = [SOURCES[name].parent for name in ("nirmap", "nirmap_registry")]
    assert _run(program, *search_path) == "[]\n"

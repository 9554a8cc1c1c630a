"""The documentation against the code. If these fail, what a newcomer copies from the documentation does not work."""

from __future__ import annotations

import ast
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from commands import ROOT
from nirmap.cli import app

TRACED = "docs/what-can-be-traced.md"
FROM_NIRTORCH = "docs/from-nirtorch.md"
TUTORIAL = "docs/add-a-neuron.md"
ARCHITECTURE = "docs/architecture.md"
PAGES = ("README.md", "CONTRIBUTING.md", "mappings/README.md", ARCHITECTURE, TRACED, FROM_NIRTORCH, TUTORIAL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# What a copy of the project needs to run, beside its mappings.
COPIED = ("src", "generator", "generated")
# Where packages are installed in it.
INSTALLED = "installed"
# How commands that are no Python of the page are run. Nothing is downloaded: hatchling is in the test environment.
PROGRAMS = {
    "nirmap": ("-c", "from nirmap.cli import main; main()"),
    "pip": ("-m", "pip", "--quiet", "--disable-pip-version-check"),
}
OFFLINE = ("--no-index", "--no-build-isolation", "--target", INSTALLED)
COMMANDS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]


@dataclass(frozen=True)
class Block:
    """A fenced block, with the line that it begins at."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            match[2],
            re.sub(f"^{match[1]}", "", match[3], flags=re.MULTILINE),
            text[: match.start(3)].count("\n"),
        )
        for match in FENCE.finditer(text)
    ]


def typed_in(block: Block) -> list[str]:
    """The commands of a console, without their comments."""
    return [
        line.removeprefix("$ ").partition("  #")[0].strip()
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]


def commands(page: str) -> list[str]:
    """Everything that the page tells its reader to type: in its consoles, and between backquotes in its prose."""
    text = (ROOT / page).read_text(encoding="utf-8")
    typed = [command for block in blocks(page) if block.language == "console" for command in typed_in(block)]
    return typed + re.findall(r"`((?:make|nirmap) [^`]+)`", FENCE.sub("", text))


def test_every_block_of_the_pages_is_found() -> None:
    assert {block.language for page in PAGES for block in blocks(page)} >= {"python", "console", "yaml"}
    for page in PAGES:
        assert (ROOT / page).read_text(encoding="utf-8").count("```") == 2 * len(blocks(page))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page != TUTORIAL and any(b.language == "python" for b in blocks(page))],
)
def test_python_runs_from_top_to_bottom(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what a comment behind a print says is what it prints."""
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []

    def note(*values: object) -> None:
        printed.append(" ".join(map(str, values)))

    names: dict[str, Any] = {"__name__": "documentation", "print": note}
    expected: list[str] = []
    for block in blocks(page):
        if block.language == "python":
            source = "\n" * block.line + block.text  # so that a traceback shows the line of the page
            exec(compile(source, str(ROOT / page), "exec"), names)
            expected += PRINTED.findall(block.text)
    assert printed == expected


def run_there(folder: Path, *arguments: str) -> str:
    """What Python prints in a folder with a copy of the project."""
    paths = os.pathsep.join(str(folder / name) for name in (*COPIED, INSTALLED))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def type_there(folder: Path, command: str) -> None:
    """A line of a console, typed in that folder."""
    program, *words = shlex.split(command)
    if program == "mkdir":
        assert words[0] == "-p", command
        (folder / words[1]).mkdir(parents=True)
    else:
        offline = OFFLINE if program == "pip" else ()
        run_there(folder, *PROGRAMS[program], *words, *offline)


def test_the_tutorial_works_from_top_to_bottom(tmp_path: Path) -> None:
    """In a copy of the project: files are written, commands typed, and Python between two of them is one program."""
    for name in (*COPIED, "mappings"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for language, group in itertools.groupby(blocks(TUTORIAL), lambda block: block.language):
        run = list(group)
        if language == "python":
            source = "\n".join(block.text for block in run)
            assert run_there(tmp_path, "-c", source).splitlines() == PRINTED.findall(source)
        for block in run:
            if language == "console":
                for command in typed_in(block):
                    type_there(tmp_path, command)
            elif language in ("yaml", "toml"):
                # Its first line names the file.
                (tmp_path / block.text.splitlines()[0].removeprefix("# ")).write_text(block.text)
            else:
                assert language in ("python", ""), block


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for command in commands(page):
        words = command.split()
        if words[0] == "make" and len(words) > 1:
            assert words[1] in targets, command
        if words[0] == "nirmap":
            assert words[1] in COMMANDS or words[1] == "--version", command
            called = COMMANDS[words[1]]
            if hasattr(called, "commands"):  # as in nirmap new neuron
                assert words[2] in called.commands, command
                called = called.commands[words[2]]
            options = {option for parameter in called.params for option in parameter.opts}
            assert {word for word in words[2:] if word.startswith("-")} <= options, command


def test_the_pages_name_commands() -> None:
    assert {"make demo", "make test", "nirmap generate mappings --out src/toysnn_nirmap"} <= set(
        commands("README.md")
    )
    assert {"make test", "make", "nirmap check"} <= set(commands("CONTRIBUTING.md"))


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    for link in links:
        assert ((ROOT / page).parent / link).exists(), link
    for path in re.findall(
        r"`((?:docs|examples|generated|generator|mappings|src|tests|benchmarks)/[\w./-]*)`", text
    ):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", [TRACED, FROM_NIRTORCH])
def test_every_line_of_a_table_of_tests_names_one_that_exists(page: str) -> None:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    named = [row for row in rows if row[-1].startswith("`tests/")]
    assert named
    # The others are the two lines of a table's head.
    assert all(row[-1] in ("test", "---") for row in rows if row not in named)
    for row in named:
        path, _, name = row[-1].strip("`").partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, row


def test_the_coverage_is_what_the_audit_says() -> None:
    line = re.compile(
        r"^\w+: (?:\d+ of \d+ primitives|of \d+ recurrent .*) from NIR, \d+ to NIR$", re.MULTILINE
    )
    said = line.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert said
    # `make check` executes the audit, and fails where this page is not what it says.
    assert said == line.findall((ROOT / "generated" / "COVERAGE.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", ["src/nirmap", "generator/nirmap_generator"])
def test_the_page_on_the_architecture_names_every_module(package: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / package).glob("[!_]*.py")}
    assert {module for module in modules if f"`{module}`" not in text} == set()


def test_the_figure_of_one_lif_names_what_is_generated() -> None:
    from nirmap_registry import snntorch

    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = re.findall(r"\b(?:normalise|build|read)_lif_\w+", text)
    assert len(names) == 3
    assert all(hasattr(snntorch, name) for name in names)

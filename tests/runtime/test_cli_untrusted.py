"""What a file says is shown, and not obeyed. If these fail, a ``.nir`` file can take over its reader's terminal."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import nir
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import invoke, neurons, run_alone
from nirmap.cli.text import escaped, shown
from oracle.building import input_node, output_node

# What a terminal obeys, and what rich would take for markup or an emoji. HDF5 has no slash in a name.
METADATA = "\x1b[31m\x1b]0;title\x07 [bold red]markup[/] :smile: \u202edrow\r\nnode -> none\x9b2J"
NAME = METADATA.replace("/", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with a node of that name: hostile.nir, and refused.nir, which norse has no module for."""
    path = tmp_path_factory.mktemp("files")
    for file, node in (("hostile.nir", neurons()), ("refused.nir", nir.Delay(np.ones(3)))):
        nodes: dict[str, nir.NIRNode] = {"input": input_node(3), NAME: node, "output": output_node(3)}
        nir.write(path / file, nir.NIRGraph(nodes, list(pairwise(nodes)), metadata={NAME: METADATA}))
    return path


def commands_on_hostile_files(folder: Path) -> list[list[str]]:
    return [
        ["inspect", str(folder / "hostile.nir"), "--all"],
        ["convert", str(folder / "hostile.nir"), "--all", "--verbose"],
        ["convert", str(folder / "refused.nir"), "--framework", "norse"],
    ]


def test_names_and_metadata_are_neither_obeyed_nor_taken_for_markup(folder: Path) -> None:
    for arguments in commands_on_hostile_files(folder):
        result = invoke(*arguments)
        for text in (result.stdout, result.stderr):
            assert all(letter == "\n" or letter.isprintable() for letter in text)
            assert "node -> none" not in [line.strip() for line in text.splitlines()]
        shown_once = "".join(result.output.split())
        for part in (
            r"\x1b[31m\x1b]0;title\x07",
            "[boldred]markup[]",
            ":smile:",
            r"\u202e",
            r"\r\n",
            r"\x9b2J",
        ):
            assert part in shown_once


def test_a_colour_terminal_gets_no_sequence_but_colours(folder: Path) -> None:
    for arguments in commands_on_hostile_files(folder):
        done = run_alone(*arguments, FORCE_COLOR="1", TERM="xterm-256color")
        rest = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
        assert all(letter == "\n" or letter.isprintable() for letter in rest)


@given(st.text(), st.text())
def test_two_names_never_look_alike(first: str, second: str) -> None:
    for name in (first, second):
        assert shown(name, None).isprintable()
        assert shown(name, None).strip() == shown(name, None) != ""
        assert escaped(name).isprintable()
    assert (shown(first, None) == shown(second, None)) == (first == second)


def test_a_long_name_is_shortened_and_says_so() -> None:
    assert shown("n" * 10_000) == "n" * 60 + "... (10,000 characters)"

"""``nirmap new``. If these fail, who adds a neuron begins with a file that does not work, or loses one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import ROOT, invoke
from declaring import copied

USE = """
import numpy as np, torch, nir, nirmap, nirmap.nodes
from nirmap.oracle.interpreter import simulate

node = nirmap.nodes.Fresh(tau=np.full(3, 0.02))
graph = nir.NIRGraph(
    {"input": nir.Input(np.array([3])), "fresh": node, "output": nir.Output(np.array([3]))},
    [("input", "fresh"), ("fresh", "output")],
)
xs = np.random.default_rng(0).uniform(0, 6, (200, 1, 3))
net = nirmap.from_nir(graph, dt=1e-3, dtype=torch.float64)
spikes, _ = nirmap.run(net, torch.as_tensor(xs))
expected = simulate(graph, xs, 1e-3)
np.testing.assert_array_equal(spikes.numpy(), expected.outputs["output"])
print(int(spikes.sum()))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declared_in(path: Path) -> dict[str, Any]:
    primitives: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["primitives"]
    return primitives


def test_the_file_works_as_it_is(here: Path) -> None:
    """Among the mappings, whose every proof it passes; what is generated gives the spikes of the oracle."""
    mappings = copied(here)
    result = invoke("new", "neuron", "Fresh")
    assert result.exit_code == 0, result.output
    assert "nirmap generate" in result.stderr
    assert "mappings/extensions/Fresh.yaml" in result.stdout
    assert invoke("generate", mappings, "--out", here / "generated").exit_code == 0
    paths = [here / "generated", ROOT / "src", ROOT / "generator"]
    done = subprocess.run(
        [sys.executable, "-c", USE],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(map(str, paths))},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_every_key_is_explained_above_or_beside_it(here: Path) -> None:
    invoke("new", "neuron", "Fresh")
    text = (here / "Fresh.yaml").read_text(encoding="utf-8")
    (neuron,) = declared_in(here / "Fresh.yaml").values()
    for key in neuron:
        assert re.search(rf"^ +# .*\n    {key}:", text, re.MULTILINE), key
    for key in {key for parameter in neuron["parameters"].values() for key in parameter}:
        assert re.search(rf"#   {key} +\S", text), key


def test_where_there_is_no_folder_of_extensions_it_is_written_here(here: Path) -> None:
    assert invoke("new", "neuron", "Fresh").exit_code == 0
    assert set(declared_in(here / "Fresh.yaml")) == {"Fresh"}


def test_an_editor_is_led_to_the_schema_where_there_is_one(here: Path) -> None:
    schema = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")
    invoke("new", "neuron", "Fresh")
    assert not schema.search((here / "Fresh.yaml").read_text())
    copied(here)
    invoke("new", "neuron", "Fresh")
    folder = here / "mappings" / "extensions"
    found = schema.match((folder / "Fresh.yaml").read_text())
    assert found
    assert (folder / found[1]).is_file()


def test_a_file_that_is_there_is_not_replaced(here: Path) -> None:
    (here / "mine.yaml").write_text("mine")
    result = invoke("new", "neuron", "Fresh", "--out", "mine.yaml", columns=200)
    assert result.exit_code == 1
    assert re.search(r"error: file mine.yaml\n  found: .*\n  expected: .*\n  do: .*--out", result.stderr)
    assert (here / "mine.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("fresh", "capital letter"),
        ("1st", "capital letter"),
        ("Is-Not", "capital letter"),
        ("A\nB", "capital letter"),
        ("../Up", "capital letter"),
        ("\u00c4dLIF", "capital letter"),
        ("", "capital letter"),
        ("None", "a word of Python's"),
        ("Equations", "something else"),
        ("LIF", "NIR has a LIF already"),
        ("NIRGraph", "NIR has a NIRGraph already"),
        ("AdLIF", "nirmap has a AdLIF already"),
    ],
)
def test_a_name_that_no_node_class_can_have_is_refused(here: Path, name: str, found: str) -> None:
    result = invoke("new", "neuron", name, columns=200)
    assert result.exit_code == 2
    assert found in result.stderr
    assert "choose another" in result.stderr
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "found"), [("no/such/new.yaml", "make it first"), ("new.txt", "end in .yaml")]
)
def test_a_place_where_nothing_can_be_generated_from_is_refused(here: Path, out: str, found: str) -> None:
    result = invoke("new", "neuron", "Fresh", "--out", out, columns=200)
    assert result.exit_code == 2
    assert found in result.stderr
    assert list(here.iterdir()) == []


def test_help_has_an_example_that_the_command_accepts(here: Path) -> None:
    result = invoke("new", "neuron", "--help", columns=120)
    examples = re.findall(r"^\s*nirmap (new neuron .*?)\s*$", result.stdout, re.MULTILINE)
    assert len(examples) == 2
    (here / "my_neurons").mkdir()
    for example in examples:
        assert invoke(*example.split()).exit_code == 0

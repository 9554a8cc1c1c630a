"""A framework outside of this repository: the one of the README, step by step as the README says.

If these fail, nobody can add a framework without changing nirmap.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nir
import numpy as np
import pytest
import torch

import nirmap
from commands import ROOT, invoke
from nirmap.oracle.interpreter import margin, simulate
from nirmap.registry import load_registry
from oracle import architectures
from watching import MARGIN, assert_fires, assert_same_spikes, layer_spikes

CODE = """
import torch

class Pulse(torch.nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.register_buffer("keep", torch.as_tensor(keep))

    def forward(self, x, level):
        level = self.keep * level + x
        pulse = (level > 1).to(x.dtype)
        return pulse, level * (1 - pulse)
"""


def readme_block(language: str) -> str:
    (text,) = re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    return str(text)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the package toysnn and its mappings, as if the package were installed from there."""
    mappings, source = tmp_path / "mappings", tmp_path / "src"
    mappings.mkdir()
    (source / "toysnn").mkdir(parents=True)
    (source / "toysnn" / "__init__.py").write_text(CODE)
    (mappings / "toy.yaml").write_text(readme_block("yaml"))
    metadata = source / "toysnn-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toysnn\nVersion: 1.2\n")
    entry_points = readme_block("toml").replace(
        '[project.entry-points."nirmap.frameworks"]', "[nirmap.frameworks]"
    )
    (metadata / "entry_points.txt").write_text(entry_points.replace('"', ""))
    monkeypatch.setattr(sys, "path", [str(source), *sys.path])
    load_registry.cache_clear()
    yield tmp_path
    load_registry.cache_clear()
    for name in [name for name in sys.modules if name.startswith("toysnn")]:
        del sys.modules[name]


def generate(package: Path, command: str = "generate") -> tuple[int, str]:
    result = invoke(command, package / "mappings", "--out", package / "src" / "toysnn_nirmap")
    return result.exit_code, result.output


def test_it_gives_the_oracles_spikes(package: Path) -> None:
    code, output = generate(package)
    assert code == 0, output
    assert "written   toy.py" in output
    assert readme_block("toml").splitlines()[1] in output
    graph = architectures.single_lif()
    inputs = architectures.strong_input(graph, 300, 3)
    trace = simulate(graph, inputs, 1e-4)
    assert_fires(trace, 20)
    assert margin(trace) > MARGIN
    assert_same_spikes(layer_spikes(graph, inputs, "toy", 1e-4), trace)


def test_its_modules_become_nodes_and_its_limits_are_refused(package: Path) -> None:
    generate(package)
    module: torch.nn.Module = importlib.import_module("toysnn").Pulse(torch.full((3,), 0.9))
    graph = nirmap.to_nir(module, "toy", dt=1e-3)
    (node,) = [node for node in graph.nodes.values() if isinstance(node, nir.LIF)]
    np.testing.assert_allclose([node.tau, node.r], [[0.01] * 3, [10.0] * 3], rtol=1e-6)
    with pytest.raises(nirmap.ConstraintError, match="falls back to its resting level"):
        nirmap.from_nir(architectures.two_lif_neurons(), "toy")
    with pytest.raises(nirmap.UnsupportedNodeError):
        nirmap.from_nir(architectures.braille_recurrent(), "toy")


def test_the_commands_know_it(package: Path) -> None:
    generate(package)
    assert re.search(r"toy +1\.2 +>=1,<2 +0\.001 s", invoke("list").stdout)
    assert re.search(r"toysnn\.Pulse +LIF +stateful", invoke("list", "toy").stdout)
    audit = invoke("audit", "-f", "toy")
    assert audit.exit_code == 0, audit.output
    assert re.search(r"LIF +if / if", audit.stdout)


def test_a_stale_file_is_found_and_an_unchanged_one_kept(package: Path) -> None:
    generate(package)
    assert generate(package, "check") == (0, "mappings valid and proven, generated files fresh\n")
    assert "1 file unchanged" in generate(package)[1]
    file = package / "mappings" / "toy.yaml"
    file.write_text(file.read_text().replace("time_step: 1.0e-3", "time_step: 2.0e-3"))
    code, output = generate(package, "check")
    assert code == 1
    assert "+    time_step=0.002," in output
    assert "1 file is stale" in output


def test_what_is_wrong_is_said_with_its_place_and_nothing_is_written(package: Path) -> None:
    file = package / "mappings" / "toy.yaml"
    file.write_text(
        file.read_text().replace("tau: dt / (1 - module.keep)", "tau: 2 * dt / (1 - module.keep)")
    )
    code, output = generate(package)
    assert code == 1
    assert re.search(r"error: mappings/toy\.yaml:\d+:\d+: ", output)
    assert not (package / "src" / "toysnn_nirmap").exists()


@pytest.mark.parametrize("name", ["norse", "torch_nn"])
def test_a_name_of_nirmaps_own_is_refused(package: Path, name: str) -> None:
    """It would be shadowed by the built-in one, or shadow it."""
    file = package / "mappings" / "toy.yaml"
    file.unlink()
    (package / "mappings" / f"{name}.yaml").write_text(
        readme_block("yaml").replace("framework: toy\n", f"framework: {name}\n")
    )
    code, output = generate(package)
    assert code == 1
    assert f"'{name}' again" in output


def test_a_file_that_somebody_wrote_is_not_replaced(package: Path) -> None:
    target = package / "src" / "toysnn_nirmap"
    target.mkdir()
    (target / "toy.py").write_text("print('mine')\n")
    (target / "other.py").write_text("print('mine too')\n")
    code, output = generate(package)
    assert code == 1
    assert "not a generated file" in output
    assert (target / "toy.py").read_text() == "print('mine')\n"
    (target / "toy.py").unlink()
    assert generate(package)[0] == 0
    assert (target / "other.py").read_text() == "print('mine too')\n"

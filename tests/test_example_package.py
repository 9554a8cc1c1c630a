"""The package in ``examples/``, built and installed as a stranger's.

If these fail, a newcomer who copies it has a neuron that nirmap does not find, or whose files cannot be read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commands import ROOT, invoke

EXAMPLE = ROOT / "examples" / "mihalas_niebur"
NEURONS, PACKAGE = EXAMPLE / "neurons", EXAMPLE / "src" / "mihalas_niebur"

READ = """
import sys
import numpy as np
import torch
import nirmap
from nirmap.oracle.interpreter import simulate

graph = nirmap.read(sys.argv[1])
node = graph.nodes["neurons"]
assert type(node).__module__ == "mihalas_niebur.nodes"
xs = np.random.default_rng(2).uniform(0, 1, (80, 4, 8))
net = nirmap.from_nir(graph, dtype=torch.float64)
outputs, state = nirmap.run(net, torch.as_tensor(xs))
trace = simulate(graph, xs, 1e-3)
assert 20 < trace.spike_counts()[("neurons",)] < 80 * 4 * 16 / 2
np.testing.assert_allclose(outputs.detach(), trace.outputs["output"], rtol=1e-9, atol=1e-9)
for name in ("v", "theta"):
    expected = trace.states[("neurons",)][name][-1]
    np.testing.assert_allclose(state["neurons"][name].detach(), expected, rtol=1e-9, atol=1e-12)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package alone. Nothing is downloaded: hatchling is in the test environment."""
    folder = tmp_path_factory.mktemp("installed")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(folder), str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def run(folder: Path, installed: Path, *arguments: str) -> str:
    """What a program prints, in a process of its own, with nirmap and the installed package."""
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT / "generator", ROOT / "generated", installed)))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_committed_modules_are_what_the_generator_writes() -> None:
    result = invoke("check", NEURONS, "--out", PACKAGE)
    assert result.exit_code == 0, result.output


def test_the_installed_neuron_is_found_trained_written_and_read_in_another_process(
    installed: Path, tmp_path: Path
) -> None:
    printed = run(tmp_path, installed, str(EXAMPLE / "train.py"), "trained.nir")
    assert "neuron: mihalas_niebur.neurons.MihalasNiebur" in printed
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed)]
    assert len(losses) > 2
    assert losses[-1] < losses[0] / 2
    run(tmp_path, installed, "-c", READ, "trained.nir")

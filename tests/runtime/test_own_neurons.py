"""A neuron from YAML alone: it is trained, written, and read back in another process.

If these fail, a neuron that NIR does not have cannot be used without Python by hand, or its file cannot be read again.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import ROOT, invoke
from nirmap.extension import ExtensionNode
from nirmap.neuron import Neuron
from nirmap_generator import outside, pipeline
from nirmap_generator.check_extensions import TAKEN
from nirmap_generator.pipeline import Declarations
from nirmap_generator.problems import DeclarationError

NEURON = """
primitives:
  Rebound:
    description: A leaky neuron that a slow copy of its potential drives away from where it was.
    source: this test
    shape: elementwise
    input_unit: A
    typical_input: [0, 3]
    parameters:
      tau: {kind: neuron, unit: s, domain: tau > 0, default: 0.01, description: membrane time constant}
      tau_slow: {kind: neuron, unit: s, domain: tau_slow > 0, default: 0.02, description: time constant of the copy}
      r: {kind: neuron, unit: ohm, default: 1, description: resistance}
      strength: {kind: neuron, unit: "1", default: 0.4, description: how much the copy drives}
      v_threshold: {kind: neuron, unit: V, default: 0.8, description: firing threshold}
      v_reset: {kind: neuron, unit: V, default: 0, description: membrane potential after a spike}
    state:
      slow: {unit: V, description: slow copy of the membrane potential}
      v: {unit: V, description: membrane potential}
    dynamics:
      slow: (v - slow) / tau_slow
      v: (r * input - v + strength * (v - slow)) / tau
    spike: v > v_threshold
    reset:
      v: v_reset
    output: spike
    output_unit: "1"
"""

TRAIN = """
import sys
import nir, numpy as np, torch
import nirmap
from own.neurons_of_mine import nodes

DT = 1e-3
torch.manual_seed(0)
weight = np.random.default_rng(0).uniform(0.2, 1.0, (4, 3))
graph = nir.NIRGraph(
    {
        "input": nir.Input({"input": np.array([3])}),
        "layer": nir.Linear(weight),
        "neuron": nodes.Rebound(tau=np.linspace(0.01, 0.02, 4)),
        "output": nir.Output({"output": np.array([4])}),
    },
    [("input", "layer"), ("layer", "neuron"), ("neuron", "output")],
)
net = nirmap.from_nir(graph, dt=DT, dtype=torch.float64)
xs = torch.tensor(np.random.default_rng(1).uniform(0, 2, (60, 8, 3)))
target = torch.tensor([0.05, 0.1, 0.15, 0.2], dtype=torch.float64)
optimiser = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.02)
losses = []
for _ in range(12):
    spikes, _ = nirmap.run(net, xs)
    loss = ((spikes.mean((0, 1)) - target) ** 2).sum()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[-1] < 0.7 * losses[0], losses
written = nirmap.to_nir(net)
assert not np.allclose(written.nodes["layer"].weight, weight)
nirmap.write(sys.argv[1], written)
spikes, _ = nirmap.run(net, xs)
np.savez(sys.argv[2], xs=xs.numpy(), spikes=spikes.detach().numpy())
assert 0.02 < spikes.mean() < 0.98
"""

READ = """
import sys
import numpy as np, torch
import nirmap
from nirmap.oracle.interpreter import simulate

graph = nirmap.read(sys.argv[1])
held = np.load(sys.argv[2])
assert type(graph.nodes["neuron"]).__name__ == "Rebound"
trace = simulate(graph, held["xs"], 1e-3)
np.testing.assert_array_equal(trace.outputs["output"], held["spikes"])
net = nirmap.from_nir(sys.argv[1], dt=1e-3, dtype=torch.float64)
spikes, state = nirmap.run(net, torch.tensor(held["xs"]))
np.testing.assert_array_equal(spikes.detach().numpy(), held["spikes"])
for name in ("v", "slow"):
    expected = trace.states[("neuron",)][name][-1]
    np.testing.assert_allclose(state["neuron"][name].detach(), expected, rtol=1e-12, atol=1e-12)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package ``own.neurons_of_mine``, generated and as if installed from there."""
    folder = tmp_path_factory.mktemp("own")
    mappings, source = folder / "mappings", folder / "src"
    package = source / "own" / "neurons_of_mine"
    mappings.mkdir()
    package.mkdir(parents=True)
    for path in (source / "own", package):
        (path / "__init__.py").write_text("")
    (mappings / "rebound.yaml").write_text(NEURON)
    result = invoke("generate", mappings, "--out", package)
    assert result.exit_code == 0, result.output
    assert 'neurons_of_mine = "own.neurons_of_mine"' in result.output
    metadata = source / "own-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[nirmap.neurons]\nmine = own.neurons_of_mine\n")
    return source


def run(program: str, source: Path | None, *arguments: Path) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with the package installed or not."""
    paths = [ROOT / "src", ROOT / "generated", *([] if source is None else [source])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_neuron_from_yaml_is_trained_written_and_read_in_another_process(
    source: Path, tmp_path: Path
) -> None:
    file, numbers = tmp_path / "trained.nir", tmp_path / "numbers.npz"
    trained = run(TRAIN, source, file, numbers)
    assert trained.returncode == 0, trained.stderr
    read = run(READ, source, file, numbers)
    assert read.returncode == 0, read.stderr


def test_without_its_package_a_file_names_the_type_and_how_to_supply_it(source: Path, tmp_path: Path) -> None:
    file, numbers = tmp_path / "trained.nir", tmp_path / "numbers.npz"
    trained = run(TRAIN, source, file, numbers)
    assert trained.returncode == 0, trained.stderr
    read = run(READ, None, file, numbers)
    assert read.returncode == 1
    assert "node 'neuron': its type is 'Rebound'" in read.stderr
    assert "install the package whose mappings declare it" in read.stderr


def test_generated_files_are_checked(source: Path) -> None:
    mappings, package = source.parent / "mappings", source / "own" / "neurons_of_mine"
    assert invoke("check", mappings, "--out", package).exit_code == 0
    held = (package / "nodes.py").read_text()
    (package / "nodes.py").write_text(held.replace("0.4", "0.5"))
    assert invoke("check", mappings, "--out", package).exit_code == 1
    (package / "nodes.py").write_text(held)


nirmap_mappings: Callable[[Path], Declarations] = functools.cache(pipeline.read)

# A newcomer's slips: what is written in place of what, at which key, what is found there, and what the message says
# beside it: what was expected, or what to do.
WRONG: dict[str, tuple[str, str, str, str, str]] = {
    "no unit of ours": (
        "unit: ohm",
        "unit: Mohm",
        "parameters.r.unit",
        "'Mohm'",
        "product of powers of V, A, s and ohm",
    ),
    "units that do not fit": (
        "r * input - v",
        "input - v",
        "dynamics.v",
        "'v' in V beside 'input' in A",
        "correct the",
    ),
    "a unit without quotes": ('output_unit: "1"', "output_unit: 1", "output_unit", "1", '"1" (in quotes)'),
    "unknown name": (
        "tau_slow\n",
        "tau_slwo\n",
        "dynamics.slow",
        "unknown name 'tau_slwo'",
        "did you mean 'tau_slow'?",
    ),
    "no default": ("default: 0.4, ", "", "parameters.strength", "no default", "give the one of the source"),
    "an illegal default": (
        "default: 0.01",
        "default: -0.01",
        "parameters.tau.domain",
        "-0.01",
        "correct the default",
    ),
    "a bound that is not 0": (
        "domain: tau > 0",
        "domain: tau < 1",
        "parameters.tau.domain",
        "'tau < 1'",
        "leave domain out",
    ),
    "a domain of two": (
        "domain: tau > 0",
        "domain: tau > tau_slow",
        "tau.domain",
        "unknown name",
        "one of tau",
    ),
    "no source": ("    source: this test\n", "", "primitives.Rebound", "no source", "a paper, a book"),
    "no typical input": (
        "    typical_input: [0, 3]\n",
        "",
        "primitives.Rebound",
        "no typical_input",
        "[0, 2]",
    ),
    "an empty range": (
        "typical_input: [0, 3]",
        "typical_input: [3, 0]",
        "typical_input",
        "[3, 0]",
        "the lowest and",
    ),
    "a name of nir": ("Rebound:", "LIF:", "primitives.LIF", "a second LIF", "rename it"),
    "the base of nir": ("Rebound:", "NIRNode:", "primitives.NIRNode", "NIRNode", "rename the neuron"),
    "a name of nirmap": (
        "Rebound:",
        "AdLIF:",
        "primitives.AdLIF",
        "a second AdLIF",
        "extensions/adaptive.yaml",
    ),
    "no identifier": (
        "Rebound:",
        "My Neuron:",
        "primitives['My Neuron']",
        "the key 'My Neuron'",
        "such as 'AdLIF'",
    ),
    "a class in small letters": (
        "Rebound:",
        "rebound:",
        "primitives.rebound",
        "the name 'rebound'",
        "capital letter",
    ),
    "a class named by a keyword": (
        "Rebound:",
        "None:",
        "primitives.None",
        "the name 'None'",
        "a word of Python's",
    ),
    "a keyword": (
        "tau: {kind",
        "lambda: {kind",
        "parameters.lambda",
        "the name 'lambda'",
        "a word of Python's",
    ),
    "a parameter called input": (
        "strength: {kind",
        "input: {kind",
        "parameters.input",
        "the name 'input'",
        "rename it",
    ),
    "a parameter called half": (
        "strength: {kind",
        "half: {kind",
        "parameters.half",
        "the name 'half'",
        "rename it",
    ),
    "one name for two": (
        "strength: {kind",
        "slow: {kind",
        "state.slow",
        "beside a parameter 'slow'",
        "rename one of them",
    ),
    "a state without equation": (
        "      slow: (v - slow) / tau_slow\n",
        "",
        "state.slow",
        "no equation",
        "slow: 0",
    ),
    "an equation of a state that is none": (
        "      v: v_reset",
        "      u: v_reset",
        "reset.u",
        "equation for 'u'",
        "declare u",
    ),
    "a function that tensors lack": (
        "(v - slow) / tau_slow",
        "nearest(strength) * (v - slow) / tau_slow",
        "dynamics.slow",
        "nearest()",
        "exp",
    ),
    "a power as in other languages": (
        "(v - slow)",
        "(v - slow)^2",
        "dynamics.slow",
        "the character '^'",
        "'**' for a power",
    ),
    "no comparison": ("v > v_threshold", "v", "spike", "'v'", "as in 'v > v_threshold'"),
    "at the threshold": (
        "v > v_threshold",
        "v >= v_threshold",
        "spike",
        "'v >= v_threshold'",
        "is above the right one",
    ),
    "two comparisons": (
        "v > v_threshold",
        "v > 0 and slow > 0",
        "spike",
        "'v > 0 and slow > 0'",
        "one comparison",
    ),
    "no spike": ("    spike: v > v_threshold\n", "", "output", "'spike'", "add one"),
    "a tab": ("      slow: (v", "\tslow: (v", "", "a tab", "spaces"),
    "a key twice": (
        "      v: v_reset\n",
        "      v: v_reset\n      v: 0\n",
        "reset.v",
        "the key 'v' again",
        "first is in line",
    ),
    "a key that is unknown": (
        "dynamics:",
        "dynamic:",
        "primitives.Rebound.dynamic",
        "the key 'dynamic'",
        "did you mean",
    ),
    "no key of ours": (
        "primitives:",
        "neurons:",
        "",
        "neither primitives nor framework",
        "begin a file for neurons",
    ),
}


@pytest.mark.parametrize(("old", "new", "path", "found", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_neuron_is_told_with_its_place(
    old: str, new: str, path: str, found: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where, what was found, and what was expected or what to do; by one line for one slip."""
    # nirmap's own mappings are the same for all of them.
    monkeypatch.setattr(pipeline, "read", nirmap_mappings)
    assert old in NEURON
    folder = tmp_path / "my_neurons"
    folder.mkdir()
    (folder / "rebound.yaml").write_text(NEURON.replace(old, new, 1))
    with pytest.raises(DeclarationError) as caught:
        outside.read(folder, tmp_path / "package", ROOT / "mappings")
    told = [problem for problem in caught.value.problems if path in problem.path and found in problem.found]
    assert len(told) == 1, str(caught.value)
    assert told[0].file == "my_neurons/rebound.yaml"
    assert says in str(told[0])
    # Whatever else is told is of a name that the slip took away.
    others = [problem for problem in caught.value.problems if problem is not told[0]]
    assert all("unknown name" in problem.found for problem in others), str(caught.value)


def test_the_command_shows_it_and_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "my_neurons"
    folder.mkdir()
    (folder / "rebound.yaml").write_text(NEURON.replace("    source: this test\n", ""))
    result = invoke("generate", folder, "--out", tmp_path / "package")
    assert result.exit_code == 1
    assert "error: my_neurons/rebound.yaml:4:5:" in result.output
    assert not (tmp_path / "package").exists()


def test_no_quantity_has_a_name_that_the_generated_classes_have() -> None:
    """A parameter called ``half`` would hide a method of torch, or fail when the module is built."""
    names = {*dir(Neuron({})), *dir(ExtensionNode), *ExtensionNode.__annotations__}
    assert {name for name in names if not name.startswith("_")} <= TAKEN

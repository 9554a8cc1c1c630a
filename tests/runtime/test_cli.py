"""The command line. If these fail, a user gets a traceback, a wrong exit code, or is not told what is in a file."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
import typer

import nirmap
from commands import invoke, neurons, run_alone
from nirmap.cli import app
from oracle import architectures
from oracle.building import chain

COMMANDS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files: small.nir, recurrent.nir, malformed.nir, large.nir, scale.nir, late.nir, cycle.nir, text.nir."""
    path = tmp_path_factory.mktemp("files")
    small = chain([nir.Affine(np.arange(6.0).reshape(3, 2), np.zeros(3)), neurons()], (2,), (3,))
    nir.write(path / "small.nir", small)
    nir.write(path / "recurrent.nir", architectures.braille_recurrent())
    broken = nir.NIRGraph({**small.nodes}, [*small.edges, ("1", "nowhere")], type_check=False)
    nir.write(path / "malformed.nir", broken)
    names = [f"n{index}" for index in range(200)]
    nir.write(path / "large.nir", chain([neurons() for _ in names], (3,), names=["input", *names, "output"]))
    nir.write(path / "scale.nir", chain([nir.Scale(np.ones(3))], (3,)))
    nir.write(path / "late.nir", chain([nir.Delay(np.full(3, 1e-2))], (3,)))
    loop = chain([nir.Scale(np.ones(3)), nir.Scale(np.full(3, 0.5))], (3,))
    loop.edges.append(("1", "0"))
    nir.write(path / "cycle.nir", loop)
    (path / "text.nir").write_text("this is not HDF5")
    return path


def test_version_is_the_installed_one() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"nirmap {importlib.metadata.version('nirmap')}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_the_command_accepts(name: str) -> None:
    result = invoke(name, "--help", columns=120)
    assert result.exit_code == 0
    examples = re.findall(rf"^\s*nirmap {name}\b(.*)$", result.stdout, re.MULTILINE)
    assert examples
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    for example in examples:
        assert set(re.findall(r"(?<=\s)--?[a-z-]+", example)) <= options


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, ["inspect", "small.nir"]),
        (0, ["convert", "small.nir", "--framework", "snntorch", "--dt", "0.001"]),
        (0, ["audit", "small.nir", "--framework", "torch"]),
        (1, ["audit", "scale.nir", "--framework", "torch", "--dt", "-1"]),
        (1, ["audit", "malformed.nir"]),
        (1, ["inspect", "malformed.nir"]),
        (1, ["inspect", "text.nir"]),
        (1, ["convert", "malformed.nir"]),
        (1, ["convert", "late.nir", "--framework", "norse"]),
        (1, ["convert", "small.nir", "--dt", "-1"]),
        (2, ["inspect"]),
        (2, ["inspect", "absent.nir"]),
        (2, ["inspect", "small.nir", "--unknown"]),
        (2, ["unknown"]),
        (2, ["convert", "small.nir", "--framework", "unknown"]),
        (2, ["convert", "small.nir", "other.nir"]),
        (2, ["convert", "small.nir", "--sample", "3"]),
        (2, ["convert", "no.such.package:make", "new.nir"]),
        (2, ["convert", "torch.nn:Identity"]),
        (2, ["convert", "torch.nn:Identity", "new.nir", "--method", "exponential"]),
        (2, ["convert", "small.nir", "--method", "euler"]),
        (1, ["convert", "small.nir", "--method", "exponential", "--framework", "snntorch"]),
        (2, ["convert", "torch.nn:Identity", "no/such/folder/new.nir"]),
        (2, ["convert", "torch.nn:Identity", "new.nir", "--sample", "3,x"]),
        (2, ["convert", "torch.nn:Absent", "new.nir"]),
        (2, ["convert", "torch.nn:__name__", "new.nir"]),
        (2, ["audit", "--framework", "unknown"]),
        (2, ["audit", "absent.nir"]),
        (2, ["audit", "--diff", "absent.json"]),
        (2, ["audit", "--dt", "0.001"]),
        (2, ["audit", "--reset", "subtract"]),
        (2, ["audit", "--override-dt"]),
        (2, ["audit", "small.nir", "--write"]),
        (2, ["audit", "small.nir", "--format", "html"]),
        (2, ["audit", "--write", "--framework", "torch"]),
        (2, ["list", "unknown"]),
        (2, ["generate", "no/such/folder"]),
        (2, ["generate", "."]),
    ],
)
def test_exit_codes(code: int, arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    assert bool(result.stderr.strip()) == (code != 0 or arguments[0] == "convert")


def test_an_error_says_where_what_and_what_to_do(folder: Path) -> None:
    result = invoke("inspect", folder / "malformed.nir")
    assert "error: edge '1' -> 'nowhere'" in result.stderr
    assert re.search(r"found: .*'nowhere'", result.stderr)
    assert "expected: " in result.stderr
    assert "do: " in result.stderr
    assert "1 -> nowhere" in result.stdout


def test_inspect_shows_nodes_shapes_parameters_state_and_delays(folder: Path) -> None:
    text = invoke("inspect", folder / "recurrent.nir").stdout
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith(" ") and line.strip()}
    assert re.search(r"lif1\.lif +CubaLIF +\(38,\) +i, v +tau_syn 0\.00022", rows["lif1.lif"])
    assert re.search(r"fc1 +Affine +\(12,\) +weight \(38, 12\) ", rows["fc1"])
    assert "lif1.lif -> lif1.w_rec   (one step late)" in text
    assert text.count("one step late") == 1
    assert "7 nodes, 2 of them stateful; 7 edges" in text


def test_inspect_shows_graphs_inside_graphs(tmp_path: Path) -> None:
    inner = chain([neurons()], (3,))
    nir.write(
        tmp_path / "nested.nir", chain([inner, nir.Scale(np.ones(3))], (3,), names=["in", "a", "b", "out"])
    )
    text = invoke("inspect", tmp_path / "nested.nir").stdout
    assert "nested.nir / a" in text
    assert re.search(r"a +NIRGraph +\(3,\) +inside", text)


def test_a_large_graph_does_not_flood_the_terminal(folder: Path) -> None:
    for command in ("inspect", "convert"):
        short = invoke(command, folder / "large.nir").stdout
        assert len(short.splitlines()) < 350
        hidden = re.findall(r"and ([\d,]+) more (nodes|edges)", short)
        assert ("162" if command == "inspect" else "160", "nodes") in hidden
        full = invoke(command, folder / "large.nir", "--all").stdout
        assert "hidden" not in full
        assert {f"n{index}" for index in range(200)} <= set(full.split())


@pytest.mark.parametrize("columns", [80, 40])
def test_a_table_breaks_long_text_and_loses_none(tmp_path: Path, columns: int) -> None:
    name = "a_name_" + "x" * 40 + "_that_is_long"
    nir.write(
        tmp_path / "long.nir",
        chain([nir.Flatten({"input": np.array([2, 3])}, 0, -1)], (2, 3), (6,), names=[name, "flat", "out"]),
    )
    text = invoke("inspect", tmp_path / "long.nir", columns=columns).stdout
    table = text[: text.index("->")].splitlines()
    assert name in "".join(line.split()[0] for line in table if line.strip() and "nir" not in line)
    assert "\u2026" not in text
    assert max(map(len, table[2:])) <= max(columns, 60)


def test_convert_shows_the_module_of_every_node_and_its_parameters(folder: Path) -> None:
    result = invoke("convert", folder / "small.nir", "--framework", "norse", "--dt", "0.001", "--verbose")
    assert re.search(r"1 +LIF +norse\.torch\.LIFBoxCell", result.stdout)
    assert "p_tau_mem_inv (3,) 50" in result.stdout
    assert "weight (3, 2) 0 ... 5, trainable" in result.stdout
    assert "norse, dt = 0.001 s; 9 trainable parameters" in result.stdout
    command = re.search(r"In Python: net = (nirmap\.from_nir\(.*\))", result.stderr)
    assert command
    net = eval(command[1], {"nirmap": nirmap})
    assert net.meta["nirmap"].framework == "norse"


def test_convert_builds_exact_steps_and_says_how_in_python(folder: Path) -> None:
    result = invoke("convert", folder / "small.nir", "--method", "exponential", columns=200)
    assert result.exit_code == 0, result.output
    assert "'torch', method='exponential')" in result.stderr
    refused = invoke("convert", folder / "small.nir", "--method", "exponential", "-f", "norse", columns=200)
    assert "expected: 'forward_euler', by which norse integrates" in refused.stderr
    assert "do: use --framework torch, or --method forward_euler" in refused.stderr


def test_a_warning_is_one_line(folder: Path) -> None:
    result = invoke("convert", folder / "cycle.nir")
    assert [line for line in result.stderr.splitlines() if "warning" in line] == [
        "warning: edge '1' -> '0': no node of this cycle is stateful, so the edge that leads back carries the value "
        "of the step before"
    ]


MODELS = """
import torch
from nirmap.reference import LIF

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.fc = torch.nn.Linear(2, 3)
        one = torch.tensor(1.0)
        self.lif = LIF(one * 0.02, one, one * 0, one * 0.05, one * 0, dt=1e-3)

    def forward(self, x, state=None):
        return self.lif(self.fc(x), state)

def make_net(): return Net()
def breaks(): return 1 / 0
def leaves(): raise SystemExit(7)
class Branch(torch.nn.Module):
    def forward(self, x): return x if x.sum() > 0 else -x
class Own(torch.nn.Module):
    def forward(self, x): raise KeyError("mine")
ready = Net()
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with modules of a user's in it."""
    (tmp_path / "my_models.py").write_text(MODELS)
    (tmp_path / "my_typo.py").write_text("import torch\ndef make_net(:\n")
    (tmp_path / "my_lack.py").write_text("import torch\nimport no_such_dependency\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("my_models", "my_typo", "my_lack"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", ["make_net", "Net", "ready"])
def test_a_python_network_is_written_and_computes_the_same(models: Path, name: str) -> None:
    result = invoke("convert", f"my_models:{name}", "net.nir", "--dt", "0.001")
    assert "net.nir: 4 nodes, 3 edges, dt = 0.001 s" in result.stdout
    net = nirmap.from_nir(models / "net.nir", dt=1e-3)
    own = sys.modules["my_models"].Net()
    xs = torch.rand(50, 4, 2)
    outputs, _ = nirmap.run(net, xs)
    expected, _ = nirmap.run(own, xs)
    assert outputs.sum() > 5
    torch.testing.assert_close(outputs, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("source", "place", "found"),
    [
        ("my_models:breaks", "my_models.py:17", "ZeroDivisionError: division by zero"),
        ("my_models:leaves", "my_models.py:18", "SystemExit: 7"),
        ("my_typo:make_net", "my_typo.py:2", "SyntaxError"),
        ("my_lack:make_net", "my_lack.py:2", "No module named 'no_such_dependency'"),
    ],
)
def test_an_error_in_the_users_code_is_told_as_theirs(
    models: Path, source: str, place: str, found: str
) -> None:
    result = invoke("convert", source, "net.nir")
    assert result.exit_code == 1
    assert f"error: {place} while" in result.stderr
    assert found in result.stderr
    assert "not from nirmap" in result.stderr
    assert not (models / "net.nir").exists()


@pytest.mark.parametrize(
    ("name", "found"), [("Branch", "control flow|branch"), ("Own", "my_models.py:22[^$]*KeyError: 'mine'")]
)
def test_a_network_that_cannot_be_traced_is_refused(models: Path, name: str, found: str) -> None:
    result = invoke("convert", f"my_models:{name}", "net.nir")
    assert result.exit_code == 1
    assert re.search(found, result.stderr)
    assert "not from nirmap" not in result.stderr
    assert not (models / "net.nir").exists()


def test_stdout_has_the_result_and_nothing_else(folder: Path) -> None:
    """norse warns on import, and results are read by programs: neither may get into the other's way."""
    done = run_alone("list", "norse", "--format", "json")
    assert json.loads(done.stdout)[0]["framework"] == "norse"
    assert done.stderr == ""


def test_a_refusal_ends_with_its_exit_code_and_no_traceback(folder: Path) -> None:
    done = run_alone("convert", str(folder / "late.nir"), "--framework", "norse")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: node ")
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_shows_escapes(tmp_path: Path) -> None:
    nir.write(tmp_path / "greek.nir", chain([neurons()], (3,), names=["\u03b1", "\u03b2", "\u03b3"]))
    done = run_alone("inspect", str(tmp_path / "greek.nir"), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "\\u03b1 -> \\u03b2" in done.stdout

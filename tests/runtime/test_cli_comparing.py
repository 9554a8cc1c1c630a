"""The command ``compare``: if these fail, its exit code, its table or its JSON says what was not found."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

import nirmap
from commands import Result, invoke, run_alone
from nirmap import rebuilding
from nirmap.oracle.interpreter import simulate
from oracle.building import chain, input_node, output_node

DT, STEPS = 1e-3, 40


def lif(size: int, v_reset: float = 0.0) -> nir.NIRNode:
    ones = np.ones(size)
    return nir.LIF(ones * 0.02, ones * 8, ones * 0, ones * 0.25, v_reset=ones * v_reset)


def network() -> nir.NIRGraph:
    return chain([nir.Linear(np.eye(2) + 0.5), lif(2)], (2,), names=["input", "fc", "lif", "output"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files: net.nir, resets.nir, pair.nir (two inputs), table.csv (t, current, second), x.npy, batch.npy, text.npy."""
    path = tmp_path_factory.mktemp("files")
    nir.write(path / "net.nir", network())
    nir.write(path / "resets.nir", chain([lif(2, 2.0)], (2,), names=["input", "lif", "output"]))
    nodes: dict[str, nir.NIRNode] = {
        "left": input_node(2),
        "right": input_node(2),
        "lif": lif(2),
        "output": output_node(2),
    }
    edges = [("left", "lif"), ("right", "lif"), ("lif", "output")]
    nir.write(path / "pair.nir", nir.NIRGraph(nodes, edges, type_check=False))
    columns = table()
    lines = [",".join(map(repr, row)) for row in columns.tolist()]
    (path / "table.csv").write_text("\n".join(["t,current,second", *lines]) + "\n")
    np.save(path / "x.npy", columns[:, 1:])
    np.save(path / "batch.npy", np.stack([columns[:, 1:], columns[:, 1:] / 2], axis=1))
    (path / "text.npy").write_text("no array")
    return path


def table() -> Any:
    random = np.random.default_rng(3)
    return np.column_stack([np.arange(STEPS) * DT, random.uniform(0, 1, STEPS), random.uniform(0, 1, STEPS)])


def compare(folder: Path, *arguments: str, file: str = "net.nir", columns: int = 100) -> Result:
    return invoke("compare", folder / file, "--dt", str(DT), *arguments, columns=columns)


def spikes(xs: Any) -> int:
    return sum(simulate(network(), np.asarray(xs, np.float32), DT).spike_counts().values())


def rows(result: Result) -> dict[str, list[str]]:
    """The table: what stands behind each name, in its columns."""
    lines = (re.split(r"\s{2,}", line.strip()) for line in result.stdout.splitlines())
    return {cells[0]: cells[1:] for cells in lines if len(cells) > 1}


@pytest.mark.parametrize(
    ("arguments", "xs"),
    [
        (["--input", "table.csv", "--column", "current"], table()[:, [1, 1]][:, None]),
        (["-i", "table.csv", "-c", "2"], table()[:, [1, 1]][:, None]),
        (["-i", "table.csv", "-c", "second", "-c", "current"], table()[:, [2, 1]][:, None]),
        (["-i", "table.csv", "-c", "current", "--steps", "17"], table()[:17, [1, 1]][:, None]),
        (["-i", "x.npy"], table()[:, None, 1:]),
        (["-i", "batch.npy"], np.stack([table()[:, 1:], table()[:, 1:] / 2], axis=1)),
        (["-i", "constant:0.4", "--steps", "30"], np.full((30, 1, 2), 0.4)),
        (
            ["-i", "random:3", "--steps", "30", "--seed", "5"],
            np.random.default_rng((5, 0)).uniform(0, 3, (30, 1, 2)),
        ),
        (["--steps", "30"], np.random.default_rng((0, 0)).uniform(0, 1, (30, 1, 2))),
    ],
    ids=["name", "position", "two columns", "steps", "array", "batch", "constant", "random", "default"],
)
def test_every_kind_of_input_reaches_the_networks(
    arguments: list[str], xs: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = compare(folder, *arguments, "--frameworks", "torch,norse")
    assert result.exit_code == 0, result.output
    expected = f"{spikes(xs):,}"
    assert spikes(xs) > 2
    shown = rows(result)
    assert shown["reference"] == [expected]
    for name in ("torch", "norse"):
        assert shown[name][0] == expected
        assert shown[name][-1] == "equal"
    batch = ", batch of 2" if xs.shape[1] == 2 else ""
    assert f"net.nir: {len(xs)} steps of 0.001 s{batch}" in result.stdout


def test_inputs_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    arguments = ["-i", "left=constant:0.5", "-i", "right=x.npy", "-f", "torch", "--format", "json"]
    result = compare(folder, *arguments, file="pair.nir")
    assert result.exit_code == 0, result.output
    graph = nirmap.files.read_graph(folder / "pair.nir")
    streams = {"left": np.full((STEPS, 1, 2), 0.5), "right": table()[:, None, 1:].astype(np.float32)}
    trace = simulate(graph, streams, DT)
    assert json.loads(result.stdout)["frameworks"][0]["spikes"] == sum(trace.spike_counts().values())
    refused = compare(folder, "-i", "left=x.npy", "-f", "torch", file="pair.nir")
    assert refused.exit_code == 1
    assert "add --input right=SOURCE" in refused.stderr


@pytest.mark.parametrize(
    ("code", "arguments", "said"),
    [
        (1, ["-i", "table.csv", "-c", "voltage"], "no column 'voltage'"),
        (1, ["-i", "table.csv", "-c", "4"], "expected: 't', 'current', 'second', or a position from 1 to 3"),
        (1, ["-i", "table.csv"], "3 columns, and none chosen"),
        (1, ["-i", "table.csv", "-c", "1", "--steps", "41"], "40 steps"),
        (1, ["-i", "text.npy"], "cannot be read"),
        (1, ["-i", "constant:x"], "expected: a finite number"),
        (1, ["--node", "absent"], "the graph has no 'absent'"),
        (1, ["--dt", "-1"], "time step above 0"),
        (2, ["-i", "absent.csv"], "absent.csv does not exist"),
        (2, ["-i", "."], "is a folder"),
        (2, ["-f", "unknown"], "unknown is not one of"),
        (2, ["-f", "torch,unknown"], "unknown is not one of"),
        (2, ["-o", "figure.jpg"], "ends in .png or .svg"),
        (2, ["-o", "no/such/folder/figure.png"], "there is no folder"),
        (2, ["--steps", "0"], "--steps"),
        (2, ["--tolerance", "-1"], "--tolerance"),
        (2, ["--fallback", "norse"], "--fallback"),
        (2, ["--recorded", "v=2"], "needs an --input that is a CSV file"),
        (2, ["-i", "x.npy", "--recorded", "v=2"], "needs an --input that is a CSV file"),
        (2, ["-i", "table.csv", "-c", "1", "--recorded", "v"], "expected VARIABLE=COLUMN"),
        (2, ["-i", "table.csv", "-c", "1", "--recorded", "w=2"], "output, v, i"),
    ],
)
def test_what_cannot_be_done_is_refused(
    code: int, arguments: list[str], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = compare(folder, *arguments, *([] if "-f" in arguments else ["-f", "torch"]), columns=200)
    assert result.exit_code == code, result.output
    assert said in " ".join(result.stderr.replace("\u2502", " ").split())
    assert not list(folder.glob("figure*"))


def test_a_file_that_is_not_there() -> None:
    assert invoke("compare", "absent.nir").exit_code == 2


def test_the_first_difference_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch is given a threshold that is too high, behind the command's back."""
    right = rebuilding.from_nir

    def wrong(graph: nir.NIRGraph, framework: str, **options: Any) -> nirmap.Network:
        if framework == "torch":
            graph = network()
            neurons: Any = graph.nodes["lif"]
            neurons.v_threshold = np.array([0.25, 0.5])
        return right(graph, framework, **options)

    monkeypatch.setattr("nirmap.comparing.from_nir", wrong)
    arguments = ["-i", str(folder / "x.npy"), "-f", "torch", "-f", "norse"]
    result = compare(folder, *arguments, columns=160)
    assert result.exit_code == 1
    trace = simulate(network(), table()[:, None, 1:].astype(np.float32), DT)
    v = trace.before_reset[("lif",)][:, 0, 1]
    step = int(((v > 0.25) & (v <= 0.5)).argmax())
    assert (
        f"torch differs first in step {step} ({step * DT:g} s): node lif, neuron (1): 0, and 1 in"
        in result.stdout
    )
    assert re.search(rf"there {v[step]:.5f}\d* met the threshold 0.25 in the reference", result.stdout)
    assert rows(result)["torch"][-1] == f"differs from step {step} on"
    assert rows(result)["norse"][-1] == "equal"
    report = json.loads(compare(folder, *arguments, "--format", "json").stdout)
    first = report["frameworks"][0]["first_difference"]
    assert (first["node"], first["variable"], first["step"], first["neuron"]) == (
        ["lif"],
        "output",
        step,
        [1],
    )
    assert (first["value"], first["reference"]) == (0, 1)
    assert report["frameworks"][1]["first_difference"] is None
    assert (report["equal"], report["steps"], report["dt"]) == (False, STEPS, DT)


def test_a_framework_that_cannot_is_listed_with_its_reason_and_what_helps(folder: Path) -> None:
    result = compare(folder, "-f", "snntorch,torch", "--steps", "20", file="resets.nir")
    assert result.exit_code == 1
    assert rows(result)["snntorch"] == ["cannot run"]
    assert rows(result)["torch"][-1] == "equal"
    assert "error: snntorch cannot run the graph: node 'lif'" in result.stderr
    assert re.search(r"found: .*v_reset = 2", result.stderr)
    assert re.search(r"do: .*--fallback torch", result.stderr)
    report = json.loads(compare(folder, "-f", "snntorch", "--format", "json", file="resets.nir").stdout)
    assert report["frameworks"][0]["error"]["where"] == "node 'lif'"
    helped = compare(
        folder, "-f", "snntorch,torch", "--steps", "20", "--fallback", "torch", file="resets.nir"
    )
    assert helped.exit_code == 0
    assert "snntorch: the built-in module took the place of its own for lif" in helped.stdout


def test_exact_steps_are_held_against_exact_steps_and_refused_by_the_others(folder: Path) -> None:
    constant = ("-i", "constant:0.02", "--steps", "300", "-f", "torch,snntorch", "--format", "json")
    result = compare(folder, *constant, "--method", "exponential")
    report = json.loads(result.stdout)
    trace = simulate(network(), np.full((300, 1, 2), 0.02, np.float32), DT, method="exponential")
    by_euler = simulate(network(), np.full((300, 1, 2), 0.02, np.float32), DT)
    exact = sum(trace.spike_counts().values())
    assert exact != sum(by_euler.spike_counts().values())
    assert (report["reference"]["spikes"], report["frameworks"][0]["spikes"]) == (exact, exact)
    assert report["frameworks"][0]["equal"]
    assert report["frameworks"][1]["error"]["where"] == "node 'lif'"
    assert result.exit_code == 1
    assert "do: use --framework torch, or --method forward_euler" in result.stderr


def test_all_frameworks_are_taken_if_none_is_named(folder: Path) -> None:
    report = json.loads(compare(folder, "--steps", "5", "--format", "json").stdout)
    assert [entry["framework"] for entry in report["frameworks"]] == sorted(nirmap.registry.frameworks())


def test_every_node_is_shown_on_demand(folder: Path) -> None:
    result = compare(folder, "-i", str(folder / "x.npy"), "-f", "torch", "-v")
    count = spikes(table()[:, None, 1:])
    assert re.search(rf"lif +{count} spikes +{count} spikes", result.stdout)
    assert re.search(r"fc +output \d", result.stdout)


def test_a_silent_network_is_remarked_upon(folder: Path) -> None:
    result = compare(folder, "-i", "constant:0", "-f", "torch", "--steps", "5")
    assert result.exit_code == 0
    assert "No neuron fires" in result.stderr


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_figure_is_written(suffix: str, folder: Path, tmp_path: Path) -> None:
    figure = tmp_path / f"figure.{suffix}"
    result = compare(
        folder, "-f", "torch", "-o", str(figure), "--node", "lif", "--neuron", "1", "--steps", "9"
    )
    assert result.exit_code == 0, result.output
    assert figure.stat().st_size > 5000
    assert "node lif" in result.stderr


def test_without_matplotlib_the_table_is_printed_all_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = compare(folder, "-f", "torch", "-o", str(tmp_path / "figure.png"), "--steps", "9")
    assert result.exit_code == 1
    assert rows(result)["torch"][-1] == "equal"
    assert "pip install 'nirmap[plot]'" in result.stderr


def test_the_figure_of_the_nir_paper(nir_paper: Path, tmp_path: Path) -> None:
    arguments = ["--dt", "1e-4", "-i", str(nir_paper / "lif_norse.csv"), "-c", "1"]
    recorded = ["--recorded", "v=2", "--recorded", "output=3", "-o", str(tmp_path / "lif.svg")]
    frameworks = ["-f", "torch,norse,snntorch"]
    result = invoke("compare", nir_paper / "lif_norse.nir", *arguments, *recorded, *frameworks, columns=100)
    assert result.exit_code == 0, result.output
    shown = rows(result)
    for name in ("torch", "norse", "snntorch", "recorded"):
        assert (shown[name][0], shown[name][-1]) == ("4", "equal")
        assert float(shown[name][1].split()[0]) < 1e-4
    assert b"recorded" in (tmp_path / "lif.svg").read_bytes()


def test_it_runs_in_a_process_of_its_own(folder: Path) -> None:
    arguments = ("compare", str(folder / "net.nir"), "--dt", "0.001", "-f", "torch", "--steps", "5")
    result = run_alone(*arguments, "--format", "json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["equal"] is True
    assert result.stderr == ""  # no progress in a pipe

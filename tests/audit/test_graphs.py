"""The audit of a graph. If these fail, a user learns of one node in the way at a time, or of help that does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import nir
import numpy as np
import pytest
import torch

import nirmap
from commands import invoke
from nirmap.audit.documents import GRAPH_SCHEMA, load_schema
from nirmap.audit.graphs import Answer, answer
from nirmap.files import read_graph
from nirmap.oracle.interpreter import margin, simulate
from nirmap.registry import frameworks
from oracle.building import chain

ONES = np.ones(3)
SUBTRACT = "reset='subtract', if the network was trained with it"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Two nodes that snnTorch cannot express, one of them inside of a sub-graph, and two that it can."""
    lif = nir.LIF(0.02 * ONES, ONES, 0 * ONES, 0.25 * ONES, v_reset=0.3 * ONES)
    fine = nir.LI(0.02 * ONES, ONES, 0 * ONES)
    inner = chain([lif, fine], (3,), names=["in", "neuron", "fine", "out"])
    fast = nir.LI(5e-5 * ONES, ONES, 0 * ONES)
    path = tmp_path / "graph.nir"
    nir.write(path, chain([inner, fast, fine], (3,), names=["in", "inner", "fast", "fine", "out"]))
    return path


def ask(framework: str, path: Path, dt: float | None = None, **wishes: Any) -> Answer:
    done: list[int] = []
    found = answer(framework, lambda count, total: done.append(count), path=str(path), dt=dt, **wishes)
    assert done == list(range(1, len(done) + 1))
    return found


def test_every_node_in_the_way_is_named_with_parameter_value_reason_and_help(graph: Path) -> None:
    found = ask("snntorch", graph, 1e-4)
    assert found.state == "runs with fallback"
    offenders = {offender.node: offender for offender in found.offenders}
    assert set(offenders) == {("inner", "neuron"), ("fast",)}
    neuron = offenders["inner", "neuron"]
    (problem,) = [entry for entry in neuron.problems if entry.that == "v_threshold > v_reset"]
    assert problem.parameters == {"v_threshold": "0.25", "v_reset": "0.3"}
    assert (
        problem.because == "a neuron of snnTorch whose threshold is not above its reset takes back its reset"
    )
    assert problem.module == "snntorch.Leaky"
    assert "fallback='torch'" in neuron.help
    assert not any(entry.startswith("dt=") for entry in neuron.help)
    assert "dt=5e-05" in offenders["fast",].help


def test_the_help_helps(graph: Path) -> None:
    content = read_graph(graph)
    with pytest.raises(nirmap.ConstraintError):
        nirmap.from_nir(content, "snntorch", dt=1e-4)
    nirmap.from_nir(content, "snntorch", dt=1e-4, fallback="torch")
    assert [entry.node for entry in ask("snntorch", graph, 5e-5).offenders] == [("inner", "neuron")]


def test_rockpool_says_what_its_spiking_neurons_cannot_do_and_the_fallback_that_it_names_helps(
    tmp_path: Path,
) -> None:
    neuron = nir.LIF(0.01 * ONES, ONES, 0.1 * ONES, 0.4 * ONES, v_reset=0.2 * ONES)
    layer = nir.Linear(np.array([[0.9, 0.2, 0.1], [0.3, 0.8, 0.2], [0.1, 0.2, 1.0]]))
    path = tmp_path / "spiking.nir"
    nir.write(path, chain([layer, neuron], (3,), names=["in", "layer", "neuron", "out"]))
    found = ask("rockpool", path)
    assert found.state == "runs with fallback"
    (offender,) = found.offenders
    assert (offender.node, offender.primitive) == (("neuron",), "LIF")
    reset = "the spiking neurons of Rockpool subtract their threshold, and cannot be reset to a value"
    (problem,) = [entry for entry in offender.problems if not entry.module]
    assert problem.because == reset
    assert problem.parameters == {
        "tau": "0.01",
        "r": "1",
        "v_leak": "0.1",
        "v_threshold": "0.4",
        "v_reset": "0.2",
    }
    assert offender.help == (SUBTRACT, "fallback='torch'")
    text = " ".join(invoke("audit", path, "-f", "rockpool", columns=120).stdout.split())
    assert f"rockpool: neuron (LIF) {reset}; here tau = 0.01, r = 1" in text
    assert "what would help: --reset subtract, if the network was trained with it; --fallback torch" in text
    assert_fallback_helps(path, found)


def assert_fallback_helps(path: Path, found: Answer) -> None:
    """With the fallback, the graph gives the oracle's spikes in every layer."""
    graph = read_graph(path)
    (source,) = (node for node in graph.nodes.values() if isinstance(node, nir.Input))
    shape = tuple(int(size) for size in source.input_type["input"])
    with pytest.raises(nirmap.NirmapError):
        nirmap.from_nir(graph, found.framework, dt=found.dt)
    network = nirmap.from_nir(graph, found.framework, dt=found.dt, dtype=torch.float64, fallback="torch")
    inputs = np.random.default_rng(0).uniform(0.0, 2.0, (40, 1, *shape))
    trace = simulate(graph, inputs, found.dt or 0.0)
    assert margin(trace) > 1e-9
    output, _ = nirmap.run(network, torch.tensor(inputs))
    (expected,) = trace.outputs.values()
    np.testing.assert_allclose(output.detach().numpy(), expected, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::nirmap.errors.DelayWarning")
@pytest.mark.parametrize(
    ("name", "dt"),
    [
        ("lif_norse.nir", 1e-4),
        ("two_lif_neurons.nir", 1e-4),
        ("cnn_sinabs.nir", 1.0),
        ("braille/braille_noDelay_bias_zero.nir", 1e-4),
        ("braille/braille_noDelay_noBias_subtract.nir", 1e-4),
    ],
)
def test_every_published_graph_runs_but_in_rockpool_for_the_one_reason(
    nir_paper: Path, name: str, dt: float
) -> None:
    path = nir_paper / name
    for framework in sorted(frameworks()):
        found = ask(framework, path, dt)
        if framework != "rockpool":
            assert (found.state, found.offenders) == ("runs", ()), framework
            continue
        assert found.state == "runs with fallback"
        for offender in found.offenders:
            assert offender.primitive in ("IF", "LIF", "CubaLIF")
            reasons = {
                problem.because: problem.parameters for problem in offender.problems if not problem.module
            }
            (parameters,) = reasons.values()
            assert "v_reset" in parameters
            assert "cannot be reset to a value" in next(iter(reasons))
            # A threshold at or below v_reset leaves nothing to subtract.
            assert offender.help in ((SUBTRACT, "fallback='torch'"), ("fallback='torch'",))
        assert_fallback_helps(path, found)


def test_a_framework_that_runs_it_says_how(graph: Path) -> None:
    found = ask("torch", graph)
    assert (found.state, found.offenders) == ("runs", ())
    names = ("inner/neuron", "inner/fine", "fast", "fine")
    assert found.how == dict.fromkeys(names, "native")


def test_another_time_step_than_the_graphs_is_told_of_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "stated.nir"
    network = nirmap.from_nir(chain([nir.LI(0.02 * ONES, ONES, 0 * ONES)], (3,)), dt=1e-3)
    nirmap.to_nir(network, path=path)
    (offender,) = ask("torch", path, 2e-3).offenders
    assert offender.node == ()
    said = " ".join([offender.found, *(entry.that for entry in offender.problems)])
    assert "0.001" in said
    assert "0.002" in said
    assert ask("torch", path).state == "runs"
    assert "override_dt=True" in offender.help[0]
    insisting = ask("torch", path, 2e-3, override_dt=True)
    assert (insisting.state, insisting.dt) == ("runs", 2e-3)


def test_neurons_that_subtract_run_where_a_framework_has_them(tmp_path: Path) -> None:
    """What the graph states and what the caller asks for are the same question."""
    lif = nir.LIF(0.02 * ONES, ONES, 0 * ONES, 0.25 * ONES)
    integrator = nir.IF(ONES, ONES)
    path, stated = tmp_path / "plain.nir", tmp_path / "stated.nir"
    inner = chain([integrator], (3,), names=["in", "integrator", "out"])
    graph = chain([lif, inner], (3,), names=["in", "lif", "inner", "out"])
    nir.write(path, graph)
    graph.metadata["reset"] = "subtract"
    nir.write(stated, graph)
    for found in (ask("rockpool", path, 1e-3, reset="subtract"), ask("rockpool", stated, 1e-3)):
        assert (found.state, found.offenders) == ("runs", ())
    for found in (ask("norse", path, 1e-3, reset="subtract"), ask("norse", stated, 1e-3)):
        (offender,) = found.offenders
        assert offender.node == ("inner", "integrator")
        assert [entry.because for entry in offender.problems] == [
            "norse has no IF that subtracts its threshold"
        ]
        assert offender.help == ("fallback='torch'",)
    (refused,) = ask("rockpool", stated, 1e-3, reset="value").offenders
    assert "reset = 'value', while the graph's metadata state 'subtract'" in refused.found


def test_options_of_a_graph_reach_every_framework(tmp_path: Path) -> None:
    path = tmp_path / "spiking.nir"
    graph = chain([nir.LIF(0.02 * ONES, ONES, 0 * ONES, 0.25 * ONES)], (3,))
    graph.metadata["dt"] = 1e-4
    nir.write(path, graph)
    plain = ("audit", path, "-f", "rockpool", "--json")
    assert invoke(*plain).exit_code == 1
    result = invoke(*plain, "--reset", "subtract", "--dt", "0.001", "--override-dt")
    assert result.exit_code == 0
    (found,) = json.loads(result.stdout)["frameworks"]
    assert (found["state"], found["dt"]) == ("runs", 1e-3)


def test_the_command_writes_valid_json_and_a_table(graph: Path, tmp_path: Path) -> None:
    target = tmp_path / "answer.json"
    result = invoke("audit", graph, "-f", "torch", "-f", "snntorch", "--json", "--output", target)
    assert result.exit_code == 1  # snntorch was asked for, and cannot
    document = json.loads(target.read_text())
    jsonschema.validate(document, load_schema(GRAPH_SCHEMA))
    assert [entry["state"] for entry in document["frameworks"]] == ["runs", "runs with fallback"]
    text = invoke("audit", graph, "-f", "snntorch", columns=120).stdout
    assert "snntorch: inner / neuron (LIF)" in text
    assert "not v_threshold > v_reset (snntorch.Leaky)" in text
    assert "snntorch: fast (LI)" in text
    assert "what would help: " in text


def test_names_from_a_file_reach_the_terminal_as_text(tmp_path: Path) -> None:
    name = "evil\x1b[2J[red]"
    nir.write(tmp_path / "evil.nir", chain([nir.Delay(1e-3 * ONES)], (3,), names=["in", name, "out"]))
    text = invoke("audit", tmp_path / "evil.nir", "-f", "norse").output
    assert "\x1b" not in text
    assert "evil\\x1b[2J[red]" in text

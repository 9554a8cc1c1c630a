"""Modules that are small graphs: their declarations are checked and proven as those of rows are."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from declaring import changed, declared, without
from nirmap_generator.check import build_expressions
from nirmap_generator.evaluate import evaluate
from nirmap_generator.graphs import check_graphs, gains, primitive_of
from nirmap_generator.load import Document
from nirmap_generator.model import Framework, Place, Row
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problem, Problems
from nirmap_generator.prove import prove_row

Keys = tuple[str | int, ...]
CATALOGUE = declared().catalogue
GRAPHS = [
    pytest.param(framework, row, id=f"{framework.name}-{row.graph.name}")
    for framework in declared().frameworks
    for row in framework.graphs
    if row.graph is not None
]
BUILT = [
    pytest.param(framework, row, id=f"{framework.name}-{row.graph.name}")
    for framework in declared().frameworks
    for row in framework.graphs
    if row.graph is not None and not row.not_built
]


def of(name: str, graph: str) -> tuple[Framework, Row]:
    """A framework and one of its graphs."""
    framework = next(entry for entry in declared().frameworks if entry.name == name)
    return framework, next(row for row in framework.graphs if row.graph and row.graph.name == graph)


def found_in(framework: Framework, document: Document, graph: str) -> list[Problem]:
    """What is wrong with a graph of a changed document: found by the checks, or else by the proof."""
    problems = Problems()
    place = Place(document, ("graphs", graph))
    row = Parser(problems).graph(graph, document.data["graphs"][graph], place)
    check_graphs(dataclasses.replace(framework, graphs=(row,)), CATALOGUE, problems)
    if len(problems) == 0:
        prove_row(row, primitive_of(row, CATALOGUE), problems)
    return list(problems)


@pytest.mark.parametrize(("framework", "row"), GRAPHS)
def test_every_parameter_and_every_state_variable_of_every_node_is_declared(
    framework: Framework, row: Row
) -> None:
    """What is left out would be lost when a module is written, or begin anew in each step."""
    assert row.graph is not None
    expected = {
        f"{member.name}.{name}"
        for member in row.graph.members
        for name in CATALOGUE.primitives[member.node].declared
    }
    assert row.read.keys() == expected
    if not row.not_built and row.state is not None:
        held = {variable.name for variable in row.state.variables if not variable.name.endswith(".output")}
        members = row.graph.members
        assert held == {f"{m.name}.{name}" for m in members for name in CATALOGUE.primitives[m.node].state}


FORMULAS = [
    pytest.param(framework, row, name, id=f"{framework.name}-{row.graph.name}-{name}")
    for framework in declared().frameworks
    for row in framework.graphs
    if row.graph is not None and not row.not_built and not row.not_read
    for name in row.read
]


@pytest.mark.parametrize(("framework", "row", "name"), FORMULAS)
def test_a_wrong_formula_is_found_when_code_is_generated(framework: Framework, row: Row, name: str) -> None:
    """A weight or a time constant that is off by a factor would be written into every file."""
    assert row.graph is not None
    member, _, parameter = name.partition(".")
    path: Keys = ("graphs", row.graph.name, "nodes", member, "read", parameter)
    text = row.read[name].expression.text
    wrong = f"2 * ({text}) + 1"
    problems = found_in(framework, changed(framework.document, path, wrong), row.graph.name)
    assert problems
    assert any(name in problem.found for problem in problems)


@pytest.mark.parametrize(("framework", "row"), BUILT)
def test_weights_that_are_built_with_another_gain_are_found(framework: Framework, row: Row) -> None:
    """What is fed back would act with another strength than what comes from outside."""
    assert row.graph is not None
    taken = gains(row, CATALOGUE)
    assert "recurrent.weight" in taken
    path: Keys = ("graphs", row.graph.name, "assign")
    key = next(key for key, located in row.assign.items() if located.expression.text == "recurrent.weight")
    assign = {
        **framework.document.data["graphs"][row.graph.name]["assign"],
        key: "2 * recurrent.weight",
    }
    assert found_in(framework, changed(framework.document, path, assign), row.graph.name)


def test_the_normal_form_of_a_graph_scales_what_leads_to_the_neuron() -> None:
    _, row = of("snntorch", "rleaky_linear")
    equivalence = primitive_of(row, CATALOGUE).equivalence
    assert equivalence is not None
    values: dict[str, Any] = {"recurrent.weight": 3.0, "neuron.gain": 0.5}
    assert evaluate(equivalence.parameters["recurrent.weight"].expression, values) == 1.5
    assert {name for name, _ in build_expressions(row)} >= {"recurrent.weight", "recurrent.bias"}


GRAPH: Keys = ("graphs", "rleaky_linear")
EDGES = [["input", "neuron"], ["neuron", "recurrent"], ["recurrent", "neuron"], ["neuron", "output"]]
SLIPS: dict[str, tuple[Keys, Any, str]] = {
    "an unknown primitive": (("nodes", "recurrent", "node"), "Afine", "node 'Afine'"),
    "an unknown node in an edge": (("edges", 1), ["neuron", "recurent"], "'recurent'"),
    "an edge twice": (("edges",), [*EDGES, EDGES[0]], "the same edge again"),
    "no way out": (("edges",), EDGES[:3], "no edge to output"),
    "a node that leads nowhere": (("edges",), [EDGES[0], EDGES[1], EDGES[3]], "no edge from recurrent"),
    "a parameter that the node lacks": (("build", "beta"), "tensor(1 - dt / neuron.taw)", "neuron.taw"),
    "a node as a number": (("build", "beta"), "tensor(1 - dt / neuron)", "neuron"),
    "an unknown name": (("build", "beta"), "tensor(1 - dt / tau)", "unknown name 'tau'"),
    "a variable without a place": (("state", "variables"), {"neuron.output": "spk"}, "no entry for neuron.v"),
    "an unknown free variable": (("nodes", "neuron", "normal_form"), {"gian": "neuron.r"}, "'neuron.gian'"),
    "a scale of the output": (("nodes", "neuron", "normal_form"), {"scale": "neuron.r"}, "scale"),
    "an argument that nothing reads": (("build", "inhibition"), "True", "'inhibition'"),
    "a class of elsewhere": (("module",), "torch.nn.Linear", "class 'torch.nn.Linear'"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_told(slip: str) -> None:
    path, value, found = SLIPS[slip]
    framework, _ = of("snntorch", "rleaky_linear")
    if slip == "an argument that nothing reads":
        document = without(framework.document, (*GRAPH, "holds", "inhibition"))
        conditions = document.data["graphs"]["rleaky_linear"]["reads_only_if"]
        conditions[:] = [entry for entry in conditions if "inhibition" not in entry["that"]]
        document = changed(document, (*GRAPH, *path), value)
    else:
        document = changed(framework.document, (*GRAPH, *path), value)
    problems = found_in(framework, document, "rleaky_linear")
    assert any(found in problem.found for problem in problems), [str(problem) for problem in problems]


def test_a_gain_that_a_node_before_cannot_take_over_is_told() -> None:
    """A nonlinear node before the neuron does not scale with its input."""
    framework, _ = of("snntorch", "rleaky_linear")
    document = changed(
        framework.document,
        (*GRAPH, "nodes", "recurrent"),
        {"node": "Threshold", "read": {"threshold": "module.recurrent.weight"}},
    )
    problems = found_in(framework, document, "rleaky_linear")
    assert any("to which 'recurrent' leads" in problem.found for problem in problems)

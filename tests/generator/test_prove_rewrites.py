"""If these fail, a node is rebuilt as several others that spike at other times, or is not read back as it was."""

from __future__ import annotations

import re

import pytest

from declaring import changed, declared, with_name_replaced
from nirmap_generator.load import Document
from nirmap_generator.model import Located
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problem, Problems, shown_path
from nirmap_generator.prove_rewrites import Step, prove_rewrites, stepped
from nirmap_generator.rewrites import Rewrite, check_rewrites, parse_rewrites

CATALOGUE = declared().catalogue
REWRITES = {rewrite.name: rewrite for rewrite in declared().rewrites}
DOCUMENT = next(iter(REWRITES.values())).place.document
FILE = "mappings/rewrites.yaml"

# What a counter-example shows: the step, what differs and both numbers, or what is read back; and the drawn node.
STEPPED = re.compile(
    r"^the series is not the node: in step \d+, (the output|the distance to the threshold|\w+) is -?\d\S*, and that of "
    r"the series -?\d\S*; drawn: "
)
READ_BACK = re.compile(r"^the series is not the node: (\w+) = .+ is read back as .+; drawn: ")


def proven(name: str, document: Document = DOCUMENT) -> list[Problem]:
    """What the proof of one rewrite says; its names are right."""
    problems = Problems()
    rewrites = tuple(entry for entry in parse_rewrites(document, Parser(problems)) if entry.name == name)
    check_rewrites(rewrites, CATALOGUE, problems)
    assert list(problems) == []
    assert len(rewrites) == 1
    prove_rewrites(CATALOGUE, rewrites, problems)
    return list(problems)


@pytest.mark.parametrize("name", REWRITES)
def test_every_rewrite_is_proven(name: str) -> None:
    assert proven(name) == []


FORMULAS = [
    (rewrite, located)
    for rewrite in REWRITES.values()
    for located in [
        *(located for part in rewrite.series for located in part.parameters.values()),
        *rewrite.read.values(),
    ]
]


def shown_place(located: Located) -> str:
    """``cuba_li_as_series.read.r``: what a formula is called in the names of tests."""
    return shown_path(located.place.path[1:])


# A parameter of which only the shape is taken: in a proof everything is one number.
_SHAPE = re.compile(
    r"(?<=zeros_like\()\w+|(?<=ones_like\()\w+|(?<=full_like\()\w+|(?<=bias_or_zeros\(None, )\w+"
)


def other_formulas(rewrite: Rewrite, located: Located) -> list[str]:
    """Formulas with another value: a multiple, a sum, and other parameters in the place of one."""
    text = located.expression.text
    is_zero = "zeros" in text
    others = [f"({text}) + 1"] if is_zero else [f"2 * ({text})", f"-({text})", f"({text}) + 1"]
    if located.place.path[2] == "read":
        given = {
            f"{part.name}.{name}": entry.expression.text
            for part in rewrite.series
            for name, entry in part.parameters.items()
        }
        (read,) = {path for path in given if re.search(rf"\b{re.escape(path)}\b", text)}
        return others + [text.replace(read, path) for path in given if given[path] != given[read]]
    scope = [*CATALOGUE.primitives[rewrite.node].declared, "dt"]
    for name in sorted(located.expression.names & set(scope)):
        if re.search(rf"\b{name}\b", _SHAPE.sub("", text)):
            others += [with_name_replaced(text, name, other) for other in scope if other != name]
    return others


# A neuron that forgets within one step forgets what it was reset to.
FORGOTTEN = ("rewrites", "threshold_as_neuron", "series", 0, "parameters", "v_reset")
MUTATIONS = [
    pytest.param(rewrite, located, other, id=f"{shown_place(located)}: {other}")
    for rewrite, located in FORMULAS
    for other in other_formulas(rewrite, located)
    if located.place.path != FORGOTTEN
]


@pytest.mark.parametrize(("rewrite", "located", "other"), MUTATIONS)
def test_every_changed_formula_is_refused_with_a_counter_example(
    rewrite: Rewrite, located: Located, other: str
) -> None:
    (problem,) = proven(rewrite.name, changed(DOCUMENT, located.place.path, other))
    assert (problem.file, problem.path) == (FILE, f"rewrites.{rewrite.name}")
    assert (problem.line, problem.column) == DOCUMENT.position(("rewrites", rewrite.name))
    if located.place.path[2] == "read":
        found = READ_BACK.match(problem.found)
        assert found is not None, problem.found
        assert found[1] == located.place.path[-1]
    else:
        assert STEPPED.match(problem.found) or READ_BACK.match(problem.found), problem.found
    drawn = problem.found.partition("drawn: ")[2]
    for name in [*CATALOGUE.primitives[rewrite.node].declared, "dt"]:
        assert re.search(rf"\b{name} = -?\d", drawn), name
    assert problem.expected == "the same output and state in every step"


@pytest.mark.parametrize(
    ("rewrite", "located"),
    [
        pytest.param(*entry, id=shown_place(entry[1]))
        for entry in FORMULAS
        if entry[1].place.path != FORGOTTEN
    ],
)
def test_an_error_of_a_hundred_thousandth_is_refused(rewrite: Rewrite, located: Located) -> None:
    """So little seldom moves a spike of those that are drawn, and moves many in a year of them."""
    text = located.expression.text
    other = f"({text}) + 1e-5" if "zeros" in text else f"({text}) * (1 + 1e-5)"
    (problem,) = proven(rewrite.name, changed(DOCUMENT, located.place.path, other))
    assert STEPPED.match(problem.found) or READ_BACK.match(problem.found), problem.found


def test_a_neuron_that_counts_in_another_unit_is_no_error() -> None:
    """Twice as far from twice the threshold it spikes at the same times."""
    path = ("rewrites", "threshold_as_neuron")
    parameters = {
        **DOCUMENT.data["rewrites"]["threshold_as_neuron"]["series"][0]["parameters"],
        "r": "2 * ones_like(threshold)",
        "v_threshold": "2 * threshold",
    }
    document = changed(DOCUMENT, (*path, "series", 0, "parameters"), parameters)
    assert (
        proven(
            "threshold_as_neuron", changed(document, (*path, "read"), {"threshold": "neuron.v_threshold / 2"})
        )
        == []
    )


def test_what_a_neuron_that_forgets_is_reset_to_is_of_no_account() -> None:
    assert proven("threshold_as_neuron", changed(DOCUMENT, FORGOTTEN, "threshold")) == []


@pytest.mark.parametrize(
    ("rewrite", "located"), [pytest.param(*entry, id=shown_place(entry[1])) for entry in FORMULAS]
)
def test_every_formula_is_changed(rewrite: Rewrite, located: Located) -> None:
    """Else the test above would say nothing about it."""
    others = other_formulas(rewrite, located)
    assert others != []
    assert located.expression.text not in others


@pytest.mark.parametrize(
    ("name", "variable", "other"),
    [
        (rewrite.name, variable, f"{part.name}.{inner}")
        for rewrite in REWRITES.values()
        for variable, held in rewrite.state.items()
        for part in rewrite.series
        for inner in CATALOGUE.primitives[part.node].state
        if (part.name, inner) != held
    ],
)
def test_a_state_variable_in_another_part_is_refused_with_a_counter_example(
    name: str, variable: str, other: str
) -> None:
    """A state that was saved would go on as another one."""
    (problem,) = proven(name, changed(DOCUMENT, ("rewrites", name, "state", variable), other))
    assert STEPPED.match(problem.found), problem.found


@pytest.mark.parametrize("name", [name for name, rewrite in REWRITES.items() if len(rewrite.series) > 1])
def test_the_parts_in_another_order_are_refused_with_a_counter_example(name: str) -> None:
    path = ("rewrites", name, "series")
    series = DOCUMENT.data["rewrites"][name]["series"]
    (problem,) = proven(name, changed(DOCUMENT, path, series[::-1]))
    assert STEPPED.match(problem.found), problem.found


@pytest.mark.parametrize("node", ["Conv1d", "Conv2d", "SumPool2d", "Flatten"])
def test_a_rewrite_of_a_node_that_is_not_elementwise_says_that_it_cannot_be_proven(node: str) -> None:
    """What is not stepped is not proven, and what is not proven is not taken."""
    names = CATALOGUE.primitives[node].declared
    itself = {
        "node": node,
        "description": "Itself.",
        "series": [{"name": "layer", "node": node, "parameters": {name: name for name in names}}],
        "read": {name: f"layer.{name}" for name in names},
    }
    (problem,) = proven("scale_as_linear", changed(DOCUMENT, ("rewrites", "scale_as_linear"), itself))
    assert problem.path == "rewrites.scale_as_linear.series[0]"
    assert problem.found == f"a {node}"
    assert problem.expected == "nodes that act on each neuron alone, or linear ones"
    assert problem.do == "such a rewrite cannot be proven"


def test_a_rewrite_into_a_convolution_says_that_it_cannot_be_proven() -> None:
    names = CATALOGUE.primitives["Conv1d"].declared
    parameters = {name: "scale" if name == "weight" else "1" for name in names}
    part = {"name": "product", "node": "Conv1d", "parameters": parameters}
    document = changed(DOCUMENT, ("rewrites", "scale_as_linear", "series"), [part])
    (problem,) = proven("scale_as_linear", document)
    assert (problem.found, problem.do) == ("a Conv1d", "such a rewrite cannot be proven")


def test_a_formula_without_a_value_is_a_problem_and_no_traceback() -> None:
    path = ("rewrites", "scale_as_leaky_integrator", "series", 0, "parameters", "tau")
    (problem,) = proven("scale_as_leaky_integrator", changed(DOCUMENT, path, "'dt'"))
    assert problem.found.startswith("no proof: ")
    assert problem.path == "rewrites.scale_as_leaky_integrator"


def test_requirements_that_no_node_fulfils_are_a_problem() -> None:
    """A rewrite that is never drawn would count as proven."""
    never = [{"that": "scale > 1e9", "because": "it never is"}]
    document = changed(DOCUMENT, ("rewrites", "scale_as_leaky_integrator", "requires"), never)
    (problem,) = proven("scale_as_leaky_integrator", document)
    assert problem.found == "requirements that few drawn nodes fulfil"


def test_a_requirement_restricts_what_is_proven() -> None:
    """What holds only for some nodes is proven for these."""
    path = ("rewrites", "scale_as_leaky_integrator")
    written = DOCUMENT.data["rewrites"]["scale_as_leaky_integrator"]
    one = {
        "name": "product",
        "node": "LI",
        "parameters": {"tau": "full_like(scale, dt)", "r": "1", "v_leak": "0"},
    }
    entry = {**written, "series": [one], "requires": [{"that": "scale == 1", "because": "nothing is scaled"}]}
    assert proven("scale_as_leaky_integrator", changed(DOCUMENT, path, entry)) == []
    del entry["requires"]
    assert len(proven("scale_as_leaky_integrator", changed(DOCUMENT, path, entry))) == 1


def test_the_steps_of_the_proof_are_those_of_the_equations() -> None:
    """By hand: a proof with other equations would be one about other neurons."""
    node = {"tau": 4.0, "r": 2.0, "v_leak": 0.5, "v_threshold": 1.0, "v_reset": -0.25}
    state = {"v": 0.1}
    step = stepped(CATALOGUE.primitives["LIF"], node, state, 0.3, 2.0)
    assert (step.output, step.clear) == (0.0, True)
    assert state["v"] == pytest.approx(0.1 + 2 / 4 * (0.5 - 0.1 + 2 * 0.3))
    assert step.distance is not None
    assert step.distance.value == pytest.approx(state["v"] - 1.0)
    before = state["v"] + 2 / 4 * (0.5 - state["v"] + 2 * 2.0)
    step = stepped(CATALOGUE.primitives["LIF"], node, state, 2.0, 2.0)
    assert (step.output, step.clear, state) == (1.0, True, {"v": -0.25})
    assert step.distance is not None
    assert step.distance.value == pytest.approx(before - 1.0)  # before the reset
    assert step.distance.size == pytest.approx(before)
    current = {"i": 0.0, "v": 0.0}
    cuba = {"tau_syn": 4.0, "tau_mem": 8.0, "r": 2.0, "v_leak": 0.5, "w_in": 3.0}
    output = stepped(CATALOGUE.primitives["CubaLI"], cuba, current, 1.0, 2.0).output
    assert current["i"] == pytest.approx(2 / 4 * 3.0)
    assert output == current["v"] == pytest.approx(2 / 8 * (0.5 + 2.0 * 1.5))
    assert stepped(CATALOGUE.primitives["Affine"], {"weight": 2.0, "bias": 0.5}, {}, 3.0, 1.0) == Step(6.5)
    at_threshold = stepped(CATALOGUE.primitives["Threshold"], {"threshold": 1.0}, {}, 1.0, 1.0)
    assert (at_threshold.output, at_threshold.clear) == (0.0, False)

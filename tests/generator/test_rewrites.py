"""If these fail, a slip in a rewrite is found when a network is rebuilt, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from declaring import MAPPINGS, changed, copied, declared, edited, problems_of
from nirmap_generator.load import Document, load
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problem, Problems
from nirmap_generator.rewrites import Rewrite, check_rewrites, parse_rewrites

CATALOGUE = declared().catalogue
REWRITES = {rewrite.name: rewrite for rewrite in declared().rewrites}
FILE = "rewrites.yaml"

# One slip each: what stands there, what is there now, the path of the problem, what it has to say. ``@`` marks in the
# new text where the problem is, without being part of it.
SLIPS = {
    "unknown node": (
        "node: Scale\n    description: A matrix",
        "node: @Scael\n    description: A matrix",
        "scale_as_linear.node",
        ("node 'Scael'", "a primitive of mappings/nir.yaml", "did you mean 'Scale'?"),
    ),
    "unknown node of a part": (
        "{name: product, node: Linear,",
        "{name: product, node: @Liner,",
        "scale_as_linear.series[0].node",
        ("node 'Liner'", "a primitive of mappings/nir.yaml", "did you mean 'Linear'?"),
    ),
    "parameter that the part lacks": (
        "r: ones_like(threshold)",
        "rr: @ones_like(threshold)",
        "threshold_as_neuron.series[0].parameters.rr",
        ("'rr'", "one of tau, r, v_leak, v_threshold, v_reset", ""),
    ),
    "name that the node lacks": (
        "v_threshold: threshold\n",
        "v_threshold: @treshold\n",
        "threshold_as_neuron.series[0].parameters.v_threshold",
        ("unknown name 'treshold'", "one of dt, threshold", "did you mean 'threshold'?"),
    ),
    "requirement about another name": (
        "that: ndim(scale) == 1",
        "that: @ndim(weight) == 1",
        "scale_as_linear.requires[0].that",
        ("unknown name 'weight'", "one of dt, scale", ""),
    ),
    "unknown state variable": (
        "state: {i: synapse.v, v: membrane.v}",
        "state: {j: @synapse.v, v: membrane.v, i: synapse.v}",
        "cuba_li_as_series.state.j",
        ("'j'", "one of i, v", ""),
    ),
    "missing state variable": (
        "state: {i: synapse.v, v: neuron.v}",
        "state: @{i: synapse.v}",
        "cuba_lif_as_series.state",
        ("no entry for v", "an entry for each of i, v", ""),
    ),
    "state of an unknown part": (
        "state: {i: synapse.v, v: neuron.v}",
        "state: {i: synapse.v, v: @neurone.v}",
        "cuba_lif_as_series.state.v",
        ("neurone.v", "neuron.v, synapse.v", ""),
    ),
    "state that the part does not keep": (
        "state: {i: synapse.v, v: membrane.v}",
        "state: {i: @synapse.i, v: membrane.v}",
        "cuba_li_as_series.state.i",
        ("synapse.i", "membrane.v, synapse.v", ""),
    ),
    "read of an unknown part": (
        "read: {scale: product.r}",
        "read: {scale: @prodct.r}",
        "scale_as_leaky_integrator.read.scale",
        ("unknown name 'prodct'", "one of dt, product", "did you mean 'product'?"),
    ),
    "read of a parameter that the part lacks": (
        "read: {scale: product.r}",
        "read: {scale: @product.rr}",
        "scale_as_leaky_integrator.read.scale",
        ("product.rr", "product.tau, product.r, product.v_leak", ""),
    ),
    "read of a part as a whole": (
        "read: {weight: layer.weight}",
        "read: {weight: @layer.weight.T}",
        "linear_as_affine.read.weight",
        ("layer.weight.T", "layer.weight, layer.bias", ""),
    ),
    "read of a node's own parameter": (
        "read: {threshold: neuron.v_threshold}",
        "read: {threshold: @threshold}",
        "threshold_as_neuron.read.threshold",
        ("unknown name 'threshold'", "one of dt, neuron", ""),
    ),
    "unknown entry of read": (
        "read: {threshold: neuron.v_threshold}",
        "read: {threshold: neuron.v_threshold, treshold: @neuron.v_threshold}",
        "threshold_as_neuron.read.treshold",
        ("'treshold'", "one of threshold", "did you mean 'threshold'?"),
    ),
    "two parts of one name": (
        "{name: membrane, node: LI, parameters: {tau: tau_mem, r: r, v_leak: v_leak}}",
        "{name: synapse, node: LI, parameters: {tau: tau_mem, r: r, v_leak: v_leak}}",
        "cuba_li_as_series.series",
        ("two parts of one name", "a name of its own for each part", ""),
    ),
    "formula that is none": (
        "weight: diagonal(scale)",
        "weight: @diagonal(scale",
        "scale_as_linear.series[0].parameters.weight",
        ("'(' that is never closed", "its closing bracket", "in 'diagonal(scale'"),
    ),
    "function outside the language": (
        "read: {scale: product.r}",
        "read: {scale: '@open(product.r)'}",
        "scale_as_leaky_integrator.read.scale",
        ("open", "", ""),
    ),
}


def slipped(folder: Path, old: str, new: str) -> tuple[int, int] | None:
    """Makes one slip; returns the line and column of its mark, where it has one."""
    line, column = edited(folder / FILE, old, new.replace("@", ""))
    before, mark, _ = new.partition("@")
    if not mark:
        return None
    last = before.rpartition("\n")[2]
    start = len(last) + 1 if "\n" in before else column + len(last)
    return line + before.count("\n"), start


def about(problems: tuple[Problem, ...], path: str) -> list[Problem]:
    return [problem for problem in problems if problem.path == f"rewrites.{path}"]


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_a_problem_where_it_stands_and_nowhere_else(tmp_path: Path, slip: str) -> None:
    old, new, path, (found, expected, do) = SLIPS[slip]
    folder = copied(tmp_path)
    position = slipped(folder, old, new)
    problems = problems_of(folder)
    # What is told because of it may not hide it.
    assert {problem.file for problem in problems} == {f"mappings/{FILE}"}
    assert all(problem.path.startswith(f"rewrites.{path.partition('.')[0]}") for problem in problems)
    (problem,) = about(problems, path)
    # A formula in quotation marks begins at them.
    if position is not None:
        assert (problem.line, problem.column) == (position[0], position[1] - ("'@" in new))
    assert found in problem.found
    assert expected in problem.expected
    assert do in problem.do


def test_all_slips_are_told_at_once(tmp_path: Path) -> None:
    """Whoever writes a table corrects it once, and not once for each slip."""
    folder = copied(tmp_path)
    together = [
        "unknown node",
        "parameter that the part lacks",
        "name that the node lacks",
        "state that the part does not keep",
        "state of an unknown part",
        "read of a parameter that the part lacks",
        "read of a part as a whole",
    ]
    for slip in together:
        slipped(folder, *SLIPS[slip][:2])
    edited(folder / "frameworks/snntorch.yaml", "  Delay: snnTorch", "  Dealy: snnTorch")
    problems = problems_of(folder)
    for slip in together:
        assert len(about(problems, SLIPS[slip][2])) == 1, slip
    assert any(problem.file == "mappings/frameworks/snntorch.yaml" for problem in problems)


@pytest.mark.parametrize(
    ("rewrite", "part", "parameter"),
    [
        pytest.param(rewrite, index, name, id=f"{rewrite.name}-{part.name}.{name}")
        for rewrite in REWRITES.values()
        for index, part in enumerate(rewrite.series)
        for name in part.parameters
    ],
)
def test_every_parameter_of_every_part_has_to_be_given(rewrite: Rewrite, part: int, parameter: str) -> None:
    """A default would be a number that nobody chose."""
    path = ("rewrites", rewrite.name, "series", part, "parameters")
    document = rewrite.place.document
    given = dict(rewrite.series[part].parameters)
    left = {name: entry.expression.text for name, entry in given.items() if name != parameter}
    (problem,) = checked(changed(document, path, left))
    assert problem.found == f"no entry for {parameter}"
    assert problem.expected == "an entry for each of " + ", ".join(given)
    assert (problem.line, problem.column) == document.position(path)


@pytest.mark.parametrize(
    ("rewrite", "parameter"),
    [
        pytest.param(rewrite, name, id=f"{rewrite.name}.{name}")
        for rewrite in REWRITES.values()
        for name in rewrite.read
    ],
)
def test_every_parameter_of_the_node_has_to_be_read(rewrite: Rewrite, parameter: str) -> None:
    """Else it would be lost on the way back."""
    path = ("rewrites", rewrite.name, "read")
    left = {name: entry.expression.text for name, entry in rewrite.read.items() if name != parameter}
    (problem,) = checked(changed(rewrite.place.document, path, left))
    assert problem.found == f"no entry for {parameter}"
    assert (problem.line, problem.column) == rewrite.place.document.position(path)


def checked(document: Document) -> list[Problem]:
    problems = Problems()
    check_rewrites(parse_rewrites(document, Parser(problems)), CATALOGUE, problems)
    return list(problems)


def test_what_the_file_says_is_what_is_parsed() -> None:
    document = load(MAPPINGS / FILE)
    problems = Problems()
    parsed = parse_rewrites(document, Parser(problems))
    assert list(problems) == []
    assert checked(document) == []
    data: dict[str, Any] = document.data["rewrites"]
    assert [rewrite.name for rewrite in parsed] == list(data)  # The order is that of preference.
    for rewrite in parsed:
        entry = data[rewrite.name]
        assert (rewrite.node, rewrite.description) == (entry["node"], entry["description"])
        assert [part.name for part in rewrite.series] == [part["name"] for part in entry["series"]]
        assert [part.node for part in rewrite.series] == [part["node"] for part in entry["series"]]
        for part, written in zip(rewrite.series, entry["series"], strict=True):
            assert {n: e.expression.text for n, e in part.parameters.items()} == written["parameters"]
        assert {name: ".".join(held) for name, held in rewrite.state.items()} == entry.get("state", {})
        assert {name: located.expression.text for name, located in rewrite.read.items()} == entry["read"]
        stated = [(constraint.that.expression.text, constraint.because) for constraint in rewrite.requires]
        assert stated == [(one["that"], one["because"]) for one in entry.get("requires", [])]


def test_a_rewrite_with_a_formula_that_cannot_be_parsed_leaves_the_others_as_they_are() -> None:
    document = changed(
        load(MAPPINGS / FILE),
        ("rewrites", "threshold_as_neuron", "read", "threshold"),
        "neuron.v_threshold if",
    )
    problems = Problems()
    parsed = parse_rewrites(document, Parser(problems))
    assert {rewrite.name for rewrite in parsed} == REWRITES.keys() - {"threshold_as_neuron"}
    assert [problem.path for problem in problems] == ["rewrites.threshold_as_neuron.read.threshold"]

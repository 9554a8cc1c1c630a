"""If these fail, a slip in a declaration shows up as a wrong network, or as an error that does not say where it is."""

from __future__ import annotations

import re
from pathlib import Path

import nir
import pytest

from declaring import MAPPINGS, changed, copied_in_part, declared, edited, problems_of
from nirmap_generator.check_catalogue import check_against_nir, check_catalogue
from nirmap_generator.load import load
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problem, Problems

CATALOGUE = declared().catalogue
# Those of nir, and not of the extensions, of which nir knows nothing.
OF_NIR = {name: entry for name, entry in CATALOGUE.primitives.items() if not entry.is_extension}
PARAMETERS = [(primitive.name, name) for primitive in OF_NIR.values() for name in primitive.parameters]
NODES = sorted(
    name
    for name, value in vars(nir).items()
    if isinstance(value, type) and issubclass(value, nir.NIRNode) and value is not nir.NIRNode
)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def block(lines: list[str], start: int) -> range:
    """The lines of an entry that starts in a line: up to the next one that is not indented more."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    end = start + 1
    while end < len(lines) and (
        not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent
    ):
        end += 1
    return range(start, end)


def line_of(lines: list[str], *keys: str) -> int:
    """The index of the line of an entry, by the keys that lead to it, each indented more than the one before."""
    found = range(len(lines))
    for depth, key in enumerate(keys):
        start = next(index for index in found if re.match(rf" {{{2 * depth}}}{key}:", lines[index]))
        found = block(lines, start)
    return found.start


def about(problems: tuple[Problem, ...], file: str, *words: str) -> list[Problem]:
    """The problems of a file that name all the words as words of their own."""
    return [
        problem
        for problem in problems
        if problem.file == file and all(re.search(rf"\b{re.escape(word)}\b", str(problem)) for word in words)
    ]


@pytest.mark.parametrize(("node", "parameter"), PARAMETERS)
def test_a_parameter_that_is_missing_in_the_catalogue_is_named(
    tmp_path: Path, node: str, parameter: str
) -> None:
    folder = copied_in_part(tmp_path, "snntorch")
    lines = lines_of(folder / "nir.yaml")
    entry = block(lines, line_of(lines, "primitives", node, "parameters", parameter))
    alone = len(CATALOGUE.primitives[node].parameters) == 1
    replaced = ["    parameters: {}\n"] if alone else []
    start = entry.start - 1 if alone else entry.start
    (folder / "nir.yaml").write_text(
        "".join(lines[:start] + replaced + lines[entry.stop :]), encoding="utf-8"
    )
    found = problems_of(folder, proven=True)
    if alone:  # No primitive is without parameters: the schema says so.
        ((line, path),) = [(problem.line, problem.path) for problem in found]
        assert (line, path) == (start + 1, f"primitives.{node}.parameters")
        return
    (problem,) = [entry for entry in found if f"nir.{node} has it" in entry.expected]
    first = (
        line_of(lines, "primitives", node, "parameters") + 1
    )  # Where the mapping that lacks it stands, from 1.
    assert problem.file == "mappings/nir.yaml"
    assert problem.line in (first, first + 1)
    assert problem.column in (7, 17)
    assert f"no parameter {parameter!r}" == problem.found


@pytest.mark.parametrize("node", NODES)
def test_a_primitive_that_is_missing_in_the_catalogue_is_named(tmp_path: Path, node: str) -> None:
    folder = copied_in_part(tmp_path, "snntorch")
    lines = lines_of(folder / "nir.yaml")
    section = "primitives" if node in CATALOGUE.primitives else "structure"
    entry = block(lines, line_of(lines, section, node))
    (folder / "nir.yaml").write_text("".join(lines[: entry.start] + lines[entry.stop :]), encoding="utf-8")
    found = about(problems_of(folder, proven=True), "mappings/nir.yaml", node, "no entry for")
    assert len(found) == 1
    assert re.match(r"mappings/nir\.yaml:\d+:\d+: primitives: ", str(found[0]))
    assert found[0].line == line_of(lines, "primitives") + 2


@pytest.mark.parametrize(("node", "parameter"), PARAMETERS)
def test_a_parameter_that_nir_calls_otherwise_is_named_where_it_stands(node: str, parameter: str) -> None:
    document = CATALOGUE.document
    parameters = CATALOGUE.document.data["primitives"][node]["parameters"]
    renamed = {(f"{key}_new" if key == parameter else key): entry for key, entry in parameters.items()}
    problems = Problems()
    catalogue = Parser().catalogue(changed(document, ("primitives", node, "parameters"), renamed))
    check_against_nir(catalogue, problems)
    assert sorted(problem.found for problem in problems) == sorted(
        [f"no parameter {parameter!r}", f"parameter {parameter + '_new'!r}"]
    )
    (surplus,) = [problem for problem in problems if "_new" in problem.found]
    assert f"nir.{node}: " in surplus.expected
    assert parameter in surplus.expected


def test_a_renamed_parameter_has_the_position_of_its_entry(tmp_path: Path) -> None:
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    line, column = edited(
        folder / "nir.yaml", 'threshold: {kind: neuron, unit: "1"', 'treshold: {kind: neuron, unit: "1"'
    )
    found = about(problems_of(folder), "mappings/nir.yaml", "treshold", "nir.Threshold")
    (problem,) = [entry for entry in found if entry.path == "primitives.Threshold.parameters.treshold"]
    assert (problem.line, problem.column) == (line, column + len("treshold: "))


@pytest.mark.parametrize(
    "node", [name for name, primitive in OF_NIR.items() if len(primitive.parameters) > 1]
)
def test_another_order_of_the_parameters_is_told(node: str) -> None:
    """The order is that of nir's constructor: positional arguments would be exchanged."""
    parameters = CATALOGUE.document.data["primitives"][node]["parameters"]
    names = list(parameters)
    exchanged = {key: parameters[key] for key in [names[1], names[0], *names[2:]]}
    problems = Problems()
    check_against_nir(
        Parser().catalogue(changed(CATALOGUE.document, ("primitives", node, "parameters"), exchanged)),
        problems,
    )
    (problem,) = problems
    assert problem.found == "order " + ", ".join(exchanged)
    assert problem.expected == "the order of nir: " + ", ".join(names)
    assert (problem.line, problem.column) == CATALOGUE.document.position(("primitives", node, "parameters"))


def test_a_primitive_that_nir_does_not_have_is_told(tmp_path: Path) -> None:
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    edited(folder / "nir.yaml", "structure:\n", "structure:\n  Inpud: Where nothing enters.\n")
    found = about(problems_of(folder, proven=True), "mappings/nir.yaml", "Inpud")
    assert [problem.path for problem in found] == ["structure.Inpud"]


def test_the_catalogue_is_the_one_of_nir() -> None:
    problems = Problems()
    check_against_nir(CATALOGUE, problems)
    assert list(problems) == []
    assert sorted([*OF_NIR, *CATALOGUE.structure]) == NODES


# For each place of an expression: the file, the text there, the text with a misspelt name, the name, what was meant,
# and some of the names that are known there.
SNNTORCH, NORSE, NIR = "frameworks/snntorch.yaml", "frameworks/norse.yaml", "nir.yaml"
NAMES = {
    "build": (
        SNNTORCH,
        "beta: tensor(1 - dt / tau)\n        threshold",
        "beta: tensor(1 - dt / tao)\n        threshold",
        "tao",
        "tau",
        "dt, method, r, surrogate, tau",
    ),
    "record": (
        NORSE,
        "arguments: {v_th: tensor(v_threshold),",
        "arguments: {v_th: tensor(v_treshold),",
        "v_treshold",
        "v_threshold",
        "v_reset",
    ),
    "assign": (
        "shared/torch_nn.yaml",
        "assign: {weight: weight}",
        "assign: {weight: wait}",
        "wait",
        "weight",
        "dt",
    ),
    "read": (
        SNNTORCH,
        "r: ones_like(module.threshold) / dt",
        "r: ones_like(modul.threshold) / dt",
        "modul",
        "module",
        "dt",
    ),
    "requires": (
        SNNTORCH,
        "that: v_threshold > v_reset",
        "that: v_threshold > v_rest",
        "v_rest",
        "v_reset",
        "r",
    ),
    "reads_only_if": (
        NORSE,
        "that: name_of(module.p.reset_method)",
        "that: name_of(modul.p.reset_method)",
        "modul",
        "module",
        "dt",
    ),
    "bypassed": (
        "shared/torch_nn.yaml",
        "not module.training",
        "not modules.training",
        "modules",
        "module",
        "dt",
    ),
    "normal_form": (
        SNNTORCH,
        "{gain: r * dt, shift: v_reset}",
        "{gain: r * ddt, shift: v_reset}",
        "ddt",
        "dt",
        "v_threshold",
    ),
    "state.times": (
        NORSE,
        "i: {as: i, times: 1 - dt / tau_syn}\n      requires",
        "i: {as: i, times: 1 - dt / tau_sin}\n      requires",
        "tau_sin",
        "tau_syn",
        "tau_mem",
    ),
    "dynamics": (
        NIR,
        "v: (v_leak - v + r * input) / tau\n    output",
        "v: (v_leak - v + r * inputs) / tau\n    output",
        "inputs",
        "input",
        "v_leak",
    ),
    "spike": (NIR, "spike: input > threshold", "spike: input > treshold", "treshold", "threshold", "input"),
    "output": (NIR, "output: scale * input", "output: scales * input", "scales", "scale", "input"),
    "domain": (NIR, "domain: delay >= 0", "domain: delays >= 0", "delays", "delay", "delay"),
}


@pytest.mark.parametrize(("file", "old", "new", "name", "meant", "known"), NAMES.values(), ids=NAMES)
def test_an_unknown_name_is_told_with_its_place_the_known_names_and_the_closest(
    tmp_path: Path, file: str, old: str, new: str, name: str, meant: str, known: str
) -> None:
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    line, column = edited(folder / file, old, new)
    (problem,) = problems_of(folder)
    assert (problem.file, problem.line) == (f"mappings/{file}", line)
    assert problem.column >= column
    assert problem.found == f"unknown name {name!r}"
    assert problem.expected.startswith("one of ")
    assert set(known.split(", ")) | {meant} <= set(re.findall(r"\w+", problem.expected))
    assert problem.do == f"did you mean {meant!r}?"


PATHS = {
    "inverse": ("inverse", "gain"),
    "input": ("input",),
    "state shift": ("state", "v", "shift"),
    "state scale": ("state", "v", "scale"),
    "output": ("output", "scale"),
    "parameters": ("parameters", "r"),
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_an_unknown_name_in_an_equivalence_is_told(path: tuple[str, ...]) -> None:
    document = changed(CATALOGUE.document, ("primitives", "LI", "equivalence", *path), "gains")
    problems = Problems()
    check_catalogue(Parser().catalogue(document), problems)
    (problem,) = problems
    assert problem.found == "unknown name 'gains'"
    assert "gain, offset, scale, shift" in problem.expected or path == ("parameters", "r")
    assert problem.do == "did you mean 'gain'?"
    assert (problem.line, problem.column) == document.position(("primitives", "LI", "equivalence", *path))


@pytest.mark.parametrize("path", [("input",), ("offset",), ("state", "v", "shift"), ("output", "scale")])
def test_a_formula_in_the_place_of_a_free_variable_is_told(path: tuple[str, ...]) -> None:
    """A network holds free variables; what it computes from others would not follow when they are trained."""
    document = changed(CATALOGUE.document, ("primitives", "LI", "equivalence", *path), "2 * gain")
    problems = Problems()
    check_catalogue(Parser().catalogue(document), problems)
    (problem,) = problems
    assert (problem.found, problem.expected) == ("'2 * gain'", "one free variable by itself")
    assert (problem.line, problem.column) == document.position(("primitives", "LI", "equivalence", *path))


def test_an_unknown_name_in_a_reset_is_told() -> None:
    problems = Problems()
    check_catalogue(
        Parser().catalogue(changed(CATALOGUE.document, ("primitives", "IF", "reset", "v"), "v_resett")),
        problems,
    )
    (problem,) = problems
    assert (problem.found, problem.do) == ("unknown name 'v_resett'", "did you mean 'v_reset'?")


def test_what_a_module_holds_depends_on_no_name(tmp_path: Path) -> None:
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    line, _ = edited(
        folder / NORSE, "holds: {p.reset_method: \"'reset_value'\"}", "holds: {p.reset_method: reset_value}"
    )
    (problem,) = problems_of(folder)
    assert (problem.line, problem.found) == (line, "unknown name 'reset_value'")
    assert problem.expected.startswith("no names")


def test_all_problems_of_all_files_come_at_once(tmp_path: Path) -> None:
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    places = {
        (f"mappings/{file}", edited(folder / file, old, new)[0]) for file, old, new, *_ in NAMES.values()
    }
    problems = problems_of(folder)
    assert {(problem.file, problem.line) for problem in problems} == places
    assert len(problems) == len(NAMES)
    assert list(problems) == sorted(problems)
    assert len({problem.file for problem in problems}) == 4


def test_a_name_is_suggested_only_where_one_is_close(tmp_path: Path) -> None:
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    edited(folder / NIR, "spike: input > threshold", "spike: input > quux")
    (problem,) = problems_of(folder)
    assert problem.do == ""


def test_the_loaded_files_are_those_of_the_project() -> None:
    assert problems_of(MAPPINGS) == ()
    assert load(MAPPINGS / NIR).data["nir"].startswith(">=")

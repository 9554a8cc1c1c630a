"""If these fail, a wrong formula reaches the generated modules: a neuron gets another time constant.

Every expression of every row is changed in several ways; what changes the node or the module has to be refused.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from declaring import built_rows as rows
from declaring import (
    changed,
    copied,
    declared,
    edited,
    name_of_place,
    problems_of,
    proven_expressions,
    reached,
    with_name_replaced,
    without,
)
from nirmap_generator.check import build_expressions, check_framework
from nirmap_generator.draw import Draw
from nirmap_generator.expressions import parse
from nirmap_generator.load import Document
from nirmap_generator.model import Framework, Located, Place, Primitive, Row
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problem, Problems
from nirmap_generator.prove import prove_row, same

CATALOGUE = declared().catalogue
# What these functions are given is asked for its shape only, and a proof knows no shapes.
SHAPE_ONLY = re.compile(r"(?:zeros_like|ones_like|size)\([^()]*\)|(?<=bias_or_zeros\(module\.bias, )[^()]*")


def proven(framework: Framework, row: Row, document: Document) -> list[Problem]:
    """What is wrong with a row of a changed document: found by the checks, or else by the proof."""
    problems = Problems()
    entry = document.data["nodes"][row.node][row.place.path[2]]
    other = Parser(problems).row(row.node, entry, Place(document, row.place.path))
    assert list(problems) == [], "the change is not in the language"
    alone = dataclasses.replace(framework, rows=(other,), not_mapped={}, bypassed=())
    check_framework(alone, CATALOGUE, problems)
    if len(problems) == 0:
        prove_row(other, CATALOGUE.primitives[row.node], problems)
    return list(problems)


def mutations(located: Located, row: Row, primitive: Primitive) -> list[str]:
    """Other expressions in the place of one: other numbers, other texts, other names of the same sort."""
    expression = parse(reached(located, row))
    text, body = expression.text, expression.tree.body
    if "size" in expression.functions:
        return []
    if isinstance(body, ast.Constant):
        return [str(not body.value)] if isinstance(body.value, bool) else ["'another'"]
    kinds = {name: parameter.kind for name, parameter in primitive.parameters.items()}
    spoken = {kinds.get(str(name)) for name in (*expression.names, located.place.path[-1])}
    tuples = spoken & {"integers", "padding"}
    found = ["(7, 7)", "(7,)"] if tuples else [f"2 * ({text})", f"-({text})", f"({text}) + 1"]
    for name in sorted(expression.names):
        others = [other for other in primitive.declared if other != name and kinds[other] == kinds.get(name)]
        if name == "dt":
            others.append("(2 * dt)")
        found += [with_name_replaced(text, name, other) for other in others]
    # A name that begins with an underscore is none of the language.
    paths = [path for path, _ in build_expressions(row) if not path.startswith("_")]
    for name in sorted(".".join(path[1:]) for path in expression.attributes):
        found += [
            with_name_replaced(text, f"module.{name}", f"module.{other}") for other in paths if other != name
        ]
    shape = SHAPE_ONLY.sub("", text)
    return [other for other in dict.fromkeys(found) if SHAPE_ONLY.sub("", other) != shape]


ZERO = "a multiple of zero is zero"
ASSIGNED = "the bias is assigned after construction"
IGNORED = "declared under ignores"
SURROGATE = "surrogate_function.arguments"
CLASS = "the class of an object is a text here, and so is its attribute"
NEVER_REACHED = "the neuron never spikes: its threshold is out of reach, and its potential is what is read"
RUN = "the row is not read back; test_generated.py and the audit run what it builds"
LAYERS = ("LI", "LIF", "CubaLI", "CubaLIF")
# The mutations that mean the same, and why they do.
NEUTRAL: dict[str, tuple[Callable[[str], bool], str]] = {
    "snntorch.IF[0].read.v_reset": (lambda text: "+" not in text, ZERO),
    "snntorch.LI[0].read.v_leak": (lambda text: "+" not in text, ZERO),
    "snntorch.LIF[0].read.v_leak": (lambda text: "+" not in text, ZERO),
    "snntorch.LIF[0].read.v_reset": (lambda text: "+" not in text, ZERO),
    "snntorch.CubaLI[0].read.v_leak": (lambda text: "+" not in text, ZERO),
    "snntorch.CubaLIF[0].read.v_leak": (lambda text: "+" not in text, ZERO),
    "snntorch.CubaLIF[0].read.v_reset": (lambda text: "+" not in text, ZERO),
    "snntorch.LIF[0].normal_form.shift": (
        lambda text: text == "v_reset",
        "the row requires v_reset == v_leak",
    ),
    "snntorch.CubaLIF[0].normal_form.shift": (
        lambda text: text == "v_reset",
        "the row requires v_reset == v_leak",
    ),
    "norse.IF[0].build.dt": (lambda text: True, "IAFCell does not use dt, which is declared under ignores"),
    "norse.I[0].build.dt": (lambda text: True, "IAFCell does not use dt, which is declared under ignores"),
    "norse.I[0].build.p.arguments.v_th": (lambda text: "-(" not in text, NEVER_REACHED),
    "norse.I[0].build.p.arguments.v_reset": (lambda text: True, NEVER_REACHED),
    "snntorch.Threshold[0].build.beta": (lambda text: "+" not in text, ZERO),
    "torch_nn.Affine[0].build.bias": (lambda text: True, ASSIGNED),
    "torch_nn.Conv1d[0].build.bias": (lambda text: True, ASSIGNED),
    "torch_nn.Conv2d[0].build.bias": (lambda text: True, ASSIGNED),
    "rockpool.I[0].assign.tau": (lambda text: True, "whatever is as long does not decay either"),
    "rockpool.LI[0].assign.threshold": (lambda text: "+" not in text, ZERO),
    "rockpool.LI[1].read.v_leak": (lambda text: "+" not in text, ZERO),
    "rockpool.Affine[0].build.has_bias": (lambda text: True, ASSIGNED),
    "rockpool.Linear[0].build.has_bias": (
        lambda text: True,
        "holds says that the built layer has no bias; test_generated.py holds that against the real class",
    ),
    "torch_nn.Linear[0].build.bias": (
        lambda text: True,
        "holds says that the built layer has no bias; test_generated.py holds that against the real class",
    ),
    **{
        f"sinabs.{node}[{number}].build.{name}": (
            lambda text: True,
            "the decay is assigned after construction",
        )
        for node in LAYERS
        for number in ((0, 1, 2, 3) if node.endswith("LIF") else (0, 1))
        for name in (("tau_mem", "tau_syn") if node.startswith("Cuba") else ("tau_mem",))
    },
    **{f"sinabs.{node}[1].build.num_timesteps": (lambda text: True, IGNORED) for node in ("IF", *LAYERS)},
    **{
        f"sinabs.{node}[3].build.num_timesteps": (lambda text: True, IGNORED)
        for node in ("IF", "LIF", "CubaLIF")
    },
    **{
        f"sinabs.{row}.build.spike_threshold": (lambda text: True, IGNORED)
        for row in ("I[0]", "CubaLI[0]", "CubaLI[1]")
    },
    **{
        f"sinabs.{node}[0].normal_form.shift": (
            lambda text: text == "v_reset",
            "the row requires v_reset == v_leak",
        )
        for node in ("LIF", "CubaLIF", "ALIF")
    },
    "sinabs.ALIF[1].normal_form.shift": (
        lambda text: text == "v_reset",
        "the row requires v_reset == v_leak",
    ),
    **{
        f"sinabs.{node}[1].read.v_reset": (lambda text: "name_of(module.reset_fn.variable)" in text, CLASS)
        for node in ("LIF", "CubaLIF")
    },
    **{
        f"spikingjelly.{node}[0].build.{name}": (lambda text: True, NEVER_REACHED)
        for node in ("I", "LI", "CubaLI")
        for name in ("detach_reset", f"{SURROGATE}.spiking")
        if (node, name) != ("CubaLI", "detach_reset")
    },
    **{
        f"sinabs.ALIF[{number}].build.{name}": (lambda text: True, "the decay is assigned after construction")
        for number in (0, 1)
        for name in ("tau_mem", "tau_adapt")
    },
    "spikingjelly.I[0].build.v_reset": (lambda text: True, NEVER_REACHED),
    "spikingjelly.LIF[0].build.v_reset": (
        lambda text: text == "tensor(v_leak)",
        "the row requires v_reset == v_leak",
    ),
    "spikingjelly.Threshold[0].build.v_reset": (lambda text: True, "each step begins at zero"),
    "spikingjelly.Threshold[0].build.surrogate_function.arguments.spiking": (lambda text: True, RUN),
    **{
        f"spikingjelly.{row}.build.{SURROGATE}.alpha": (lambda text: True, IGNORED)
        for row in (
            *("Threshold[0]", "I[0]", "IF[0]", "LI[0]", "LIF[0]", "LIF[3]", "CubaLI[0]", "CubaLIF[0]"),
            *("IF[2]", "LIF[4]", "CubaLIF[1]", "QIF[0]", "EIF[0]", "AdQIF[0]"),
        )
    },
    "spikingjelly.CubaLIF[1].normal_form.shift": (
        lambda text: text == "v_reset",
        "the row requires v_reset == v_leak",
    ),
    "norse.LIF[1].read.v_reset": (lambda text: "+" not in text, ZERO),
    "snntorch.IF[1].read.v_reset": (lambda text: "+" not in text, ZERO),
    "snntorch.LIF[2].read.v_leak": (lambda text: "+" not in text, ZERO),
    "rockpool.IF[0].assign.tau_mem": (lambda text: True, "whatever is as long does not decay either"),
    **{f"rockpool.{node}[0].assign._record": (lambda text: True, IGNORED) for node in ("IF", "LIF")},
    **{f"rockpool.{node}[0].read.v_reset": (lambda text: "+" not in text, ZERO) for node in ("IF", "LIF")},
}
EXPRESSIONS = [
    pytest.param(framework, row, located, id=name_of_place(located.place))
    for framework, row in rows()
    for located in proven_expressions(row)
]


@pytest.mark.parametrize(("framework", "row", "located"), EXPRESSIONS)
def test_every_changed_formula_is_refused_with_a_counter_example(
    framework: Framework, row: Row, located: Located
) -> None:
    primitive = CATALOGUE.primitives[row.node]
    name = name_of_place(located.place)
    is_neutral, _ = NEUTRAL.get(name, (lambda text: False, ""))
    accepted: list[str] = []
    for text in mutations(located, row, primitive):
        problems = proven(framework, row, changed(framework.document, located.place.path, text))
        if not problems:
            accepted.append(text)
        for problem in problems:
            assert problem.path.startswith(row.place.problem("", "").path)
            assert problem.line >= row.place.problem("", "").line
            # Numbers, or the name of what nothing reads or sets.
            assert re.search(r"= -?\d|not inverse|nothing (?:reads|sets)|unknown name", problem.found), (
                problem.found
            )
    assert accepted == [text for text in mutations(located, row, primitive) if is_neutral(text)]


def test_the_neutral_ones_are_in_the_tables() -> None:
    """A reason that no longer belongs to any expression hides nothing, but confuses."""
    names = {name_of_place(located.place) for _, row in rows() for located in proven_expressions(row)}
    assert set(NEUTRAL) <= names


def test_formulas_of_sizes_are_the_only_ones_that_are_not_changed() -> None:
    """A proof knows no shapes; the oracle's tests run these layers."""
    unchanged = {
        name_of_place(located.place)
        for _, row in rows()
        for located in proven_expressions(row)
        if not mutations(located, row, CATALOGUE.primitives[row.node])
    }
    layers = {"in_features", "out_features", "in_channels", "out_channels", "kernel_size", "shape"}
    chosen = {name for name in unchanged if name.endswith((".build.surrogate", ".build.method"))}
    assert {name.rpartition(".")[2] for name in unchanged - chosen} == layers
    assert {name.partition(".")[0] for name in unchanged} <= {"torch_nn", "torch", "rockpool"}


@pytest.mark.parametrize(
    ("framework", "row"),
    rows(),
    ids=lambda entry: name_of_place(entry.place) if isinstance(entry, Row) else "",
)
def test_a_read_that_is_missing_is_refused(framework: Framework, row: Row) -> None:
    for name, located in row.read.items():
        (problem, *_) = proven(framework, row, without(framework.document, located.place.path))
        assert (problem.path, problem.found) == (
            Place(framework.document, (*row.place.path, "read")).problem("", "").path,
            f"no entry for {name}",
        )


CONDITIONS = [
    pytest.param(
        framework,
        row,
        index,
        id=f"{name_of_place(row.place)} {row.reads_only_if[index].that.expression.text}",
    )
    for framework, row in rows()
    for index in range(len(row.reads_only_if))
]


@pytest.mark.parametrize(("framework", "row", "index"), CONDITIONS)
def test_a_condition_that_the_built_module_does_not_fulfil_is_refused(
    framework: Framework, row: Row, index: int
) -> None:
    condition = row.reads_only_if[index].that
    document = changed(framework.document, condition.place.path, f"not ({condition.expression.text})")
    (problem, *_) = proven(framework, row, document)
    assert problem.path == condition.place.problem("", "").path
    assert problem.found.startswith("a condition that does not hold for the module of ")
    assert "module." in problem.found


# Conditions without which every drawn module still comes back: those on a single number that draws do not meet.
UNMET = (
    r"module\.(?:beta|alpha|c_decay|v_decay) < 1",
    r"module\.(?:start|end)_dim != 0",
    r"module\.bias is not None",
    r"\(module\.alpha_(?:mem|syn|adapt) if .*\) (?:< 1|> 0|!= 0|is not None)",
    r"module\.adapt_scale != 0",
    r"exp\(-dt / module\.tau(?:_mem)?\) [<>] [01]",
    # Time constants that are declared under ignores, for only the condition looks at them, are not drawn.
    r"exp\(-dt / module\.tau(?:_mem)?\) == [01]",
    # What is never read is not drawn either.
    r"module\.(?:v_threshold|p\.v_th) >= 1e(?:37|29)",
    # The classes of objects are not drawn.
    r"name_of\(module\.surrogate_function\) != '(?:MultiLevelSpikeCount|PoissonPass)'",
    # Neither is None.
    r"module\.v_reset is not None",
    # There is no other one among the classes and functions that are built.
    r"name_of\(module\.reset_fn\) == 'MembraneSubtract'",
    r"name_of\(module\.p\.reset_method\) == 'reset_subtract'",
    r"name_of\(module\.reset_fn\) (?:==|!=) 'MembraneReset'(?: or (?:name_of|module\.reset_fn\.reset_value).*)?",
)


@pytest.mark.parametrize(("framework", "row", "index"), CONDITIONS)
def test_a_condition_cannot_be_left_out(framework: Framework, row: Row, index: int) -> None:
    """Without it, modules would be written as a node that means something else."""
    text = row.reads_only_if[index].that.expression.text
    place = row.reads_only_if[index].that.place
    problems = proven(framework, row, without(framework.document, place.path[:-1]))
    assert bool(problems) != any(re.fullmatch(pattern, text) for pattern in UNMET)


# These matter only together with another attribute, which a built module does not have.
MATTERS_WITH_OTHERS = frozenset({"output"})
HELD = [
    pytest.param(framework, row, path, id=f"{name_of_place(row.place)} {path}")
    for framework, row in rows()
    for path in row.holds
    if path not in row.ignores and path not in MATTERS_WITH_OTHERS
]


@pytest.mark.parametrize(("framework", "row", "path"), HELD)
def test_what_a_built_module_is_said_to_hold_has_to_fulfil_the_conditions(
    framework: Framework, row: Row, path: str
) -> None:
    located = row.holds[path]
    value = ast.literal_eval(located.expression.text)
    others: dict[Any, str] = {None: "3", True: "False", False: "True"}
    other = others.get(value, "'another'" if isinstance(value, str) else "2.5")
    (problem, *_) = proven(framework, row, changed(framework.document, located.place.path, other))
    assert "reads_only_if" in problem.path
    assert "does not hold for the module" in problem.found
    problems = proven(framework, row, without(framework.document, located.place.path))
    assert problems != []
    known = path in [argument for argument, _ in build_expressions(row)]  # It then stands for the attribute.
    assert all("nothing sets" in problem.found for problem in problems) != known


def test_an_attribute_that_nothing_sets_asks_for_holds() -> None:
    ((framework, row),) = [
        entry
        for entry in rows()
        if (entry[0].name, entry[1].node, entry[1].reset) == ("norse", "LIF", "value")
    ]
    path = (*row.place.path, "holds", "p.reset_method")
    (problem,) = proven(framework, row, without(framework.document, path))
    assert problem.found == "module.p.reset_method, which nothing sets"
    assert problem.path == "nodes.LIF[0].reads_only_if[1].that"
    assert "holds" in problem.expected


VALUELESS = {
    "a text times two": (("build", "reset_mechanism"), "2 * surrogate"),
    "integer of a fraction": (("build", "threshold"), "integer(v_threshold + 0.5)"),
    "entry of a number": (("read", "tau"), "module.beta[0]"),
    "text of a number": (("read", "tau"), "text(module.beta)"),
    "shape decides": (("read", "tau"), "1 if size(module.beta, 0) > 1 else 2"),
    "in a condition": (("reads_only_if", 0, "that"), "module.reset_mechanism < 1"),
    "in a requirement": (("requires", 0, "that"), "v_reset[0] == v_leak"),
    "in the normal form": (("normal_form", "gain"), "r[1]"),
    "joined arrays": (("read", "tau"), "transpose(module.beta) + module.threshold"),
}


@pytest.mark.parametrize(("keys", "text"), VALUELESS.values(), ids=VALUELESS)
def test_an_expression_without_a_value_is_a_problem_and_no_traceback(
    keys: tuple[str | int, ...], text: str
) -> None:
    ((framework, row),) = [
        entry
        for entry in rows()
        if (entry[0].name, entry[1].node, entry[1].reset) == ("snntorch", "LIF", "value")
    ]
    path = (*row.place.path, *keys)
    (problem, *_) = proven(framework, row, changed(framework.document, path, text))
    assert problem.path == Place(framework.document, path).problem("", "").path
    assert text.partition(" ==")[0] in problem.found or "nothing reads" in problem.found
    assert (problem.line, problem.column) == framework.document.position(path)


def test_requirements_that_no_node_fulfils_are_a_problem() -> None:
    ((framework, row),) = [
        entry
        for entry in rows()
        if (entry[0].name, entry[1].node, entry[1].reset) == ("snntorch", "LIF", "value")
    ]
    path = (*row.place.path, "requires", 1, "that")
    (problem,) = proven(framework, row, changed(framework.document, path, "v_threshold > v_threshold + 1"))
    assert problem.found == "requirements that no drawn node fulfils"
    assert problem.path == "nodes.LIF[0]"


def test_a_scale_that_may_be_negative_is_refused() -> None:
    """Build and read are inverse, and yet a spike would be where none was."""
    ((framework, row),) = [
        entry
        for entry in rows()
        if (entry[0].name, entry[1].node, entry[1].reset) == ("norse", "LIF", "value")
    ]
    path = (*row.place.path, "normal_form")
    (problem,) = proven(framework, row, changed(framework.document, path, {"gain": "-r", "scale": "-1"}))
    assert problem.path == "nodes.LIF[0].normal_form"
    assert re.search(r"scale = -\d", problem.found)


def test_a_module_that_was_not_built_is_read_as_what_it_is() -> None:
    """Built modules have beta = 1; without the condition, one with another beta would lose its leak."""
    ((framework, row),) = [entry for entry in rows() if entry[0].name == "snntorch" and entry[1].node == "I"]
    (problem,) = proven(framework, row, without(framework.document, (*row.place.path, "reads_only_if", 0)))
    assert problem.path == "nodes.I[0].build.beta"
    assert re.search(
        r"a module with beta = \S+ is read as r = \S+, dt = \S+, and built again with beta = 1", problem.found
    )


@pytest.mark.parametrize(
    ("framework", "row"),
    rows(),
    ids=lambda entry: name_of_place(entry.place) if isinstance(entry, Row) else "",
)
def test_the_declared_rows_are_proven(framework: Framework, row: Row) -> None:
    assert proven(framework, row, framework.document) == []


def test_a_wrong_leak_in_a_copy_is_told_in_numbers(tmp_path: Path) -> None:
    """The whole way, from a file with one wrong digit to the message."""
    folder = copied(tmp_path)
    path = folder / "frameworks" / "snntorch.yaml"
    old = "beta: tensor(1 - dt / tau)\n        threshold"
    line, _ = edited(path, old, old.replace("dt / tau", "2 * dt / tau"))
    problems = problems_of(folder, proven=True)
    assert {(problem.file, problem.path) for problem in problems} == {
        ("mappings/frameworks/snntorch.yaml", "nodes.LIF[0].read.tau"),
        ("mappings/frameworks/snntorch.yaml", "nodes.LIF[0].read.r"),
    }
    (tau,) = [problem for problem in problems if problem.path.endswith("tau")]
    assert tau.line > line
    drawn = re.search(r"for tau = (\S+), .* whose normal form has tau = (\S+), read gives (\S+)", tau.found)
    assert drawn is not None
    given, normal, again = (float(number) for number in drawn.groups())
    assert given == normal == pytest.approx(2 * again, rel=1e-4)


def test_every_row_with_a_fault_is_told_at_once(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    edited(
        folder / "frameworks/snntorch.yaml",
        "beta: tensor(1 - dt / tau)\n        threshold",
        "beta: tensor(1 + dt / tau)\n        threshold",
    )
    edited(
        folder / "frameworks/norse.yaml",
        "{v_th: tensor(v_threshold), v_reset: tensor(v_reset)}",
        "{v_th: tensor(v_reset), v_reset: tensor(v_threshold)}",
    )
    edited(folder / "shared/torch_nn.yaml", "start_dim: start_dim + 1 if", "start_dim: start_dim + 2 if")
    rest = "        r: r * current_scale / scale\n        v_leak: (v_leak - shift) / scale\n\n"
    edited(
        folder / "nir.yaml",
        "        w_in: w_in / (gain * current_scale)\n" + rest,
        "        w_in: w_in / gain\n" + rest,
    )
    problems = problems_of(folder, proven=True)
    rows_told = {(problem.file, problem.path.split(".")[1]) for problem in problems}
    assert rows_told >= {
        ("mappings/frameworks/snntorch.yaml", "LIF[0]"),
        ("mappings/frameworks/norse.yaml", "IF[0]"),
        ("mappings/shared/torch_nn.yaml", "Flatten[0]"),
        ("mappings/nir.yaml", "CubaLI"),
    }


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e-6, 1e-6))
def test_numbers_are_the_same_up_to_rounding_only(value: float, change: float) -> None:
    assert same(value, value)
    assert same((value, 1), (value, 1))
    if abs(value) > 1:
        assert same(value, value * (1 + change)) == (
            abs(change) <= 1.0001e-9 or value * (1 + change) == value
        ) or (abs(change) < 1.1e-9)


def test_a_truth_value_is_not_a_number() -> None:
    """A flag that comes back as 1 is another argument."""
    assert not same(True, 1)
    assert not same(0.0, False)
    assert same(True, True)
    assert not same("same", (0, 0))
    assert not same((1,), (1, 1))


def test_the_same_values_are_drawn_on_every_run() -> None:
    """Otherwise a proof could fail on one machine only."""
    for _, row in rows():
        primitive = CATALOGUE.primitives[row.node]
        one, other = Draw(row.module, primitive), Draw(row.module, primitive)
        nodes = [next(iter(draw.nodes())) for draw in (one, other)]
        assert nodes[0] == nodes[1]
        assert [list(one.settings(value, 3)) for value in nodes[0].values()] == [
            list(other.settings(value, 3)) for value in nodes[1].values()
        ]


@given(
    st.recursive(
        st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3) | st.none(),
        lambda inner: st.tuples(inner, inner),
        max_leaves=4,
    )
)
def test_a_changed_setting_is_another_one(value: Any) -> None:
    _, row = rows()[0]
    for other in Draw(row.module, CATALOGUE.primitives[row.node]).settings(value, 3):
        assert other != value or isinstance(value, float)
        assert value is None or type(other) is type(value)


@given(st.floats(-9, 9).filter(bool))
def test_some_settings_have_the_other_sign(value: float) -> None:
    """A condition on a sign would otherwise be left out without notice, where chance draws no such setting."""
    _, row = rows()[0]
    others = list(Draw(row.module, CATALOGUE.primitives[row.node]).settings(value, 6))
    assert [(other < 0) != (value < 0) for other in others] == [True, False, False] * 2

"""Checks of the catalogue: names in its equations and equivalences, and its primitives against the package nir."""

from __future__ import annotations

import ast
import dataclasses

from nirmap_generator.check import check_names, did_you_mean, expect_keys
from nirmap_generator.evaluate import evaluate
from nirmap_generator.expressions import unknown_names
from nirmap_generator.model import Catalogue, Located, Parameter, Place, Primitive
from nirmap_generator.problems import Problems

# Fields of nir's node classes that are not parameters.
_NOT_PARAMETERS = frozenset({"input_type", "output_type", "metadata"})


def check_catalogue(catalogue: Catalogue, problems: Problems) -> None:
    """Names in the equations and equivalences of every primitive that is readable."""
    for primitive in catalogue.primitives.values():
        if primitive.name not in catalogue.unreadable:
            _check_equations(primitive, problems)
            _check_equivalence(primitive, problems)


def _check_equations(primitive: Primitive, problems: Problems) -> None:
    known = {*primitive.parameters, *primitive.state, "input"}
    resets = [*primitive.reset.items(), *primitive.reset_by_subtraction.items()]
    for name, located in [*primitive.dynamics.items(), *resets]:
        check_names(located, known, problems)
        if name not in primitive.state:
            found, expected = f"equation for {name!r}", "one for a state variable of the primitive"
            do = did_you_mean(name, primitive.state) or f"declare {name} under state, or remove the equation"
            problems.add(located.place.problem(found, expected, do))
    for variable in primitive.state.values():
        check_names(variable.initial, primitive.parameters, problems)
    _check_before(primitive, problems)
    _check_delayed(primitive, problems)
    for parameter in primitive.parameters.values():
        if parameter.domain is not None:
            _check_domain(parameter, parameter.domain, problems)
    if primitive.spike is not None:
        check_names(primitive.spike, known, problems)
        if not _compares(primitive.spike, ast.Gt):
            do = "a spike is looked for where the left side is above the right one"
            problems.add(
                primitive.spike.place.problem(
                    f"{primitive.spike.expression.text!r}", "one comparison, as in 'v > v_threshold'", do
                )
            )
    if primitive.output is not None:
        check_names(primitive.output, {*known, "spike"}, problems)
        if primitive.spike is None and "spike" in primitive.output.expression.names:
            do = "add one, such as spike: v > v_threshold, or give another output"
            problems.add(primitive.output.place.problem("'spike'", "a condition under spike", do))


def _compares(located: Located, *operators: type[ast.cmpop]) -> bool:
    """Whether an expression is one comparison by one of the operators."""
    body = located.expression.tree.body
    return isinstance(body, ast.Compare) and len(body.ops) == 1 and isinstance(body.ops[0], operators)


def _check_domain(parameter: Parameter, domain: Located, problems: Problems) -> None:
    """A domain bounds its parameter by 0 from below, which is what nodes check; the default lies in it."""
    name, body = parameter.name, domain.expression.tree.body
    check_names(domain, {name}, problems)
    if unknown_names(domain.expression, {name}):
        return
    sides = [body.left, *body.comparators] if isinstance(body, ast.Compare) else []
    if not _compares(domain, ast.Gt, ast.GtE) or [ast.unparse(side) for side in sides] != [name, "0"]:
        do = "leave domain out where every number is legal"
        found, expected = f"{domain.expression.text!r}", f"'{name} > 0' or '{name} >= 0'"
        problems.add(domain.place.problem(found, expected, do))
    elif parameter.default is not None and not evaluate(domain.expression, {name: parameter.default}):
        found, expected = f"a default of {parameter.default:g}", f"one with {domain.expression.text}"
        problems.add(domain.place.problem(found, expected, "correct the default, or the domain"))


def _check_before(primitive: Primitive, problems: Problems) -> None:
    """``before`` is asked of a state variable, and in the equations of the dynamics: a reset comes after the step."""
    others = [*primitive.reset.values(), *primitive.reset_by_subtraction.values()]
    others += [located for located in (primitive.spike, primitive.output) if located is not None]
    others += [variable.initial for variable in primitive.state.values()]
    for located in others:
        if "before" in located.expression.functions:
            problems.add(located.place.problem("before()", "it in an equation of the dynamics only"))
    for located in primitive.dynamics.values():
        for node in ast.walk(located.expression.tree):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "before":
                continue
            asked = ast.unparse(node.args[0])
            if asked not in primitive.state:
                known = ", ".join(primitive.state)
                problems.add(located.place.problem(f"before({asked})", f"before of one of {known}"))


def _check_delayed(primitive: Primitive, problems: Problems) -> None:
    """``delayed`` is the whole of an output, of the input by a time in whole steps; the history is all that is kept."""
    equations = [
        *primitive.dynamics.values(),
        *primitive.reset.values(),
        *primitive.reset_by_subtraction.values(),
    ]
    equations += [variable.initial for variable in primitive.state.values()]
    equations += [primitive.spike] if primitive.spike is not None else []
    for located in equations:
        if "delayed" in located.expression.functions:
            do = "put a Delay before the neuron"
            problems.add(located.place.problem("delayed()", "it as the output of a primitive, and alone", do))
    output = primitive.output
    if output is None or "delayed" not in output.expression.functions:
        return
    times = [name for name, parameter in primitive.parameters.items() if parameter.whole_steps]
    if output.expression.text not in [f"delayed(input, {name})" for name in times]:
        found, expected = (
            f"{output.expression.text!r}",
            "delayed(input, TIME), where TIME has whole_steps: true",
        )
        problems.add(output.place.problem(found, expected))
    if (
        primitive.is_extension
        or primitive.spike is not None
        or primitive.dynamics
        or len(primitive.state) != 1
    ):
        found, expected = f"delayed() in {primitive.name}", "a Delay before or behind a neuron without it"
        problems.add(output.place.problem(found, expected, "a graph of NIR has Delay for this"))


def _check_equivalence(primitive: Primitive, problems: Problems) -> None:
    equivalence = primitive.equivalence
    if equivalence is None:
        return
    maps = [*equivalence.state.values(), *([equivalence.output] if equivalence.output else [])]
    expect_keys(equivalence.place / "inverse", equivalence.inverse, equivalence.free, problems)
    for located in equivalence.inverse.values():
        check_names(located, equivalence.free, problems)
    # A rebuilt network holds the free variables, and does with each what stands here.
    for located in [
        equivalence.input,
        *([equivalence.offset] if equivalence.offset else []),
        *(part for entry in maps for part in (entry.shift, entry.scale) if part),
    ]:
        check_names(located, equivalence.free, problems)
        if not unknown_names(located.expression, equivalence.free) and (
            located.expression.text not in equivalence.free
        ):
            found, expected = repr(located.expression.text), "one free variable by itself"
            problems.add(located.place.problem(found, expected, "declare a free variable for it"))
    for located in equivalence.parameters.values():
        check_names(located, {*primitive.parameters, *equivalence.free}, problems)
    expect_keys(equivalence.place / "state", equivalence.state, primitive.state, problems)
    for name in equivalence.parameters:
        if name not in primitive.parameters:
            problems.add(
                (equivalence.place / "parameters" / name).problem(f"{name!r}", "a parameter of the primitive")
            )


def check_against_nir(catalogue: Catalogue, problems: Problems) -> None:
    """The catalogue has exactly the primitives and parameters, in order, of the installed package nir."""
    import nir

    root = Place(catalogue.document, ())
    nodes = {
        name: value
        for name, value in vars(nir).items()
        if isinstance(value, type) and issubclass(value, nir.NIRNode)
    }
    classes = {name: value for name, value in nodes.items() if value is not nir.NIRNode}
    own = {name: primitive for name, primitive in catalogue.primitives.items() if not primitive.is_extension}
    for name in sorted((catalogue.primitives.keys() - own.keys()) & nodes.keys()):
        place = catalogue.primitives[name].place
        problems.add(place.problem(f"{name}", "a name that nir does not have", "rename the neuron"))
    declared = {*own, *catalogue.structure}
    for name in sorted(set(classes) - declared):
        problems.add(
            (root / "primitives").problem(f"no entry for {name}", f"an entry: nir has a primitive {name}")
        )
    for name in sorted(declared - set(classes)):
        key = "primitives" if name in catalogue.primitives else "structure"
        problems.add((root / key / name).problem(f"{name}", "a primitive that the installed nir has"))
    for name, primitive in own.items():
        if name in classes:
            _check_fields(primitive, classes[name], problems)


def _check_fields(primitive: Primitive, node: type, problems: Problems) -> None:
    fields = [
        field.name
        for field in dataclasses.fields(node)
        if field.init
        and (field.name not in _NOT_PARAMETERS or not field.kw_only)
        and field.name != "metadata"
    ]
    place = primitive.place / "parameters"
    for name in fields:
        if name not in primitive.parameters:
            problems.add(place.problem(f"no parameter {name!r}", f"one: nir.{primitive.name} has it"))
    for name in primitive.parameters:
        if name not in fields:
            problems.add(
                (place / name).problem(
                    f"parameter {name!r}", f"one of nir.{primitive.name}: " + ", ".join(fields)
                )
            )
    if sorted(fields) == sorted(primitive.parameters) and fields != list(primitive.parameters):
        problems.add(
            place.problem(
                "order " + ", ".join(primitive.parameters), "the order of nir: " + ", ".join(fields)
            )
        )

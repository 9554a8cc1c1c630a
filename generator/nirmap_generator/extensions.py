"""Primitives that NIR does not have: what else is asked of them, and their rows in the built-in framework."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nirmap_generator.discretise import methods
from nirmap_generator.model import Catalogue, Framework, Located, Primitive, Row
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problems
from nirmap_generator.vocabulary import FUNCTIONS

# The framework whose modules are generated from the equations.
BUILT_IN = "torch"
# The module of the registry that has them.
NEURONS = "nirmap_registry.neurons"
# Names that the generated classes use for something else.
_TAKEN = frozenset(
    {
        "before",
        "dt",
        "forward",
        "input",
        "input_type",
        "metadata",
        "method",
        "output_type",
        "reset",
        "self",
        "spike",
    }
    | {"spikes", "state", "surrogate", "training", "type"}
)

# What the modules with the generated classes import, by these names.
_IMPORTED = frozenset({"ClassVar", "Equations", "ExtensionNode", "Mapping", "Neuron", "State"})
_CLASS_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")


def name_problem(name: str) -> str:
    """What is wrong with the name of a node class; empty if nothing is."""
    if not _CLASS_NAME.fullmatch(name):
        return "the name of a class begins with a capital letter A to Z, and has letters, digits and _ only"
    if keyword.iskeyword(name):
        return "it is a word of Python's"
    if name in _IMPORTED:
        return "the generated modules use this name for something else"
    return ""


def check_extensions(catalogue: Catalogue, problems: Problems) -> None:
    """Whether everything that a class, a module and a test are made from is said."""
    for primitive in catalogue.primitives.values():
        if primitive.is_extension and primitive.name not in catalogue.unreadable:
            _check_primitive(primitive, problems)
        if primitive.name not in catalogue.unreadable:
            _check_functions(primitive, problems)


def _check_primitive(primitive: Primitive, problems: Problems) -> None:
    place = primitive.place
    problem = name_problem(primitive.name)
    if problem:
        problems.add(
            place.problem(f"the name {primitive.name!r}", "the name of a class, as in AdLIF", problem)
        )
    if primitive.shape != "elementwise" or primitive.output is None:
        found = f"shape: {primitive.shape}" if primitive.output is not None else "no output"
        problems.add(place.problem(found, "an elementwise primitive with an output, given by equations"))
    if primitive.typical_input is None:
        do = "give the lowest and the highest input at which it works, for its tests"
        problems.add(place.problem("no typical_input", "a range, such as [0, 2]", do))
    if not primitive.source:
        problems.add(place.problem("no source", "where the equations are from"))
    for name, parameter in primitive.parameters.items():
        here = place / "parameters" / name
        if parameter.kind != "neuron":
            problems.add(here.problem(f"kind: {parameter.kind}", "kind: neuron, one number for each neuron"))
        if parameter.default is None:
            problems.add(here.problem("no default", "a typical value", "give the one of the source"))
    for name in (*primitive.parameters, *primitive.state):
        if name in _TAKEN or keyword.iskeyword(name):
            key = "parameters" if name in primitive.parameters else "state"
            problems.add((place / key / name).problem(f"the name {name!r}", "another one: it is taken"))
    missing = [name for name in primitive.state if name not in primitive.dynamics]
    for name in missing:
        problems.add((place / "state" / name).problem("no equation", f"d/dt {name} under dynamics"))
    for name in primitive.reset:
        if name not in primitive.state:
            problems.add((place / "reset" / name).problem(f"{name!r}", "a state variable"))


def _check_functions(primitive: Primitive, problems: Problems) -> None:
    """Equations call only what tensors have."""
    equations: list[Located] = [*primitive.dynamics.values(), *primitive.reset.values()]
    equations += [located for located in (primitive.spike,) if located is not None]
    known = sorted(name for name, function in FUNCTIONS.items() if function.torch is not None)
    for located in equations:
        for name in sorted(located.expression.functions):
            if FUNCTIONS[name].torch is None:
                problems.add(located.place.problem(f"{name}()", "one of " + ", ".join(known)))


def with_reference_rows(framework: Framework, catalogue: Catalogue, parser: Parser) -> Framework:
    """The built-in framework with a row for each reset of every extension; any other one as it is."""
    if framework.name != BUILT_IN:
        return framework
    rows = [row for primitive in extensions(catalogue) for row in reference_rows(primitive, parser, NEURONS)]
    return replace(framework, rows=(*framework.rows, *rows), imports=(*framework.imports, NEURONS))


def extensions(catalogue: Catalogue) -> list[Primitive]:
    """The primitives that NIR does not have, as far as they are readable."""
    return [
        primitive
        for primitive in catalogue.primitives.values()
        if primitive.is_extension and primitive.name not in catalogue.unreadable
    ]


def reference_rows(primitive: Primitive, parser: Parser, package: str) -> Iterator[Row]:
    """The rows of the module that is generated from a primitive's equations.

    Args:
        primitive: the primitive.
        parser: parses what a row says.
        package: the Python module that has the class.
    """
    resets = ["value", "subtract"] if primitive.reset_by_subtraction else ["value"]
    for reset in resets:
        yield parser.row(primitive.name, _row(primitive, package, reset), primitive.place)


def _row(primitive: Primitive, package: str, reset: str) -> dict[str, Any]:
    """What a file of mappings would say of the module."""
    build = {name: f"tensor({name})" for name in primitive.parameters}
    conditions: list[dict[str, str]] = []
    ignores: dict[str, str] = {}
    if primitive.dynamics:
        build["dt"] = "dt"
        conditions.append(
            {"that": "module.dt == dt", "because": "the module was built for another time step"}
        )
    if primitive.spike is not None:
        build["surrogate"] = "surrogate"
        ignores["surrogate"] = "NIR describes the forward pass only"
    if primitive.reset_by_subtraction:
        build["reset"] = repr(reset)
        conditions.append(
            {
                "that": f"module.reset == {reset!r}",
                "because": "a neuron that is reset in another way is another node",
            }
        )
    if "exponential" in methods(primitive):
        build["method"] = "method"
        ignores["method"] = "NIR describes the equations and not how they are stepped"
    row: dict[str, Any] = {
        "module": f"{package}.{primitive.name}",
        "build": build,
        "read": {name: f"module.{name}" for name in primitive.parameters},
        "reads_only_if": conditions,
        "ignores": ignores,
        "reset": reset,
    }
    if primitive.state:
        variables: Mapping[str, str] = {name: name for name in primitive.state}
        row["state"] = {"call": "explicit", "argument": "state", "variables": variables}
    return row

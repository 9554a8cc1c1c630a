"""Primitives that NIR does not have: their rows in the built-in framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nirmap_generator.check_extensions import is_nameable
from nirmap_generator.discretise import methods
from nirmap_generator.model import Catalogue, Framework, Primitive, Row
from nirmap_generator.parsing import Parser

# The framework whose modules are generated from the equations.
BUILT_IN = "torch"
# The module of the registry that has them.
NEURONS = "nirmap_registry.neurons"


def with_reference_rows(framework: Framework, catalogue: Catalogue, parser: Parser) -> Framework:
    """The built-in framework with a row for each reset of every extension; any other one as it is."""
    if framework.name != BUILT_IN:
        return framework
    rows = [row for primitive in extensions(catalogue) for row in reference_rows(primitive, parser, NEURONS)]
    return replace(framework, rows=(*framework.rows, *rows), imports=(*framework.imports, NEURONS))


def extensions(catalogue: Catalogue) -> list[Primitive]:
    """The primitives that NIR does not have, as far as they are readable, and have names that Python can use."""
    return [
        primitive
        for primitive in catalogue.primitives.values()
        if primitive.is_extension and primitive.name not in catalogue.unreadable and is_nameable(primitive)
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

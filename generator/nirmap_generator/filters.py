"""The filters of the templates: how each part of a declaration is spelled in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nirmap_generator.check import WISHES, build_expressions, module_paths
from nirmap_generator.evaluate import evaluate
from nirmap_generator.model import (
    AffineMap,
    ClassReference,
    Constraint,
    Function,
    Located,
    Parameter,
    Place,
    Primitive,
    Record,
    Row,
)
from nirmap_generator.spelling import quote, to_condition, to_python, to_torch

# Classes that a generated module reaches through a plain import, since they are typed and well known.
PLAIN = "torch"


def class_reference(path: str) -> str:
    """How a generated module names a class."""
    package, _, name = path.rpartition(".")
    return path if package.split(".")[0] == PLAIN else name


def class_imports(paths: Iterable[str]) -> list[str]:
    """Import lines for all classes that are not reached through a plain import, sorted as ruff sorts them."""
    packages: dict[str, set[str]] = {}
    for path in paths:
        package, _, name = path.rpartition(".")
        if package.split(".")[0] != PLAIN:
            packages.setdefault(package, set()).add(name)
    return [
        f"from {package} import {', '.join(sorted(names))}" for package, names in sorted(packages.items())
    ]


def function_name(row: Row, verb: str) -> str:
    """``build_lif_as_leaky``: the verb, the node (or the name of the graph) and the class."""
    words = {"build": "as", "normalise": "for", "read": "from"}
    name = snake(row.node) if row.graph is None else row.graph.name
    suffix = "_by_subtraction" if row.reset == "subtract" else ""
    return f"{verb}_{name}_{words[verb]}_{snake(row.class_name)}{suffix}"


def title(row: Row) -> str:
    """What a row stands for, as docstrings say it."""
    return f"nir.{row.node}" if row.graph is None else f"The graph {row.graph.name}"


def normal_forms(row: Row) -> dict[str, dict[str, Located]]:
    """For each node of a graph that has a normal form, the values of its free variables."""
    forms: dict[str, dict[str, Located]] = {}
    for name, located in row.normal_form.items():
        member, _, free = name.partition(".")
        forms.setdefault(member, {})[free] = located
    return forms


def snake(name: str) -> str:
    """``LIFBoxCell`` -> ``lif_box_cell``."""
    out = ""
    for index, letter in enumerate(name):
        starts = letter.isupper() and index > 0
        if starts and (name[index - 1].islower() or (index + 1 < len(name) and name[index + 1].islower())):
            out += "_"
        out += letter.lower()
    return out


def docstring(text: str) -> str:
    """A text inside of a docstring, in ASCII and on one line, whatever the text holds."""
    # With a double quote at its end, a text is written in single quotes, in which no other one is escaped.
    return ascii(" ".join(text.split()) + '"')[1:-2].replace('"', '\\"')


def float_literal(value: float | None) -> str:
    """A number as Python text."""
    return repr(None if value is None else float(value))


def python(located: Located) -> str:
    """An expression on local names."""
    return to_python(located.expression, {})


def node_python(located: Located) -> str:
    """An expression on ``node["name"]`` and dt."""
    return to_python(located.expression, _from_node(located))


def node_condition(located: Located) -> str:
    """A condition on ``node["name"]`` and dt, true if it holds for every neuron."""
    return to_condition(located.expression, _from_node(located))


def _from_node(located: Located) -> dict[str, str]:
    members = {path[0] for path in located.expression.attributes}
    return {
        name: f"rows.member(node, {quote(name)})" if name in members else f"node[{quote(name)}]"
        for name in located.expression.names
        if name != "dt"
    }


def module_constraints(constraints: tuple[Constraint, ...]) -> str:
    """A tuple of ``rows.ModuleConstraint``."""
    entries = ""
    for constraint in constraints:
        paths = "".join(f"{quote(path)}, " for path in sorted(module_paths(constraint.that)))
        condition = module_condition(constraint.that)
        entries += (
            f"rows.ModuleConstraint(that={quote(constraint.that.expression.text)}, because={quote(constraint.because)},"
            f" do={quote(constraint.do)}, attributes=({paths}), holds=lambda module, dt: {condition}),"
        )
    return f"({entries})"


def module_condition(located: Located) -> str:
    """A condition on a module, true if it holds for every neuron."""
    return to_condition(located.expression, {}, attribute=lambda text: f"rows.array({text})")


def part_python(located: Located) -> str:
    """An expression on the parameters of the parts of a series."""

    def entry(text: str) -> str:
        part, _, name = text.partition(".")
        return f"{part}[{quote(name)}]"

    return to_python(located.expression, {}, attribute=entry)


def free_variable(located: Located | None) -> str:
    """The name of the free variable that an expression of an equivalence is."""
    return "None" if located is None else quote(located.expression.text)


def affine(entry: AffineMap) -> str:
    """A ``rows.AffineMap``."""
    parts = (("shift", entry.shift), ("scale", entry.scale))
    return f"rows.AffineMap({', '.join(f'{key}={free_variable(value)}' for key, value in parts if value)})"


def constructor(row: Row) -> str:
    """The call that makes the module."""
    arguments: list[str] = []
    for name, entry in row.build.items():
        if isinstance(entry, Record):
            fields = ", ".join(f"{field}={_argument(value)}" for field, value in entry.arguments.items())
            arguments.append(f"{name}={class_reference(entry.call)}({fields})")
        else:
            arguments.append(f"{name}={_argument(entry)}")
    cls = class_reference(row.module)
    return f"{f'rows.uninitialised({cls})' if row.assign else cls}({', '.join(arguments)})"


def _argument(value: Located | ClassReference) -> str:
    if isinstance(value, ClassReference):
        return class_reference(value.path)
    # A constructor may take None although it does not say so.
    if value.expression.text.strip() == "None":
        return "rows.NOTHING"
    return to_python(value.expression, {name: f"to.{name}" for name in WISHES})


def assignment(located: Located, name: str) -> str:
    """Sets an attribute of a module: a tensor or a truth value as it is, anything else as a parameter."""
    text = _argument(located)
    if "." in name:
        return f"rows.assign(module, {name!r}, {_assigned(text)})"
    if text in ("True", "False"):  # torch's modules are declared to hold tensors and modules only
        return f"vars(module)[{name!r}] = {text}"
    return f"module.{name} = {_assigned(text)}"


def _assigned(text: str) -> str:
    """A tensor as it is, anything else as a parameter."""
    return text if text.startswith("to.tensor(") else f"to.parameter({text})"


def takes_method(row: Row) -> bool:
    """Whether the module is told by which method to step."""
    return any("method" in located.expression.names for _, located in build_expressions(row))


def returns_others(row: Row) -> bool:
    """Whether forward returns something else than the node's variables in their order."""
    return row.state is not None and row.state.returns != tuple(v.kept_as for v in row.state.variables)


def records(row: Row) -> list[tuple[str, Record]]:
    """The constructor arguments that are records."""
    return [(name, entry) for name, entry in row.build.items() if isinstance(entry, Record)]


def equivalent_name(primitive: Primitive) -> str:
    """Name of the function that makes the equivalent node."""
    return f"equivalent_{snake(primitive.name)}"


def node_names(constraint: Constraint) -> list[str]:
    """The names that a node's constraint speaks of."""
    return sorted(constraint.that.expression.names)


def accounted(row: Row) -> list[str]:
    """Dotted paths of all attributes that are read, pinned by a condition, held or ignored for a reason."""
    paths = {*row.ignores, *row.holds}
    for located in [*row.read.values(), *(constraint.that for constraint in row.reads_only_if)]:
        paths |= module_paths(located)
    return sorted(paths)


def parameter_arguments(parameter: Parameter) -> str:
    """The arguments of a ``rows.Parameter``; what is left at its default is left out."""
    positive: bool | None = None
    if parameter.domain is not None:
        positive = ">=" not in parameter.domain.expression.text
    given: dict[str, Any] = {
        "unit": (parameter.unit, ""),
        "axes": (parameter.axes, 0),
        "minimum": (parameter.minimum, None),
        "default": (parameter.default, None),
        "whole_steps": (parameter.whole_steps, False),
        "positive": (positive, None),
        "description": (parameter.description, ""),
    }
    extra = "".join(
        f", {key}={quote(value) if isinstance(value, str) else repr(value)}"
        for key, (value, default) in given.items()
        if value != default
    )
    return f"{quote(parameter.name)}, {quote(parameter.kind)}{extra}"


def function_row(function: Function) -> str:
    """A ``rows.Function``."""
    text = f"rows.Function(name={quote(function.function or function.method or '')}, means={quote(function.means)}"
    if function.parameters:
        text += f", parameters=({''.join(f'{quote(name)}, ' for name in function.parameters)})"
    if function.defaults:
        text += ", defaults={" + ", ".join(f"{quote(k)}: {v!r}" for k, v in function.defaults.items()) + "}"
    if function.factor is not None:
        text += f", factor={function.factor!r}"
    if function.module:
        text += f", module={quote(function.module)}"
    if function.attributes:
        text += ", attributes=lambda given: {"
        text += ", ".join(
            f"{quote(name)}: {_from_arguments(located)}" for name, located in function.attributes.items()
        )
        text += "}"
    if function.dtype:
        text += f", dtype={quote(function.dtype)}"
    return text + ")"


def _from_arguments(located: Located) -> str:
    """An expression on ``given["name"]``."""
    return to_python(located.expression, {name: f"given[{quote(name)}]" for name in located.expression.names})


def module_array(located: Located) -> str:
    """An expression on a module's attributes, as arrays of float64."""
    return to_python(located.expression, {}, attribute=lambda text: f"rows.array({text})")


def self_python(located: Located, primitive: Primitive) -> str:
    """An expression in a reference module: parameters are attributes."""
    return to_torch(located.expression, {name: f"self.{name}" for name in primitive.parameters})


def initial(located: Located) -> str:
    """The value of a state variable before the first step: a number, or a function of the node's parameters."""
    if not located.expression.names:
        return _number(located)
    return f"lambda node: {node_python(located)}"


def initial_torch(located: Located, primitive: Primitive) -> str:
    """The same in a reference module, of the shape of the input."""
    if not located.expression.names:
        return f"torch.full_like(input, {_number(located)})"
    return f"torch.zeros_like(input) + ({self_python(located, primitive)})"


def _number(located: Located) -> str:
    return repr(float(str(evaluate(located.expression, {}))))


def fixed(primitive: Primitive) -> list[str]:
    """The parameters that no gradient reaches: times in whole steps, and what says where the state begins only."""
    equations = [*primitive.dynamics.values(), *primitive.reset.values()]
    equations += [*primitive.reset_by_subtraction.values()]
    equations += [located for located in (primitive.spike, primitive.output) if located is not None]
    used = {name for located in equations for name in located.expression.names}
    begins = {name for variable in primitive.state.values() for name in variable.initial.expression.names}
    return [
        name for name, entry in primitive.parameters.items() if entry.whole_steps or name in begins - used
    ]


def delays(primitive: Primitive) -> bool:
    """Whether it is a delay line, whose output is its input of some time ago."""
    return primitive.output is not None and "delayed" in primitive.output.expression.functions


def looks_back(primitive: Primitive) -> bool:
    """Whether an equation speaks of the state before the step."""
    return any("before" in located.expression.functions for located in primitive.dynamics.values())


def distance(located: Located, primitive: Primitive) -> str:
    """``left - right`` of a spike condition ``left > right``."""
    import ast

    body = located.expression.tree.body
    if not isinstance(body, ast.Compare):
        raise TypeError(f"{located.expression.text!r} is not a comparison")
    left, right = ast.unparse(body.left), ast.unparse(body.comparators[0])
    from nirmap_generator.expressions import parse

    return to_torch(parse(f"{left} - ({right})"), {name: f"self.{name}" for name in primitive.parameters})


def source(place: Place) -> str:
    """``file:line`` of an entry."""
    line, _ = place.document.position(place.path)
    return quote(f"{place.document.file}:{line}")

"""What the YAML files say, as frozen data: one class for each kind of entry.

The classes mirror the keys of the files (``mappings/README.md`` explains them). They are made from documents that have
passed their JSON Schema, so parsing here only turns texts into expressions and keeps each entry's place for messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nirmap_generator.expressions import Expression, ExpressionError, parse
from nirmap_generator.load import Document
from nirmap_generator.problems import Problem, Problems, shown_path

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """Where an entry stands: the document and the path in it."""

    document: Document
    path: Path

    def __truediv__(self, key: str | int) -> Place:
        return Place(self.document, (*self.path, key))

    def problem(self, found: str, expected: str, do: str = "") -> Problem:
        """A problem at this place."""
        line, column = self.document.position(self.path)
        return Problem(self.document.file, line, column, shown_path(self.path), found, expected, do)


@dataclass(frozen=True)
class Located:
    """An expression and the place where it stands."""

    expression: Expression
    place: Place


@dataclass(frozen=True)
class Parameter:
    """One parameter of a primitive."""

    name: str
    kind: str
    description: str
    unit: str = ""
    domain: Located | None = None
    default: float | None = None
    axes: int = 0
    minimum: int | None = None


@dataclass(frozen=True)
class StateVariable:
    """One state variable of a primitive."""

    name: str
    unit: str
    description: str
    initial: float


@dataclass(frozen=True)
class AffineMap:
    """``value = shift + scale * value``; None stands for 0 and 1."""

    shift: Located | None = None
    scale: Located | None = None


@dataclass(frozen=True)
class Equivalence:
    """A family of nodes with the same behaviour."""

    free: Mapping[str, float]
    inverse: Mapping[str, Located]
    input: Located
    state: Mapping[str, AffineMap]
    output: AffineMap | None
    parameters: Mapping[str, Located]
    place: Place


@dataclass(frozen=True)
class Primitive:
    """One primitive of the catalogue."""

    name: str
    description: str
    shape: str
    parameters: Mapping[str, Parameter]
    state: Mapping[str, StateVariable]
    dynamics: Mapping[str, Located]
    spike: Located | None
    reset: Mapping[str, Located]
    output: Located | None
    equivalence: Equivalence | None
    place: Place

    @property
    def declared(self) -> list[str]:
        """The parameters that a mapping speaks of: all but the inferred shapes."""
        return [name for name, parameter in self.parameters.items() if parameter.kind != "shape"]


@dataclass(frozen=True)
class Catalogue:
    """All primitives, and the versions of nir that they hold for."""

    nir: str
    primitives: Mapping[str, Primitive]
    structure: Mapping[str, str]
    document: Document


@dataclass(frozen=True)
class Constraint:
    """What has to hold, why, and what to do where it does not."""

    that: Located
    because: str
    do: str


@dataclass(frozen=True)
class Record:
    """A record that is itself a constructor argument."""

    call: str
    arguments: Mapping[str, Located]
    place: Place


@dataclass(frozen=True)
class Variable:
    """How a module keeps one state variable of the node: ``kept = times * value``."""

    name: str
    kept_as: str
    times: Located | None


@dataclass(frozen=True)
class State:
    """How state goes in and out of a module."""

    call: str
    argument: str
    variables: tuple[Variable, ...]
    record: str | None
    hides: tuple[str, ...]
    output: str | None


@dataclass(frozen=True)
class Row:
    """One module that stands for one node."""

    node: str
    module: str
    discretisation: str
    state: State | None
    requires: tuple[Constraint, ...]
    normal_form: Mapping[str, Located]
    build: Mapping[str, Located | Record]
    assign: Mapping[str, Located]
    kept_in: str | None
    read: Mapping[str, Located]
    reads_only_if: tuple[Constraint, ...]
    holds: Mapping[str, Located]
    ignores: Mapping[str, str]
    place: Place

    @property
    def class_name(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]


@dataclass(frozen=True)
class Bypassed:
    """A module that only hands its input on."""

    module: str
    reads_only_if: tuple[Constraint, ...]
    place: Place


@dataclass(frozen=True)
class Framework:
    """One file of mappings."""

    name: str
    description: str
    distribution: str
    versions: str
    imports: tuple[str, ...]
    time_step: float | None
    includes: tuple[str, ...]
    rows: tuple[Row, ...]
    not_mapped: Mapping[str, str]
    bypassed: tuple[Bypassed, ...]
    document: Document


@dataclass(frozen=True)
class Function:
    """What one traced function or method means."""

    function: str | None
    method: str | None
    means: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, float]
    factor: float | None
    place: Place


@dataclass
class Parser:
    """Turns documents into the classes above, collecting every expression that does not parse."""

    problems: Problems = field(default_factory=Problems)

    def located(self, text: str, place: Place) -> Located | None:
        """The parsed expression, or None (and a problem) where the text is not in the language."""
        try:
            return Located(parse(text), place)
        except ExpressionError as error:
            self.problems.add(
                place.problem(error.found, error.expected, f"in {text!r}, at column {error.column + 1}")
            )
            return None

    def optional(self, data: Mapping[str, Any], key: str, place: Place) -> Located | None:
        """The expression under a key, if there is one."""
        return self.located(data[key], place / key) if key in data else None

    def table(self, data: Mapping[str, Any], key: str, place: Place) -> dict[str, Located]:
        """A mapping from names to expressions."""
        found: dict[str, Located] = {}
        for name, text in data.get(key, {}).items():
            expression = self.located(text, place / key / name)
            if expression is not None:
                found[name] = expression
        return found

    def constraints(self, data: Mapping[str, Any], key: str, place: Place) -> tuple[Constraint, ...]:
        """A list of constraints."""
        found: list[Constraint] = []
        for index, entry in enumerate(data.get(key, ())):
            that = self.located(entry["that"], place / key / index / "that")
            if that is not None:
                found.append(Constraint(that, entry["because"], entry.get("do", "")))
        return tuple(found)

    def catalogue(self, document: Document) -> Catalogue:
        """The catalogue of primitives."""
        root = Place(document, ())
        primitives = {
            name: self.primitive(name, data, root / "primitives" / name)
            for name, data in document.data["primitives"].items()
        }
        return Catalogue(document.data["nir"], primitives, document.data["structure"], document)

    def primitive(self, name: str, data: Mapping[str, Any], place: Place) -> Primitive:
        """One primitive."""
        return Primitive(
            name=name,
            description=data["description"],
            shape=data["shape"],
            parameters={
                key: self.parameter(key, entry, place / "parameters" / key)
                for key, entry in data["parameters"].items()
            },
            state={
                key: StateVariable(key, entry["unit"], entry["description"], float(entry.get("initial", 0)))
                for key, entry in data.get("state", {}).items()
            },
            dynamics=self.table(data, "dynamics", place),
            spike=self.optional(data, "spike", place),
            reset=self.table(data, "reset", place),
            output=self.optional(data, "output", place),
            equivalence=self.equivalence(data["equivalence"], place / "equivalence")
            if "equivalence" in data
            else None,
            place=place,
        )

    def parameter(self, name: str, data: Mapping[str, Any], place: Place) -> Parameter:
        """One parameter of a primitive."""
        return Parameter(
            name=name,
            kind=data["kind"],
            description=data["description"],
            unit=data.get("unit", ""),
            domain=self.optional(data, "domain", place),
            default=data.get("default"),
            axes=data.get("axes", 0),
            minimum=data.get("minimum"),
        )

    def affine(self, data: Mapping[str, Any], place: Place) -> AffineMap:
        """An affine map."""
        return AffineMap(self.optional(data, "shift", place), self.optional(data, "scale", place))

    def equivalence(self, data: Mapping[str, Any], place: Place) -> Equivalence | None:
        """The equivalence of a primitive."""
        gain = self.located(data["input"], place / "input")
        if gain is None:
            return None
        return Equivalence(
            free={name: float(value) for name, value in data["free"].items()},
            inverse=self.table(data, "inverse", place),
            input=gain,
            state={name: self.affine(entry, place / "state" / name) for name, entry in data["state"].items()},
            output=self.affine(data["output"], place / "output") if "output" in data else None,
            parameters=self.table(data, "parameters", place),
            place=place,
        )

    def framework(self, document: Document) -> Framework:
        """A framework's file, or a shared one."""
        data, root = document.data, Place(document, ())
        rows = [
            self.row(node, entry, root / "nodes" / node / index)
            for node, entries in data["nodes"].items()
            for index, entry in enumerate(entries)
        ]
        bypassed = [
            Bypassed(entry["module"], self.constraints(entry, "reads_only_if", place), place)
            for index, entry in enumerate(data.get("bypassed", ()))
            for place in [root / "bypassed" / index]
        ]
        package = data["package"]
        return Framework(
            name=data["framework"],
            description=data["description"],
            distribution=package["distribution"],
            versions=package["versions"],
            imports=tuple(package["imports"]),
            time_step=data.get("time_step"),
            includes=tuple(data.get("includes", ())),
            rows=tuple(rows),
            not_mapped=data.get("not_mapped", {}),
            bypassed=tuple(bypassed),
            document=document,
        )

    def row(self, node: str, data: Mapping[str, Any], place: Place) -> Row:
        """One row of a framework's table."""
        return Row(
            node=node,
            module=data["module"],
            discretisation=data.get("discretisation", "forward_euler"),
            state=self.state(data["state"], place / "state") if "state" in data else None,
            requires=self.constraints(data, "requires", place),
            normal_form=self.table(data, "normal_form", place),
            build=self.arguments(data["build"], place / "build"),
            assign=self.table(data, "assign", place),
            kept_in=data.get("kept_in"),
            read=self.table(data, "read", place),
            reads_only_if=self.constraints(data, "reads_only_if", place),
            holds=self.table(data, "holds", place),
            ignores=data.get("ignores", {}),
            place=place,
        )

    def arguments(self, data: Mapping[str, Any], place: Place) -> dict[str, Located | Record]:
        """Constructor arguments: expressions, or records of expressions."""
        found: dict[str, Located | Record] = {}
        for name, entry in data.items():
            if isinstance(entry, str):
                expression = self.located(entry, place / name)
                if expression is not None:
                    found[name] = expression
            else:
                found[name] = Record(
                    entry["call"], self.table(entry, "arguments", place / name), place / name
                )
        return found

    def state(self, data: Mapping[str, Any], place: Place) -> State:
        """How state goes in and out."""
        variables: list[Variable] = []
        for name, entry in data["variables"].items():
            if isinstance(entry, str):
                variables.append(Variable(name, entry, None))
            else:
                times = self.optional(entry, "times", place / "variables" / name)
                variables.append(Variable(name, entry["as"], times))
        return State(
            call=data["call"],
            argument=data["argument"],
            variables=tuple(variables),
            record=data.get("record"),
            hides=tuple(data.get("hides", ())),
            output=data.get("output"),
        )

    def functions(self, document: Document) -> tuple[Function, ...]:
        """The table of functions."""
        root = Place(document, ())
        return tuple(
            Function(
                function=entry.get("function"),
                method=entry.get("method"),
                means=entry["means"],
                parameters=tuple(entry.get("parameters", ())),
                defaults=entry.get("defaults", {}),
                factor=entry.get("factor"),
                place=root / "functions" / index,
            )
            for index, entry in enumerate(document.data["functions"])
        )

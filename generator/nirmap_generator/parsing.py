"""From YAML documents to the classes of :mod:`nirmap_generator.model`.

The documents have passed their JSON Schema, so all that can be wrong here is an expression that is not in the language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nirmap_generator.expressions import ExpressionError, parse
from nirmap_generator.load import Document
from nirmap_generator.model import (
    AffineMap,
    Bypassed,
    Catalogue,
    ClassReference,
    Constraint,
    Container,
    Equivalence,
    Folded,
    Framework,
    Function,
    LaterReset,
    Located,
    Member,
    Parameter,
    Place,
    Primitive,
    Record,
    Row,
    Sequences,
    State,
    StateVariable,
    SubGraph,
    Variable,
)
from nirmap_generator.problems import Problems

# What a row stands for that is not one node.
GRAPH = "NIRGraph"


@dataclass
class Parser:
    """Turns documents into the classes of the model, collecting every expression that does not parse."""

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
        primitives: dict[str, Primitive] = {}
        unreadable: set[str] = set()
        for name, data in document.data["primitives"].items():
            before = len(self.problems)
            primitives[name] = self.primitive(name, data, root / "primitives" / name)
            if len(self.problems) > before:
                unreadable.add(name)
        return Catalogue(
            document.data["nir"], primitives, document.data["structure"], document, frozenset(unreadable)
        )

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
            reset_by_subtraction=self.table(data, "reset_by_subtraction", place),
            output=self.optional(data, "output", place),
            equivalence=self.equivalence(data["equivalence"], place / "equivalence")
            if "equivalence" in data
            else None,
            place=place,
            input_unit=data.get("input_unit", ""),
            output_unit=data.get("output_unit", ""),
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
            whole_steps=data.get("whole_steps", False),
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
            offset=self.optional(data, "offset", place),
            state={name: self.affine(entry, place / "state" / name) for name, entry in data["state"].items()},
            output=self.affine(data["output"], place / "output") if "output" in data else None,
            parameters=self.table(data, "parameters", place),
            place=place,
        )

    def framework(self, document: Document) -> Framework:
        """A framework's file, or a shared one."""
        data, root = document.data, Place(document, ())
        rows: list[Row] = []
        for node, entries in data["nodes"].items():
            for index, entry in enumerate(entries):
                before = len(self.problems)
                row = self.row(node, entry, root / "nodes" / node / index)
                # A row that is not whole would be reported again for what it lacks.
                if len(self.problems) == before:
                    rows += [replace(row, module=module) for module in _texts(entry["module"])]
        graphs: list[Row] = []
        for name, entry in data.get("graphs", {}).items():
            before = len(self.problems)
            row = self.graph(name, entry, root / "graphs" / name)
            if len(self.problems) == before:
                graphs.append(row)
        bypassed = [
            Bypassed(module, conditions, place, entry.get("joins_time"), entry.get("splits_time"))
            for index, entry in enumerate(data.get("bypassed", ()))
            for place in [root / "bypassed" / index]
            for conditions in [self.constraints(entry, "reads_only_if", place)]
            for module in _texts(entry["module"])
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
            folded=tuple(self.folded(data.get("folded", ()), root / "folded")),
            document=document,
            graphs=tuple(graphs),
            containers=tuple(self.containers(data.get("containers", ()), root / "containers")),
            sequences=self.sequences(data.get("sequences", {}), root / "sequences"),
        )

    def containers(self, data: Sequence[Mapping[str, Any]], place: Place) -> Iterator[Container]:
        """The modules that only arrange others."""
        for index, entry in enumerate(data):
            returns_records = entry.get("returns_records", False)
            for module in _texts(entry["module"]):
                yield Container(
                    module, entry.get("each_step"), entry.get("time_axis"), returns_records, place / index
                )

    def sequences(self, data: Mapping[str, Any], place: Place) -> Sequences | None:
        """When a module takes sequences."""
        that = self.optional(data, "that", place)
        return None if that is None else Sequences(that, data["time_axis"])

    def folded(self, data: Sequence[Mapping[str, Any]], place: Place) -> Iterator[Folded]:
        """The modules that the layer before them takes in."""
        for index, entry in enumerate(data):
            here = place / index
            scale, shift = (self.located(entry[key], here / key) for key in ("scale", "shift"))
            conditions = self.constraints(entry, "reads_only_if", here)
            if scale is not None and shift is not None:
                for module in _texts(entry["module"]):
                    yield Folded(module, scale, shift, conditions, here)

    def row(self, node: str, data: Mapping[str, Any], place: Place) -> Row:
        """One row of a framework's table."""
        return Row(
            node=node,
            module=_texts(data["module"])[0],
            discretisation=data.get("discretisation", "forward_euler"),
            state=self.state(data["state"], place / "state") if "state" in data else None,
            requires=self.constraints(data, "requires", place),
            normal_form=self.table(data, "normal_form", place),
            build=self.arguments(data.get("build", {}), place / "build"),
            assign=self.table(data, "assign", place),
            kept_in=_texts(data.get("kept_in", ())),
            read=self.table(data, "read", place),
            reads_only_if=self.constraints(data, "reads_only_if", place),
            holds=self.table(data, "holds", place),
            ignores=data.get("ignores", {}),
            not_built=data.get("not_built", ""),
            not_read=data.get("not_read", ""),
            reset=data.get("reset", "value"),
            place=place,
        )

    def graph(self, name: str, data: Mapping[str, Any], place: Place) -> Row:
        """A module that is a small graph, as a row whose names are ``member.name``."""
        row = self.row(GRAPH, data, place)
        members: list[Member] = []
        for member, entry in data.get("nodes", {}).items():
            where = place / "nodes" / member
            members.append(Member(member, entry["node"], where))
            read, free = self.table(entry, "read", where), self.table(entry, "normal_form", where)
            row = replace(
                row,
                read={**row.read, **{f"{member}.{key}": value for key, value in read.items()}},
                normal_form={**row.normal_form, **{f"{member}.{key}": value for key, value in free.items()}},
            )
        if "refused" in data:
            return replace(row, not_built=data["refused"], not_read=data["refused"])
        edges = tuple((source, target) for source, target in data["edges"])
        return replace(row, graph=SubGraph(name, tuple(members), edges))

    def arguments(
        self, data: Mapping[str, Any], place: Place
    ) -> dict[str, Located | Record | ClassReference]:
        """Constructor arguments: expressions, records of expressions, or classes."""
        found: dict[str, Located | Record | ClassReference] = {}
        for name, entry in data.items():
            if isinstance(entry, str):
                expression = self.located(entry, place / name)
                if expression is not None:
                    found[name] = expression
            elif "class" in entry:
                found[name] = ClassReference(entry["class"], place / name)
            else:
                fields = self.fields(entry["arguments"], place / name / "arguments")
                found[name] = Record(entry["call"], fields, place / name)
        return found

    def fields(self, data: Mapping[str, Any], place: Place) -> dict[str, Located | ClassReference]:
        """What a record is made of: expressions, and classes."""
        found: dict[str, Located | ClassReference] = {}
        for name, entry in data.items():
            if isinstance(entry, str):
                expression = self.located(entry, place / name)
                if expression is not None:
                    found[name] = expression
            else:
                found[name] = ClassReference(entry["class"], place / name)
        return found

    def state(self, data: Mapping[str, Any], place: Place) -> State:
        """How state goes in and out."""
        variables: list[Variable] = []
        for name, entry in data["variables"].items():
            if isinstance(entry, str):
                variables.append(Variable(name, entry, None))
            else:
                times = self.optional(entry, "times", place / "variables" / name)
                variables.append(Variable(name, entry["as"], times, entry.get("from"), entry.get("entries")))
        kept = tuple(variable.kept_as for variable in variables)
        return State(
            call=data["call"],
            argument=data.get("argument"),
            variables=tuple(variables),
            record=data.get("record"),
            hides=tuple(data.get("hides", ())),
            output=data.get("output"),
            zeroed=tuple(data.get("zeroed", ())),
            returns=tuple(data.get("returns", kept)),
            time_axis=data.get("time_axis"),
            spread_by=data.get("spread_by"),
            reset_in_next_step=self.later_reset(data.get("reset_in_next_step"), place / "reset_in_next_step"),
            alone_if=self.optional(data, "alone_if", place),
        )

    def later_reset(self, data: Mapping[str, Any] | None, place: Place) -> LaterReset | None:
        """A reset at the beginning of the next step."""
        if data is None:
            return None
        above, by = (self.located(data[name], place / name) for name in ("above", "by"))
        return None if above is None or by is None else LaterReset(above, by)

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
                module=entry.get("module", ""),
                attributes=self.table(entry, "attributes", root / "functions" / index),
                dtype=entry.get("dtype", ""),
                place=root / "functions" / index,
            )
            for index, entry in enumerate(document.data["functions"])
        )


def _texts(data: Any) -> tuple[str, ...]:
    """One text, or a list of them."""
    return (data,) if isinstance(data, str) else tuple(data)

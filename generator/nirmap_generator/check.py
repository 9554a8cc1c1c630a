"""Checks that the declarations of the frameworks fit together: names, scopes, completeness.

Everything found is collected, so that one run shows all of it.
"""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterator, Mapping

from nirmap_generator.expressions import closest, unknown_names
from nirmap_generator.model import (
    Catalogue,
    ClassReference,
    Constraint,
    Framework,
    Located,
    Place,
    Primitive,
    Record,
    Row,
    State,
)
from nirmap_generator.problems import Problems

# What the caller chooses, which only a constructor gets.
WISHES = frozenset({"method", "surrogate"})
BUILD_NAMES = frozenset({"dt"}) | WISHES
# Names that the runtime supplies beside a node's parameters, and beside a module.
READ_NAMES = frozenset({"dt", "module"})
# Names that mean something else in every generated registry.
RESERVED = frozenset(
    {
        "Final",
        "annotations",
        "catalogue",
        "dt",
        "functions",
        "module",
        "neurons",
        "node",
        "np",
        "rows",
        "to",
        "torch",
    }
    | {
        "BYPASSED",
        "CONTAINERS",
        "FOLDED",
        "LEAF_MODULES",
        "NIR_NODES",
        "REGISTRY",
        "ROWS",
        "STATEFUL_MODULES",
    }
)
# Under ``from``: the new value is what forward returns.
FORWARD = "forward"


def check_names(located: Located, known: Collection[str], problems: Problems) -> None:
    """Every name of the expression is known; otherwise a problem that names the closest one."""
    for name in unknown_names(located.expression, known):
        expected = (
            "one of " + ", ".join(sorted(known)) if known else "no names: its value is the same for all"
        )
        problems.add(located.place.problem(f"unknown name {name!r}", expected, did_you_mean(name, known)))


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A question that suggests the closest known name; empty where none is close."""
    guess = closest(name, known)
    return f"did you mean {guess!r}?" if guess else ""


def expect_keys(place: Place, found: Collection[str], expected: Collection[str], problems: Problems) -> None:
    """The keys are exactly those expected."""
    for name in found:
        if name not in expected:
            allowed = "one of " + ", ".join(expected) if expected else "no entries"
            problems.add((place / name).problem(f"{name!r}", allowed, did_you_mean(name, expected)))
    missing = [name for name in expected if name not in found]
    if missing:
        problems.add(
            place.problem("no entry for " + ", ".join(missing), "an entry for each of " + ", ".join(expected))
        )


def check_framework(
    framework: Framework, catalogue: Catalogue, problems: Problems, included: Collection[Row] = ()
) -> None:
    """Every row of a framework's file, and that no primitive is both mapped and declared as not mapped.

    Args:
        framework: the file.
        catalogue: the primitives.
        problems: where problems are added.
        included: the rows of the files that it includes.
    """
    root = Place(framework.document, ())
    for row in framework.rows:
        primitive = catalogue.primitives.get(row.node)
        if primitive is None:
            hint = did_you_mean(row.node, catalogue.primitives)
            problems.add(row.place.problem(f"node {row.node!r}", "a primitive of mappings/nir.yaml", hint))
        elif row.node not in catalogue.unreadable:
            check_row(row, primitive, framework, problems)
    for entry in framework.bypassed:
        check_import(entry.module, entry.place, framework, problems)
        _check_constraints(entry.reads_only_if, READ_NAMES, problems)
    for folded in framework.folded:
        check_import(folded.module, folded.place, framework, problems)
        _check_constraints(folded.reads_only_if, READ_NAMES, problems)
        for located in (folded.scale, folded.shift):
            check_names(located, READ_NAMES, problems)
    _check_time(framework, problems)
    _check_classes(framework, problems)
    # A node that is mapped with a reset by subtraction only, is not mapped as it is.
    mapped = {row.node for row in (*framework.rows, *included) if row.reset == "value"}
    for name in framework.not_mapped:
        place = root / "not_mapped" / name
        if name not in catalogue.primitives:
            hint = did_you_mean(name, catalogue.primitives)
            problems.add(place.problem(f"node {name!r}", "a primitive of mappings/nir.yaml", hint))
        elif name in mapped:
            problems.add(place.problem(f"{name!r} is also mapped under nodes", "one of the two"))


def _check_time(framework: Framework, problems: Problems) -> None:
    """A container that runs what it holds for each step has an axis of time, and no other one has."""
    if framework.sequences is not None:
        check_names(framework.sequences.that, {"module"}, problems)
    for container in framework.containers:
        check_import(container.module, container.place, framework, problems)
        if container.each_step is None and container.time_axis is not None:
            found = "a time_axis of a container whose forward is recorded"
            problems.add(container.place.problem(found, "each_step beside it", "add each_step, or remove it"))
        if container.each_step is not None and container.time_axis is None and framework.sequences is None:
            problems.add(container.place.problem("each_step without a time_axis", "the axis of time"))
    for entry in framework.bypassed:
        if entry.joins_time is not None and entry.splits_time is not None:
            problems.add(entry.place.problem("joins_time and splits_time", "one of the two"))


def check_import(module: str, place: Place, framework: Framework, problems: Problems) -> None:
    """A class lies in one of the packages that the file names."""
    if not any(module.startswith(package + ".") for package in framework.imports):
        allowed = ", ".join(framework.imports)
        problems.add(place.problem(f"class {module!r}", f"a class in one of package.imports: {allowed}"))


def _check_classes(framework: Framework, problems: Problems) -> None:
    """Each class can be told from the others by its name alone, and stands for a node in one row."""
    classes: dict[str, tuple[str, Place]] = {}
    rows: set[tuple[str, str, str]] = set()
    for path, place in class_paths(framework):
        name = path.rpartition(".")[2]
        first, _ = classes.setdefault(name, (path, place))
        if first != path:
            problems.add(place.problem(f"class {path!r} beside {first!r}", "classes with different names"))
        if name in RESERVED or keyword.iskeyword(name):
            problems.add(place.problem(f"class {path!r}", f"a class of another name: {name!r} is taken"))
    for row in framework.rows:
        if (row.node, row.module, row.reset) in rows:
            found = f"a second row of {row.node} with {row.module}"
            problems.add((row.place / "module").problem(found, "one row for a node and a class"))
        rows.add((row.node, row.module, row.reset))


def class_paths(framework: Framework) -> Iterator[tuple[str, Place]]:
    """Every class that a file names, and where."""
    for row in framework.all_rows:
        yield row.module, row.place / "module"
        if row.state is not None and row.state.record is not None:
            yield row.state.record, row.place / "state" / "record"
        for entry in row.build.values():
            if isinstance(entry, Record):
                yield entry.call, entry.place / "call"
        for entry in class_references(row).values():
            yield entry.path, entry.place / "class"
    for other in (*framework.without_node, *framework.containers):
        yield other.module, other.place


def _check_constraints(
    constraints: tuple[Constraint, ...], known: Collection[str], problems: Problems
) -> None:
    for constraint in constraints:
        check_names(constraint.that, known, problems)


def build_expressions(row: Row) -> Iterator[tuple[str, Located]]:
    """Every expression that sets an attribute of the module, with the attribute's dotted path."""
    for name, entry in row.build.items():
        if isinstance(entry, Record):
            for field, argument in entry.arguments.items():
                if isinstance(argument, Located):
                    yield f"{name}.{field}", argument
        elif isinstance(entry, Located):
            yield name, entry
    yield from row.assign.items()


def class_references(row: Row) -> dict[str, ClassReference]:
    """The arguments, and the fields of records, that are classes or functions, by their dotted paths."""
    found: dict[str, ClassReference] = {}
    for name, entry in row.build.items():
        fields: dict[str, object] = {name: entry}
        if isinstance(entry, Record):
            fields = {f"{name}.{field}": value for field, value in entry.arguments.items()}
        found |= {path: value for path, value in fields.items() if isinstance(value, ClassReference)}
    return found


def class_names(row: Row) -> dict[str, str]:
    """The arguments that are classes, or objects of a class other than a number's, with the name of the class."""
    names = {path: entry.name for path, entry in class_references(row).items()}
    records = {name: entry.call for name, entry in row.build.items() if isinstance(entry, Record)}
    return names | {name: path.rpartition(".")[2] for name, path in records.items()}


def module_paths(located: Located) -> set[str]:
    """The attributes of the module that an expression reads, as dotted paths without ``module``."""
    return {".".join(path[1:]) for path in located.expression.attributes if path[0] == "module"}


def check_row(row: Row, primitive: Primitive, framework: Framework, problems: Problems) -> None:
    """One row, or one graph, whose formulas name the parameters ``member.name`` by the member."""
    before = len(problems)
    if row.reset == "subtract" and not primitive.reset_by_subtraction:
        problems.add((row.place / "reset").problem("reset: subtract", f"no reset: {primitive.name} has none"))
    check_import(row.module, row.place / "module", framework, problems)
    parameters = primitive.declared
    node_names = {*(name.partition(".")[0] for name in parameters), "dt"}
    for _, located in build_expressions(row):
        check_names(located, node_names | BUILD_NAMES, problems)
    for entry in row.build.values():
        if isinstance(entry, Record):
            check_import(entry.call, entry.place, framework, problems)
    for entry in class_references(row).values():
        check_import(entry.path, entry.place, framework, problems)
    for located in row.read.values():
        check_names(located, READ_NAMES, problems)
    _check_constraints(row.requires, node_names, problems)
    _check_constraints(row.reads_only_if, READ_NAMES, problems)
    for located in row.holds.values():
        check_names(located, (), problems)
    expect_keys(row.place / "read", row.read, parameters, problems)
    _check_normal_form(row, primitive, node_names, problems)
    _check_state(row, primitive, framework, node_names, problems)
    # With an unknown name it is not known what is read.
    if len(problems) == before:
        if not row.not_read:
            _check_everything_is_read(row, problems)
        if not row.not_built:
            _check_everything_is_set(row, problems)


def _check_normal_form(row: Row, primitive: Primitive, known: Collection[str], problems: Problems) -> None:
    free: Mapping[str, float] = primitive.equivalence.free if primitive.equivalence else {}
    for name, located in row.normal_form.items():
        check_names(located, known, problems)
        if name not in free:
            expected = ", ".join(free) or f"no normal form: {primitive.name} has no equivalence"
            problems.add(located.place.problem(f"free variable {name!r}", expected))


def _check_state(
    row: Row, primitive: Primitive, framework: Framework, known: Collection[str], problems: Problems
) -> None:
    place = row.place / "state"
    if row.state is None:
        if primitive.state:
            problems.add(row.place.problem("no state", f"a state with {', '.join(primitive.state)}"))
        return
    _check_call(row, row.state, place, problems)
    expect_keys(
        place / "variables", [variable.name for variable in row.state.variables], primitive.state, problems
    )
    kept = [variable.kept_as for variable in row.state.variables]
    if row.state.output is not None and row.state.output not in kept:
        hint = did_you_mean(row.state.output, kept)
        problems.add((place / "output").problem(f"{row.state.output!r}", "one of " + ", ".join(kept), hint))
    for variable in row.state.variables:
        if variable.times is not None:
            check_names(variable.times, known, problems)
    if row.state.alone_if is not None:
        check_names(row.state.alone_if, {"module"}, problems)
    later = row.state.reset_in_next_step
    for located in () if later is None else (later.above, later.by):
        check_names(located, {"module"}, problems)
        if located.expression.functions:
            functions = ", ".join(sorted(located.expression.functions))
            problems.add(located.place.problem(functions, "arithmetic only: it is computed in every step"))
    if row.state.call == "record":
        if row.state.record is None:
            problems.add(place.problem("call: record without a record", "the record's class under 'record'"))
        else:
            check_import(row.state.record, place / "record", framework, problems)


def _check_call(row: Row, state: State, place: Place, problems: Problems) -> None:
    """The keys of a state fit its calling convention."""
    if (state.argument is None) is not (state.call == "attributes"):
        found = f"call: {state.call} " + ("without" if state.argument is None else "with") + " an argument"
        problems.add(
            place.problem(found, "the state argument of forward, or call: attributes, which has none")
        )
    if state.time_axis is not None and state.call != "attributes" and not row.not_built:
        found = f"call: {state.call} of a module that is built"
        problems.add((place / "time_axis").problem(found, "call: attributes"))
    if state.spread_by is not None and state.time_axis is None:
        problems.add((place / "spread_by").problem("no time_axis", "sequences of batches", "add time_axis"))
    for variable in state.variables:
        if variable.read_from not in (None, FORWARD) and state.time_axis is None:
            where = place / "variables" / variable.name / "from"
            problems.add(where.problem("no time_axis", "the axis of time in what is read", "add time_axis"))
        if variable.entries is not None and state.call != "attributes":
            where = place / "variables" / variable.name / "entries"
            problems.add(where.problem(f"call: {state.call}", "call: attributes, where a list can be kept"))
        known = variable.kept_as in state.returns or variable.read_from == FORWARD
        if state.call == "positional" and not known:
            found = f"{variable.kept_as!r} is not among what forward returns"
            problems.add((place / "returns").problem(found, "all variables"))


def _check_everything_is_read(row: Row, problems: Problems) -> None:
    """What a module is built with or holds is read back, pinned by a condition, or ignored for a stated reason."""
    seen: set[str] = set(row.ignores)
    for located in reading(row):
        seen |= module_paths(located)
    for name, entry in row.build.items():
        if isinstance(entry, ClassReference) and name not in seen:
            found = f"the module is built with the class {entry.name} as {name!r}, and nothing reads it"
            expected = f"name_of(module.{name}) == {entry.name!r} in reads_only_if, or a reason under ignores"
            problems.add(entry.place.problem(found, expected))
    for path, located in [*build_expressions(row), *row.holds.items()]:
        from_sizes = "size" in located.expression.functions
        if path not in seen and not from_sizes:
            what = "holds" if path in row.holds else "is built with"
            problems.add(
                located.place.problem(
                    f"the module {what} {path!r}, and nothing reads it",
                    f"module.{path} in read or reads_only_if, or a reason under ignores",
                    "otherwise a module with another value would be written as the same node",
                )
            )


def _check_everything_is_set(row: Row, problems: Problems) -> None:
    """What is read of a module is something that a built module is known to have."""
    known = {path for path, _ in build_expressions(row)} | set(row.holds) | set(class_names(row))
    for located in reading(row):
        for path in sorted(module_paths(located) - known):
            problems.add(
                located.place.problem(
                    f"module.{path}, which nothing sets",
                    "an attribute from build, assign or holds: "
                    + (", ".join(sorted(known)) or "there is none"),
                    did_you_mean(path, known) or f"declare under holds what a built module has as {path!r}",
                )
            )


def reading(row: Row) -> list[Located]:
    """Every expression that reads a module."""
    return [*row.read.values(), *(constraint.that for constraint in row.reads_only_if)]

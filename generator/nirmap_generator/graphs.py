"""Modules that are small graphs: their checks, and the graph as one primitive, so that rows and graphs share all else.

In the primitive of a graph, everything goes by ``member.name``: the parameters and state variables of its nodes, and
the free variables of their equivalences. A gain of a node's input is taken over by the nodes that lead to it: their
weights are multiplied by it. So a graph has a normal form too, in which only what comes from outside has to be scaled.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from nirmap_generator.check import (
    BUILD_NAMES,
    build_expressions,
    check_import,
    check_names,
    check_row,
    did_you_mean,
)
from nirmap_generator.expressions import Expression, parse
from nirmap_generator.model import (
    AffineMap,
    Catalogue,
    Equivalence,
    Framework,
    Located,
    Parameter,
    Primitive,
    Row,
    StateVariable,
    SubGraph,
)
from nirmap_generator.parsing import GRAPH
from nirmap_generator.problems import Problems

INPUT, OUTPUT = "input", "output"
# Names that mean something else in the formulas.
_TAKEN = frozenset({INPUT, OUTPUT, "module", "node", "rows", "catalogue", "torch", "np"}) | BUILD_NAMES
# The parameters that the output of a node is proportional to, all of them together.
PROPORTIONAL: Mapping[str, tuple[str, ...]] = {
    "Affine": ("weight", "bias"),
    "Linear": ("weight",),
    "Conv1d": ("weight", "bias"),
    "Conv2d": ("weight", "bias"),
    "Scale": ("scale",),
}


def primitive_of(row: Row, catalogue: Catalogue) -> Primitive:
    """The primitive that a row stands for; that of a graph has the parameters and variables of all its nodes."""
    if row.graph is None:
        return catalogue.primitives[row.node]
    parameters: dict[str, Parameter] = {}
    state: dict[str, StateVariable] = {}
    by_subtraction: dict[str, Located] = {}
    declared = {variable.name for variable in row.state.variables} if row.state is not None else set[str]()
    for member in row.graph.members:
        primitive = catalogue.primitives[member.node]
        for name in primitive.declared:
            known = primitive.parameters[name]
            domain = known.domain and replace(
                known.domain, expression=_within(member.name, known.domain.expression, {name})
            )
            parameters[f"{member.name}.{name}"] = replace(known, name=f"{member.name}.{name}", domain=domain)
        for name, variable in primitive.state.items():
            state[f"{member.name}.{name}"] = replace(variable, name=f"{member.name}.{name}")
        names = {*primitive.parameters, *primitive.state}
        for name, located in primitive.reset_by_subtraction.items():
            expression = _within(member.name, located.expression, names)
            by_subtraction[f"{member.name}.{name}"] = replace(located, expression=expression)
        kept = f"{member.name}.{OUTPUT}"
        if kept in declared:
            state[kept] = StateVariable(
                kept, "", "what the node gave in the step before", Located(parse("0"), row.place)
            )
    return Primitive(
        name=GRAPH,
        description="A small graph.",
        shape="elementwise",
        parameters=parameters,
        # Where no graph is built as the module, nobody asks where it keeps each variable.
        state={name: entry for name, entry in state.items() if not row.not_built or name in declared},
        dynamics={},
        spike=None,
        reset={},
        reset_by_subtraction=by_subtraction,
        output=None,
        equivalence=_equivalence(row.graph, row.normal_form, catalogue, row),
        place=row.place,
    )


def _equivalence(
    graph: SubGraph, normal_form: Mapping[str, Located], catalogue: Catalogue, row: Row
) -> Equivalence | None:
    """The equivalences of those nodes that are brought to a normal form, as one; the others are what they are."""
    if not normal_form:
        return None
    free: dict[str, float] = {}
    changed: dict[str, Located] = {}
    for member in graph.members:
        primitive = catalogue.primitives[member.node]
        if primitive.equivalence is None or not any(_member(name) == member.name for name in normal_form):
            continue
        scope = {*primitive.parameters, *primitive.equivalence.free}
        for name, value in primitive.equivalence.free.items():
            free[f"{member.name}.{name}"] = value
        for name, located in primitive.equivalence.parameters.items():
            expression = _within(member.name, located.expression, scope)
            changed[f"{member.name}.{name}"] = Located(expression, row.place)
    for name, member_name in gains(row, catalogue).items():
        changed[name] = Located(parse(f"{name} * {member_name}.gain"), row.place)
    one = Located(parse("1"), row.place)
    return Equivalence(free, {}, one, None, {}, AffineMap(), changed, row.place)


def gains(row: Row, catalogue: Catalogue) -> dict[str, str]:
    """The parameters that take over a gain, as ``member.parameter``, and the node whose gain it is."""
    if row.graph is None:
        return {}
    nodes = {member.name: member.node for member in row.graph.members}
    return {
        f"{source}.{name}": target
        for source, target in row.graph.edges
        if f"{target}.gain" in row.normal_form and source in nodes
        for name in PROPORTIONAL.get(nodes[source], ())
    }


def _within(member: str, expression: Expression, names: Collection[str]) -> Expression:
    """An expression with ``member.`` before some of its names."""

    class Prefix(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            """The name as an attribute of the member."""
            if node.id not in names:
                return node
            return ast.Attribute(ast.Name(member, ast.Load()), node.id, ast.Load())

    return parse(ast.unparse(Prefix().visit(copy.deepcopy(expression.tree))))


def _member(name: str) -> str:
    return name.partition(".")[0]


def check_graphs(framework: Framework, catalogue: Catalogue, problems: Problems) -> None:
    """Every graph of a framework's file: its nodes and edges, and all that is checked of a row."""
    for row in framework.graphs:
        before = len(problems)
        if row.graph is None:
            check_import(row.module, row.place / "module", framework, problems)
        elif _check_members(row.graph, catalogue, problems):
            _check_edges(row, row.graph, problems)
            if len(problems) == before:
                _check_normal_form(row, row.graph, problems)
            if len(problems) == before:
                check_row(row, primitive_of(row, catalogue), framework, problems)
            if len(problems) == before:
                _check_scope(row, primitive_of(row, catalogue), problems)


def _check_members(graph: SubGraph, catalogue: Catalogue, problems: Problems) -> bool:
    """Whether all nodes are primitives that are readable."""
    known = True
    for member in graph.members:
        if member.node not in catalogue.primitives:
            hint = did_you_mean(member.node, catalogue.primitives)
            found = f"node {member.node!r}"
            problems.add((member.place / "node").problem(found, "a primitive of mappings/nir.yaml", hint))
        if member.name in _TAKEN:
            problems.add(member.place.problem(f"the name {member.name!r}", "a name that means nothing else"))
        known &= member.node in catalogue.primitives and member.node not in catalogue.unreadable
    return known


def _check_edges(row: Row, graph: SubGraph, problems: Problems) -> None:
    """One way in, one way out, and every node on a way between them."""
    place = row.place / "edges"
    names = {member.name for member in graph.members}
    for index, (source, target) in enumerate(graph.edges):
        for name, known in ((source, names | {INPUT}), (target, names | {OUTPUT})):
            if name not in known:
                expected = "one of " + ", ".join(sorted(known))
                problems.add((place / index).problem(f"{name!r}", expected, did_you_mean(name, known)))
        if (source, target) in graph.edges[:index]:
            problems.add((place / index).problem("the same edge again", "each edge once"))
    for name in [INPUT, *names]:
        if not any(source == name for source, _ in graph.edges):
            problems.add(place.problem(f"no edge from {name}", "an edge from every node"))
    for name in [OUTPUT, *names]:
        if not any(target == name for _, target in graph.edges):
            problems.add(place.problem(f"no edge to {name}", "an edge to every node"))
    if sum(target == OUTPUT for _, target in graph.edges) > 1:
        problems.add(place.problem("several edges to output", "one, from the node whose output it is"))


def _check_normal_form(row: Row, graph: SubGraph, problems: Problems) -> None:
    """What a node's normal form changes of its input, the nodes before it, or the input, can take over."""
    nodes = {member.name: member.node for member in graph.members}
    for name, located in row.normal_form.items():
        target, _, free = name.partition(".")
        before = [source for source, end in graph.edges if end == target]
        if free in ("scale", "output_scale"):
            problems.add(located.place.problem(free, "a normal form that leaves the unit of the output"))
        if free == "offset" and INPUT not in before:
            problems.add(located.place.problem("an offset", "one for a node that has an edge from input"))
        for source in before if free in ("gain", "offset") else ():
            alone = all(end == target for start, end in graph.edges if start == source)
            if not alone or (source != INPUT and nodes[source] not in PROPORTIONAL):
                found = f"a {free} of {target!r}, to which {source!r} leads"
                expected = "nodes before it that lead nowhere else, and whose weights can take it over"
                problems.add(located.place.problem(found, expected, "one of " + ", ".join(PROPORTIONAL)))


def _check_scope(row: Row, primitive: Primitive, problems: Problems) -> None:
    """Formulas of the graph's nodes speak of parameters that these have."""
    members: dict[str, list[str]] = {}
    for name in primitive.parameters:
        members.setdefault(_member(name), []).append(name.partition(".")[2])
    for located in _formulas(row):
        check_members(located, members, problems, BUILD_NAMES)


def _formulas(row: Row) -> Iterator[Located]:
    """Every formula on the parameters of the graph's nodes."""
    yield from (located for _, located in build_expressions(row))
    yield from row.normal_form.values()
    yield from (constraint.that for constraint in row.requires)
    for variable in row.state.variables if row.state is not None else ():
        if variable.times is not None:
            yield variable.times


def check_members(
    located: Located,
    members: Mapping[str, Collection[str]],
    problems: Problems,
    others: Collection[str] = ("dt",),
) -> None:
    """An expression speaks of ``member.name`` only, and of a few plain names."""
    check_names(located, {*members, *others}, problems)
    dotted = {path[0] for path in located.expression.attributes}
    for name in sorted(located.expression.names & set(members) - dotted):
        expected = ", ".join(f"{name}.{entry}" for entry in members[name])
        problems.add(located.place.problem(name, expected))
    for path in sorted(located.expression.attributes):
        if path[0] in members and (len(path) != 2 or path[1] not in members[path[0]]):
            expected = ", ".join(f"{path[0]}.{name}" for name in members[path[0]])
            problems.add(located.place.problem(".".join(path), expected))

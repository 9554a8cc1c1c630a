"""Rewrites: a node as several others in a row; their data, their parsing and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nirmap_generator.check import check_names, did_you_mean, expect_keys
from nirmap_generator.graphs import check_members
from nirmap_generator.load import Document
from nirmap_generator.model import Catalogue, Constraint, Located, Place
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problems


@dataclass(frozen=True)
class Part:
    """One node of the series."""

    name: str
    node: str
    parameters: Mapping[str, Located]
    place: Place


@dataclass(frozen=True)
class Rewrite:
    """A node, and the series that does what it does.

    ``state`` names the part and its variable for each state variable of the node.
    """

    name: str
    node: str
    description: str
    requires: tuple[Constraint, ...]
    series: tuple[Part, ...]
    state: Mapping[str, tuple[str, str]]
    read: Mapping[str, Located]
    place: Place


def parse_rewrites(document: Document, parser: Parser) -> tuple[Rewrite, ...]:
    """Every rewrite of a document whose expressions are in the language."""
    found: list[Rewrite] = []
    for name, data in document.data["rewrites"].items():
        before, place = len(parser.problems), Place(document, ("rewrites", name))
        series = tuple(
            Part(
                entry["name"],
                entry["node"],
                parser.table(entry, "parameters", place / "series" / index),
                place / "series" / index,
            )
            for index, entry in enumerate(data["series"])
        )
        state: dict[str, tuple[str, str]] = {}
        for variable, text in data.get("state", {}).items():
            part, _, inner = text.partition(".")
            state[variable] = (part, inner)
        requires = parser.constraints(data, "requires", place)
        read = parser.table(data, "read", place)
        # One that is not whole would be reported again for what it lacks.
        if len(parser.problems) == before:
            found.append(
                Rewrite(name, data["node"], data["description"], requires, series, state, read, place)
            )
    return tuple(found)


def check_rewrites(rewrites: tuple[Rewrite, ...], catalogue: Catalogue, problems: Problems) -> None:
    """Names, and that every parameter and every state variable has its place."""
    for rewrite in rewrites:
        named = [(rewrite.node, rewrite.place), *((part.node, part.place) for part in rewrite.series)]
        unknown = [node for node, place in named if not _is_known(node, place, catalogue, problems)]
        if not unknown:
            _check_rewrite(rewrite, catalogue, problems)


def _is_known(node: str, place: Place, catalogue: Catalogue, problems: Problems) -> bool:
    if node not in catalogue.primitives:
        hint = did_you_mean(node, catalogue.primitives)
        problems.add((place / "node").problem(f"node {node!r}", "a primitive of mappings/nir.yaml", hint))
    return node in catalogue.primitives and node not in catalogue.unreadable


def _check_rewrite(rewrite: Rewrite, catalogue: Catalogue, problems: Problems) -> None:
    primitive, place = catalogue.primitives[rewrite.node], rewrite.place
    scope = {*primitive.declared, "dt"}
    for constraint in rewrite.requires:
        check_names(constraint.that, scope, problems)
    for part in rewrite.series:
        expect_keys(
            part.place / "parameters", part.parameters, catalogue.primitives[part.node].declared, problems
        )
        for located in part.parameters.values():
            check_names(located, scope, problems)
    names = [part.name for part in rewrite.series]
    if len(set(names)) < len(names):
        problems.add((place / "series").problem("two parts of one name", "a name of its own for each part"))
    expect_keys(place / "read", rewrite.read, primitive.declared, problems)
    parameters = {part.name: catalogue.primitives[part.node].declared for part in rewrite.series}
    for located in rewrite.read.values():
        check_members(located, parameters, problems)
    expect_keys(place / "state", rewrite.state, primitive.state, problems)
    variables = {
        (part.name, name) for part in rewrite.series for name in catalogue.primitives[part.node].state
    }
    for variable, entry in rewrite.state.items():
        if entry not in variables:
            expected = (
                ", ".join(sorted(".".join(known) for known in variables)) or "no state: no part keeps any"
            )
            problems.add((place / "state" / variable).problem(".".join(entry), expected))

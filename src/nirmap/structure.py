"""The structure of a NIR graph: is it one that can be converted, and which node follows on which.

Nothing here looks at parameters or shapes, nothing is inferred, and the graph is not changed. Cost grows linearly with
the graph, but for sorting.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import nir

from nirmap.errors import GraphError

# Deepest nesting of sub-graphs: the outermost graph may hold 64 levels of them.
MAX_DEPTH = 64

# How much of an untrusted graph a message shows, and how many names are compared with a misspelt one.
_SHOWN_CHARACTERS = 80
_SHOWN_NAMES = 8
_COMPARED_NAMES = 200


def inputs(graph: nir.NIRGraph) -> list[str]:
    """The names of the Input nodes, sorted."""
    return sorted(name for name, node in graph.nodes.items() if isinstance(node, nir.Input))


def outputs(graph: nir.NIRGraph) -> list[str]:
    """The names of the Output nodes, sorted."""
    return sorted(name for name, node in graph.nodes.items() if isinstance(node, nir.Output))


def predecessors(graph: nir.NIRGraph) -> dict[str, list[str]]:
    """For every node, in name order, the sorted names of the nodes with an edge to it.

    Raises:
        KeyError: an edge names no node; :func:`check_structure` finds that out.
    """
    return _neighbours(graph, ((target, source) for source, target in graph.edges))


def successors(graph: nir.NIRGraph) -> dict[str, list[str]]:
    """For every node, in name order, the sorted names of the nodes that it has an edge to.

    Raises:
        KeyError: an edge names no node; :func:`check_structure` finds that out.
    """
    return _neighbours(graph, ((source, target) for source, target in graph.edges))


def _neighbours(graph: nir.NIRGraph, pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    table: dict[str, set[str]] = {name: set() for name in sorted(graph.nodes)}
    for name, neighbour in pairs:
        table[name].add(neighbour)
    return {name: sorted(neighbours) for name, neighbours in table.items()}


def check_structure(graph: nir.NIRGraph, path: str = "") -> None:
    """Checks a graph and all graphs in it; a graph object that occurs several times is looked at once.

    A node whose output goes nowhere is allowed.

    Args:
        graph: the graph.
        path: the place of the graph, for the errors: ``node 'encoder'``; empty for the outermost one.

    Raises:
        GraphError: an edge from or to a node that is not there, or two edges between the same nodes; an Input with a
            predecessor, an Output with a successor or without a predecessor; no Input or no Output; a node that no
            Input reaches; a sub-graph with other than one Input and one Output, in itself, or nested deeper than 64
            levels; a name that is not text; what is not a NIR graph or node at all.
    """
    heights: dict[int, int] = {}
    visits = [_visit(graph, path, is_nested=False)]
    while visits:
        visit = visits[-1]
        name = next(visit.remaining, None)
        if name is None:
            visits.pop()
            heights[id(visit.graph)] = visit.height
            if visits:
                visits[-1].height = max(visits[-1].height, visit.height + 1)
            continue
        inner = cast("nir.NIRGraph", visit.graph.nodes[name])
        where = join(visit.path, node_place(name))
        if any(inner is other.graph for other in visits):
            raise GraphError(
                where, "the graph contains itself", "sub-graphs that end", "make a copy of the inner one"
            )
        if len(visits) + heights.get(id(inner), 0) > MAX_DEPTH:
            raise GraphError(
                where,
                f"sub-graphs nested deeper than {MAX_DEPTH} levels",
                f"at most {MAX_DEPTH}",
                "move the innermost graphs outwards",
            )
        if id(inner) in heights:
            visit.height = max(visit.height, heights[id(inner)] + 1)
        else:
            visits.append(_visit(inner, where, is_nested=True))


@dataclass
class _Visit:
    """A graph whose sub-graphs are being looked at.

    Attributes:
        graph: the graph.
        path: its place.
        remaining: names of the sub-graphs still to come.
        height: levels of graphs below this one, as far as they are known.
    """

    graph: nir.NIRGraph
    path: str
    remaining: Iterator[str]
    height: int = 0


def _visit(graph: nir.NIRGraph, path: str, is_nested: bool) -> _Visit:
    """Checks one graph, without those in it, and lists these."""
    _check_types(graph, path)
    if is_nested:
        _check_ports(graph, path)
    _check_edges(graph, path)
    before, after = predecessors(graph), successors(graph)
    _check_ends(graph, path, before, after)
    _check_reached(graph, path, before, after)
    nested = sorted(name for name, node in graph.nodes.items() if isinstance(node, nir.NIRGraph))
    return _Visit(graph, path, iter(nested))


def _check_types(graph: object, path: str) -> None:
    where = path or "graph"
    if not isinstance(graph, nir.NIRGraph):
        raise GraphError(
            where,
            f"a {type(graph).__name__}",
            "a nir.NIRGraph",
            "put the node into a graph with an Input and an Output",
        )
    nodes = cast("object", graph.nodes)
    if not isinstance(nodes, dict):
        raise GraphError(
            where,
            f"its nodes are a {type(nodes).__name__}",
            "a dictionary of nodes by name",
            "give each node a name",
        )
    for name, node in cast("dict[object, object]", nodes).items():
        if not isinstance(name, str):
            raise GraphError(
                where, f"a node has the name {_shown(name)}, a {type(name).__name__}", "text", "rename it"
            )
        if not isinstance(node, nir.NIRNode):
            raise GraphError(
                join(path, node_place(name)),
                f"a {type(node).__name__}",
                "a NIR node",
                "replace it with a nir.NIRNode",
            )


def _check_edges(graph: nir.NIRGraph, path: str) -> None:
    """Every edge is a pair of names of nodes, and is there once."""
    seen: set[tuple[str, str]] = set()
    for entry in _edges(graph, path):
        source, target = entry
        where = join(path, f"edge {_shown(source)} -> {_shown(target)}")
        for end, name in (("starts", source), ("ends", target)):
            if name not in graph.nodes:
                raise GraphError(
                    where,
                    f"it {end} at {_shown(name)}, which is not a node of the graph",
                    "a node that is there" + _suggestion(name, graph.nodes),
                    "correct the edge or add the node",
                )
        if entry in seen:
            raise GraphError(
                where,
                "it is there twice",
                "one edge between two nodes",
                "remove one; to add a signal twice, put a Scale by 2 on the way",
            )
        seen.add(entry)


def _edges(graph: nir.NIRGraph, path: str) -> Iterator[tuple[str, str]]:
    """The edges, each of them known to be a pair of texts."""
    entries = cast("object", graph.edges)
    if not isinstance(entries, Iterable):
        found = f"its edges are a {type(entries).__name__}"
        raise GraphError(
            path or "graph", found, "a list of pairs (source, target)", "give an empty list for no edges"
        )
    for entry in cast("Iterable[object]", entries):
        pair = cast("list[object]", entry) if isinstance(entry, tuple | list) else [entry]
        if len(pair) != 2:
            raise GraphError(
                path or "graph",
                f"an edge {_shown(pair)}",
                "a pair (source, target) of node names",
                "correct the edge",
            )
        source, target = pair
        if not isinstance(source, str) or not isinstance(target, str):
            raise GraphError(
                path or "graph",
                f"an edge {_shown(source)} -> {_shown(target)}",
                "names of nodes, which are text",
                "decode or correct the names",
            )
        yield source, target


def _suggestion(name: str, nodes: Iterable[str]) -> str:
    """The names most like one that is not there; of very many, only the neighbours in sorted order are compared."""
    ordered = sorted(nodes)
    middle = bisect.bisect(ordered, name)
    start = max(0, min(middle - _COMPARED_NAMES // 2, len(ordered) - _COMPARED_NAMES))
    short = {other[:_SHOWN_CHARACTERS]: other for other in ordered[start : start + _COMPARED_NAMES]}
    close = [
        short[found] for found in difflib.get_close_matches(name[:_SHOWN_CHARACTERS], list(short), cutoff=0.5)
    ]
    if close:
        return f", such as {_listed(close)}"
    return f", of {_listed(ordered)}" if ordered else ""


def _check_ends(
    graph: nir.NIRGraph, path: str, before: Mapping[str, list[str]], after: Mapping[str, list[str]]
) -> None:
    """Inputs and Outputs are there and are ends."""
    starts, ends = inputs(graph), outputs(graph)
    for kind, names in (("Input", starts), ("Output", ends)):
        if not names:
            raise GraphError(
                path or "graph", f"it has no {kind}", f"at least one nir.{kind} node", "add one, with an edge"
            )
    for name in starts:
        if before[name]:
            found = f"an Input with an edge from {_listed(before[name])}"
            raise GraphError(
                join(path, node_place(name)),
                found,
                "an Input without edges to it",
                "lead the edge to its users",
            )
    for name in ends:
        where = join(path, node_place(name))
        if after[name]:
            found = f"an Output with an edge to {_listed(after[name])}"
            raise GraphError(
                where, found, "an Output without edges from it", "let the edge start at the Output's source"
            )
        if not before[name]:
            raise GraphError(
                where, "an Output without an edge to it", "a node that leads to it", "add the edge"
            )


def _check_reached(
    graph: nir.NIRGraph, path: str, before: Mapping[str, list[str]], after: Mapping[str, list[str]]
) -> None:
    """Every node has a way to it from an Input."""
    reached = set(inputs(graph))
    pending = list(reached)
    while pending:
        for name in after[pending.pop()]:
            if name not in reached:
                reached.add(name)
                pending.append(name)
    unreached = [name for name in before if name not in reached]
    if not unreached:
        return
    # Whatever leads to a node that is not reached is not reached itself: upstream is a node without edges, or a cycle.
    trail: dict[str, int] = {}
    name = next((name for name in unreached if not before[name]), unreached[0])
    while before[name] and name not in trail:
        trail[name] = len(trail)
        name = before[name][0]
    if before[name]:
        cycle = list(trail)[trail[name] :][::-1]
        first = cycle.index(min(cycle))
        cycle = cycle[first:] + cycle[:first]
        where, found = join(path, f"nodes {_listed(cycle)}"), "a cycle that no Input reaches"
    else:
        where, found = join(path, node_place(name)), "no Input reaches it, since no edge leads to it"
    raise GraphError(
        where, found, "a way from an Input to every node", "add the edge that is missing, or remove the node"
    )


def _check_ports(graph: nir.NIRGraph, where: str) -> None:
    """A sub-graph has one Input and one Output, since an edge cannot say which of several it means."""
    counts = len(inputs(graph)), len(outputs(graph))
    if counts != (1, 1):
        raise GraphError(
            where,
            f"a sub-graph with {counts[0]} Inputs and {counts[1]} Outputs",
            "one Input and one Output: an edge names a node, and not which of its ports it means",
            "join or split the signals inside the sub-graph, or put its nodes into the outer graph",
        )


def join(path: str, place: str) -> str:
    """A place inside another one."""
    return f"{path} / {place}" if path else place


def node_place(name: str) -> str:
    """How an error names a node; a long name is shortened."""
    return f"node {_shown(name)}"


def _shown(value: object) -> str:
    """A name, short enough for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 4]}...{text[-1]}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(_shown(name) for name in names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {len(names) - _SHOWN_NAMES} more"

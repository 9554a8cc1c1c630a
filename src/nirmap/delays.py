"""Which edges carry the value of the previous step, and in which order the nodes of one step are computed.

A feedback needs a delay somewhere in its cycle. Where, is decided by one rule that needs neither numbers nor the order
in which a file lists its nodes and edges:

1. Walk depth-first from the Input nodes in name order, to the successors of a node in name order too. An edge to a node
   on the current path is a back edge. Every cycle has one.
2. A back edge from a stateful node is delayed. From a stateless node the delay moves upstream, through stateless nodes
   of the same strongly connected component, to the edges that leave the nearest stateful nodes. So it is the spikes
   that are a step old, and not what a layer makes of them, as in the recurrent cells of the frameworks.
3. What is still a cycle then has stateless nodes only. Its back edges are delayed themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import nir

from nirmap.errors import GraphError
from nirmap.structure import inputs, predecessors, successors

Edge = tuple[str, str]


@dataclass(frozen=True)
class Delays:
    """The delayed edges of one graph; those inside its sub-graphs are not among them.

    Attributes:
        edges: all edges that carry the value of the previous step.
        order: all nodes, each behind those that it has an undelayed edge from; among the possible ones always the first
            in name order.
        stateless_cycles: those of ``edges`` that lead back in a cycle without a stateful node, sorted.
    """

    edges: frozenset[Edge]
    order: tuple[str, ...]
    stateless_cycles: tuple[Edge, ...]


def delayed_edges(graph: nir.NIRGraph, is_stateful: Callable[[str], bool]) -> Delays:
    """The edges of a graph that carry the value of the previous step. Cost grows linearly, but for sorting.

    Args:
        graph: a graph that :func:`nirmap.structure.check_structure` accepts. It is not changed.
        is_stateful: whether the node of that name has state; a sub-graph has if anything in it has.

    Raises:
        GraphError: no Input reaches a cycle, so that the rule says nothing about it.
    """
    after = successors(graph)
    back = _back_edges(inputs(graph), after)
    delayed: set[Edge] = set()
    unmoved: list[Edge] = []
    if back:
        stateful = {name for name in after if is_stateful(name)}
        delayed.update(edge for edge in back if edge[0] in stateful)
        # A back edge in a cycle of stateless nodes keeps its delay: moved upstream, that cycle would have none.
        stateless = _components([name for name in after if name not in stateful], after)
        waiting = [edge for edge in back if edge[0] not in stateful]
        unmoved = sorted(edge for edge in waiting if stateless[edge[0]] == stateless.get(edge[1]))
        delayed.update(unmoved)
        moving = dict.fromkeys(
            source for source, target in waiting if stateless[source] != stateless.get(target)
        )
        delayed |= _moved_upstream(moving, predecessors(graph), _components(after, after), stateful)
    return Delays(frozenset(delayed), _order(after, delayed), tuple(unmoved))


def _back_edges(roots: Iterable[str], after: Mapping[str, list[str]]) -> list[Edge]:
    """The edges to a node on the current path of a depth-first walk, in the order in which it meets them."""
    found: list[Edge] = []
    visited: set[str] = set()
    on_path: set[str] = set()
    for root in roots:
        visited.add(root)
        on_path.add(root)
        path: list[tuple[str, Iterator[str]]] = [(root, iter(after[root]))]
        while path:
            name, remaining = path[-1]
            following = next(remaining, None)
            if following is None:
                path.pop()
                on_path.discard(name)
            elif following in on_path:
                found.append((name, following))
            elif following not in visited:
                visited.add(following)
                on_path.add(following)
                path.append((following, iter(after[following])))
    return found


def _components(names: Collection[str], after: Mapping[str, list[str]]) -> dict[str, int]:
    """The number of the strongly connected component of each of these nodes, in the graph of these nodes alone."""
    import networkx

    among = set(names)
    graph = _digraph(
        names, ((name, following) for name in names for following in after[name] if following in among)
    )
    components: Iterable[set[str]] = networkx.strongly_connected_components(graph)
    return {name: number for number, component in enumerate(components) for name in component}


def _moved_upstream(
    sources: Iterable[str],
    before: Mapping[str, list[str]],
    component: Mapping[str, int],
    stateful: Collection[str],
) -> set[Edge]:
    """The edges from the nearest stateful nodes upstream of stateless ones, in the same component."""
    pending = list(dict.fromkeys(sources))
    met = set(pending)
    moved: set[Edge] = set()
    while pending:
        name = pending.pop()
        for previous in before[name]:
            if component[previous] != component[name]:
                continue
            if previous in stateful:
                moved.add((previous, name))
            elif previous not in met:
                met.add(previous)
                pending.append(previous)
    return moved


def _order(after: Mapping[str, list[str]], delayed: Collection[Edge]) -> tuple[str, ...]:
    """All nodes in topological order, with the delayed edges taken out."""
    import networkx

    edges = ((name, following) for name, ends in after.items() for following in ends)
    graph = _digraph(after, (edge for edge in edges if edge not in delayed))
    try:
        return tuple(networkx.lexicographical_topological_sort(graph))
    except networkx.NetworkXUnfeasible as error:
        components: Iterable[set[str]] = networkx.strongly_connected_components(graph)
        cycle = min(
            sorted(names)
            for names in components
            if len(names) > 1 or any(name in graph[name] for name in names)
        )
        raise GraphError(
            f"nodes {', '.join(map(repr, cycle[:8]))}",
            "a cycle that no Input reaches",
            "a way from an Input to every node",
            "add the edge that is missing, or remove the nodes",
        ) from error


def _digraph(names: Iterable[str], edges: Iterable[Edge]) -> Any:
    import networkx

    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(edges)
    return graph

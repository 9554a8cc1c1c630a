"""Which edges of a NIR graph carry the value of the previous step, by one rule that needs no numbers.

Walk depth-first from the Input nodes in name order, successors in name order too. An edge that leads to a node on the
current path is a back edge. A back edge whose source is stateful is delayed itself; otherwise its delay moves upstream,
through stateless nodes of the same strongly connected component, to the edges that leave the nearest stateful nodes.
Where the target of the back edge can be reached again without meeting a stateful node, moving would leave that
cycle without any delay: there the back edge itself is delayed.
"""

from __future__ import annotations

from collections.abc import Iterator

import nir

Edge = tuple[str, str]

_STATEFUL = (nir.I, nir.IF, nir.LI, nir.LIF, nir.CubaLI, nir.CubaLIF, nir.Delay)


def is_stateful(node: nir.NIRNode) -> bool:
    """Whether the node has state variables; a nested graph has some if any node at any depth in it does."""
    pending = [node]
    while pending:
        candidate = pending.pop()
        if isinstance(candidate, _STATEFUL):
            return True
        if isinstance(candidate, nir.NIRGraph):
            pending.extend(candidate.nodes.values())
    return False


def delayed_edges(graph: nir.NIRGraph) -> frozenset[Edge]:
    """The edges of this graph that carry the value of the previous step; those inside nested graphs not included."""
    edges = {(source, target) for source, target in graph.edges}
    successors = {name: sorted(target for source, target in edges if source == name) for name in graph.nodes}
    predecessors = {
        name: sorted(source for source, target in edges if target == name) for name in graph.nodes
    }
    stateful = {name for name, node in graph.nodes.items() if is_stateful(node)}
    delayed: set[Edge] = set()
    for source, target in _back_edges(graph, successors):
        component = _reachable(source, successors) & _reachable(source, predecessors)
        delayed |= _moved_upstream((source, target), predecessors, component, stateful)
    return frozenset(delayed)


def _back_edges(graph: nir.NIRGraph, successors: dict[str, list[str]]) -> list[Edge]:
    """The edges to a node on the current path of the depth-first walk."""
    roots = sorted(name for name, node in graph.nodes.items() if isinstance(node, nir.Input))
    visited: set[str] = set()
    found: list[Edge] = []
    for root in roots:
        visited.add(root)
        on_path = {root}
        stack: list[tuple[str, Iterator[str]]] = [(root, iter(successors[root]))]
        while stack:
            name, remaining = stack[-1]
            successor = next(remaining, None)
            if successor is None:
                stack.pop()
                on_path.discard(name)
            elif successor in on_path:
                found.append((name, successor))
            elif successor not in visited:
                visited.add(successor)
                on_path.add(successor)
                stack.append((successor, iter(successors[successor])))
    return found


def _reachable(start: str, neighbours: dict[str, list[str]]) -> set[str]:
    """``start`` and every node that a path from it reaches."""
    reached = {start}
    pending = [start]
    while pending:
        for neighbour in neighbours[pending.pop()]:
            if neighbour not in reached:
                reached.add(neighbour)
                pending.append(neighbour)
    return reached


def _moved_upstream(
    edge: Edge, predecessors: dict[str, list[str]], component: set[str], stateful: set[str]
) -> set[Edge]:
    """The edges that take over the delay of one back edge."""
    source, target = edge
    if source in stateful:
        return {edge}
    stateless = {source}
    pending = [source]
    moved: set[Edge] = set()
    while pending:
        name = pending.pop()
        for predecessor in predecessors[name]:
            if predecessor not in component:
                continue
            if predecessor in stateful:
                moved.add((predecessor, name))
            elif predecessor not in stateless:
                stateless.add(predecessor)
                pending.append(predecessor)
    return {edge} if target in stateless else moved

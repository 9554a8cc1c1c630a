"""Edges of a written graph that are a step late in the model: a reader of the graph has to delay the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import nir

from nirmap.delays import Edge, delayed_edges
from nirmap.errors import TraceError


def check_delays(
    graph: nir.NIRGraph,
    edges: Mapping[Edge, bool],
    is_stateful: Callable[[str], bool],
    is_relay: Callable[[str], bool],
) -> None:
    """Holds the delays of a model against those that a reader of its graph will find.

    Args:
        graph: the graph.
        edges: its edges, and whether each carries the value of the step before.
        is_stateful: whether a node keeps state.
        is_relay: whether a node has no state and makes zeros of zeros: a delay may stand behind it or before it.

    Raises:
        TraceError: an edge is late in one of them alone.
    """
    read = set(delayed_edges(graph, is_stateful).edges)
    wanted = {edge for edge, delayed in edges.items() if delayed}
    if wanted != read:
        _move_upstream(wanted, read, edges, is_relay)
    for source, target in sorted(wanted ^ read):
        kind = "is" if (source, target) in wanted else "is not"
        raise TraceError(
            f"edge {source!r} -> {target!r}",
            f"it {kind} one step late in the module, unlike in the graph",
            "a feedback of exactly one step, from a stateful module, in every cycle",
            "feed back the output of the neuron itself, and apply the layer in the next step",
        )


def _move_upstream(
    wanted: set[Edge], read: set[Edge], edges: Collection[Edge], is_relay: Callable[[str], bool]
) -> None:
    """Takes a delay behind a relay for one before it, where a reader will have that."""
    incoming: dict[str, list[Edge]] = {}
    outgoing: dict[str, list[Edge]] = {}
    for edge in edges:
        outgoing.setdefault(edge[0], []).append(edge)
        incoming.setdefault(edge[1], []).append(edge)
    pending = sorted({source for source, _ in wanted - read})
    while pending:
        name = pending.pop()
        if not is_relay(name):
            continue
        if wanted.issuperset(outgoing[name]) and wanted.isdisjoint(incoming[name]):
            wanted.difference_update(outgoing[name])
            wanted.update(incoming[name])
            pending += [source for source, _ in incoming[name]]

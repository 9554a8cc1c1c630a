"""The NIR graph of a module that is a small graph."""

from __future__ import annotations

from collections.abc import Mapping

from nirmap.assembling import GraphUnderConstruction
from nirmap.declared_graphs import INPUT, OUTPUT, delayed_in
from nirmap.resets import Reset, metadata_of
from nirmap.signals import Signal
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import SubGraph, Values, parameters_of


def written(
    graph: SubGraph,
    values: Values,
    where: str,
    names: Mapping[str, str] | None = None,
    reset: Reset = "value",
) -> GraphUnderConstruction:
    """The NIR graph of a module that is one.

    Args:
        graph: the declared graph.
        values: the parameters of its nodes, as ``node.parameter``.
        where: the module, for errors.
        names: what the nodes, and ``input`` and ``output``, are called; None for their declared names.
        reset: what a spike does in the nodes that it resets; their metadata say so.
    """
    called = names or {name: name for name in (INPUT, OUTPUT, *(name for name, _ in graph.nodes))}
    late = delayed_in(graph)
    inner = GraphUnderConstruction(shapes_are_exact=names is not None)
    inner.add_input(called[INPUT])

    def signal(target: str) -> Signal:
        total = Signal({})
        for source, end in graph.edges:
            if end == target:
                total = total.plus(Signal.of(called[source], delayed=(source, target) in late))
        return total

    for name, node in graph.nodes:
        primitive, place = PRIMITIVES[node], f"{where} ({name})"
        metadata = metadata_of(reset if primitive.subtracts else "value")
        inner.add_node(called[name], primitive, parameters_of(values, name), signal(name), place, metadata)
    inner.add_output(called[OUTPUT], signal(OUTPUT))
    inner.connect({})
    return inner

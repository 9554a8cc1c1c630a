"""Whether nir can read a graph back from a file with its type check on.

nir infers the types of convolutions and pools anew when it reads a file. Where it is wrong there (kernels that are not
square, layers right behind a sub-graph), a correct file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import nir
import numpy as np

from nirmap.structures import is_sequence

INFERRED = (nir.Conv1d, nir.Conv2d, nir.SumPool2d, nir.AvgPool2d, nir.Flatten)
"""The nodes whose types nir infers; those of all others follow from their parameters."""


def unreadable(graph: nir.NIRGraph) -> str | None:
    """Why nir cannot read a finished graph back with its type check on, or None if it can.

    Args:
        graph: a graph with every node's type. It is not changed.
    """
    if not any(isinstance(node, INFERRED) for node in _nodes(graph)):
        return None
    advice = (
        "; the graph is right, and so is what nir.read(path, type_check=False) and nirmap read from its file"
    )
    try:
        again = _read_anew(graph)
    except (ValueError, KeyError, IndexError, TypeError, AssertionError) as error:
        return f"nir refuses this graph when it reads it from a file ({error}){advice}"
    name = next(
        (name for name, node in graph.nodes.items() if _types(node) != _types(again.nodes[name])), None
    )
    if name is None:
        return None
    found, expected = _types(again.nodes[name]), _types(graph.nodes[name])
    return (
        f"nir takes node {name!r} to be {found}, not {expected}, when it reads this graph from a file{advice}"
    )


def _types(node: nir.NIRNode) -> str:
    """The shapes of what goes in and out."""
    if isinstance(node, nir.NIRGraph):
        return " ".join(f"{name}: {_types(inner)}" for name, inner in sorted(node.nodes.items()))
    before, after = (
        [list(map(int, value)) for value in kind.values()] for kind in (node.input_type, node.output_type)
    )
    return f"{before} -> {after}"


def _nodes(graph: nir.NIRGraph) -> Iterator[nir.NIRNode]:
    for node in graph.nodes.values():
        if isinstance(node, nir.NIRGraph):
            yield from _nodes(node)
        else:
            yield node


def _read_anew(graph: nir.NIRGraph) -> nir.NIRGraph:
    """The graph as nir makes it from a file: nodes without the types that they have here. Arrays are not copied."""
    nodes: dict[str, nir.NIRNode] = {}
    for name, node in graph.nodes.items():
        if isinstance(node, nir.NIRGraph):
            nodes[name] = _read_anew(node)
        elif isinstance(node, INFERRED):
            fields: dict[str, Any] = {
                key: np.array(value) if is_sequence(value) else value
                for key, value in vars(node).items()
                if key not in ("input_type", "output_type")
            }
            if isinstance(node, nir.Flatten):
                fields["input_type"] = dict(node.input_type)
            kind: Any = type(node)
            nodes[name] = kind(**fields)
        else:
            nodes[name] = node
    return _Read(nodes, list(graph.edges), metadata={}, type_check=True)


class _Read(nir.NIRGraph):
    """nir's graph, which looks for its Inputs once: nir asks for them at each edge, and goes through all nodes."""

    @property
    def inputs(self) -> dict[str, nir.Input]:
        """The Input nodes by name."""
        return self._inputs

    @cached_property
    def _inputs(self) -> dict[str, nir.Input]:
        return {name: node for name, node in self.nodes.items() if isinstance(node, nir.Input)}

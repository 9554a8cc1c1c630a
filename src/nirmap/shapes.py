"""The shapes of what goes into and comes out of every node, without batch.

A shape is stated by an Input or an Output, by the parameters of a neuron, by a weight. From there it goes along the
edges, through elementwise nodes in both directions, and through convolutions, pools and Flatten from the input to the
output. nir's own inference is not used: it changes the graph, and it is wrong for kernels that are not square and for
grouped convolutions. Cost grows linearly with the graph, but for sorting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import nir

from nirmap.errors import GraphError
from nirmap.parameters import Shape
from nirmap.shape_rules import Rule, last_axis_rule_of, open_rule_of, rule_of
from nirmap.structure import inputs, join, node_place, outputs, predecessors, successors

RuleOf = Callable[[nir.NIRNode], Rule]
_NONE_GIVEN: Mapping[str, Shape] = MappingProxyType({})


@dataclass(frozen=True)
class Shapes:
    """The shapes in one graph, each a tuple of integers without batch, or None where it is not known.

    Attributes:
        inputs: by node, the shape of what arrives at it.
        outputs: by node, the shape of what leaves it.
        subgraphs: the shapes inside each sub-graph, by its name.
    """

    inputs: dict[str, Shape | None]
    outputs: dict[str, Shape | None]
    subgraphs: dict[str, Shapes]


def infer_shapes(graph: nir.NIRGraph, given: Mapping[str, Shape] = _NONE_GIVEN) -> Shapes:
    """All shapes that follow from a graph.

    Args:
        graph: a graph that :func:`nirmap.structure.check_structure` accepts. It is not changed.
        given: shapes of Input nodes, by name, that the graph need not state itself.

    Raises:
        GraphError: two shapes contradict each other (both nodes and both shapes are named), a layer cannot take the
            shape of its input, or a node's parameters do not fit together.
    """
    return _infer(graph, given, rule_of, "shape")


def check_open_shapes(graph: nir.NIRGraph, given: Mapping[str, Shape] = _NONE_GIVEN) -> None:
    """No two shapes contradict each other, where Linear and Affine act along the last of any number of axes.

    NIR has no types for such a graph, so that :func:`infer_shapes` refuses it.

    Args:
        graph: as for :func:`infer_shapes`.
        given: as for :func:`infer_shapes`.

    Raises:
        GraphError: two shapes, or their last axes, contradict each other, or a layer cannot take its input.
    """
    _infer(graph, given, open_rule_of, "shape")
    _infer(
        graph, {name: shape[-1:] for name, shape in given.items() if shape}, last_axis_rule_of, "last axis"
    )


def _infer(graph: nir.NIRGraph, given: Mapping[str, Shape], rule_of: RuleOf, subject: str) -> Shapes:
    """What follows by the rules of the nodes; ``subject`` is what messages call it."""
    inference = _Inference(rule_of, subject)
    inference.add_levels(graph)
    for name, shape in given.items():
        if not isinstance(graph.nodes.get(name), nir.Input):
            found, expected = "a shape is given for it, and it is no Input", ", ".join(inputs(graph))
            raise GraphError(node_place(name), found, f"names of Inputs: {expected}", "correct the name")
        origin = _Origin(f"what is given for {node_place(name)}")
        inference.learn(_Port(0, name, False), tuple(map(int, shape)), origin)
    inference.add_stated()
    inference.propagate()
    return inference.levels[0].shapes


class _Port(NamedTuple):
    """The input or the output of one node; ``level`` is the index of its graph."""

    level: int
    name: str
    is_output: bool


class _Origin(NamedTuple):
    """Where a shape comes from: a node's place, and the kind of the node."""

    place: str
    kind: str = ""


class _Level:
    """One graph at any depth.

    ``path`` is its place, and ``around`` the input of the node that it is in the graph around it, if there is one.
    ``inner`` has the index of each of its sub-graphs, ``before`` and ``after`` have the neighbours of each node, and
    ``ends`` the names of its Inputs and those of its Outputs.
    """

    def __init__(self, graph: nir.NIRGraph, path: str, around: _Port | None) -> None:
        self.graph, self.path, self.around = graph, path, around
        self.before, self.after = predecessors(graph), successors(graph)
        self.shapes = Shapes(dict.fromkeys(self.before), dict.fromkeys(self.before), {})
        self.inner: dict[str, int] = {}
        self.ends = inputs(graph), outputs(graph)


class _Inference:
    """The shapes known so far, and the ports whose neighbours have not heard of them yet."""

    def __init__(self, rule_of: RuleOf, subject: str) -> None:
        self.rule_of, self.subject = rule_of, subject
        self.levels: list[_Level] = []
        self.origins: dict[_Port, _Origin] = {}
        self.pending: deque[tuple[_Port, Shape, _Origin]] = deque()

    def add_levels(self, graph: nir.NIRGraph) -> None:
        """Lists the graph and all graphs in it, the outer ones first."""
        waiting: list[tuple[nir.NIRGraph, str, _Port | None]] = [(graph, "", None)]
        while waiting:
            one, path, around = waiting.pop()
            index = len(self.levels)
            level = _Level(one, path, around)
            self.levels.append(level)
            if around is not None:
                self.levels[around.level].inner[around.name] = index
                self.levels[around.level].shapes.subgraphs[around.name] = level.shapes
            for name in reversed(level.before):
                node = one.nodes[name]
                if isinstance(node, nir.NIRGraph):
                    waiting.append((node, join(path, node_place(name)), _Port(index, name, False)))

    def add_stated(self) -> None:
        """Learns what the nodes state by themselves."""
        for index, level in enumerate(self.levels):
            for name in level.before:
                node, origin = self._node(index, name)
                if isinstance(node, nir.NIRGraph):
                    continue
                before, after = self.rule_of(node).stated(node, origin.place)
                if before is not None:
                    self.learn(_Port(index, name, False), before, origin)
                if after is not None:
                    self.learn(_Port(index, name, True), after, origin)

    def learn(self, port: _Port, shape: Shape, origin: _Origin) -> None:
        """Takes note of the shape of a port.

        Raises:
            GraphError: it is known to be another one.
        """
        shapes = self.levels[port.level].shapes
        table = shapes.outputs if port.is_output else shapes.inputs
        known = table[port.name]
        if known is None:
            table[port.name] = shape
            self.origins[port] = origin
            self.pending.append((port, shape, origin))
        elif known != shape:
            first = self.origins[port]
            raise GraphError(
                self._node(port.level, port.name)[1].place,
                f"its {'output' if port.is_output else 'input'} has the {self.subject} {known} by {first.place}, and "
                f"the {self.subject} {shape} by {origin.place}",
                f"one {self.subject} along an edge, batch not included",
                _advice(first, origin),
            )

    def propagate(self) -> None:
        """Hands every known shape on, until nothing new is learnt."""
        while self.pending:
            port, shape, origin = self.pending.popleft()
            for other in self._tied(port):
                self.learn(other, shape, origin)
            node, own = self._node(port.level, port.name)
            if isinstance(node, nir.NIRGraph):
                continue
            rule = self.rule_of(node)
            if rule.is_elementwise:
                self.learn(port._replace(is_output=not port.is_output), shape, origin)
            elif rule.forward is not None and not port.is_output:
                self.learn(port._replace(is_output=True), rule.forward(node, shape, own.place), own)

    def _tied(self, port: _Port) -> Iterable[_Port]:
        """The ports of other nodes that have the same shape: along edges, and across the border of a sub-graph."""
        level = self.levels[port.level]
        neighbours = level.after if port.is_output else level.before
        for name in neighbours[port.name]:
            yield _Port(port.level, name, not port.is_output)
        if port.name in level.inner:
            index = level.inner[port.name]
            for name in self.levels[index].ends[port.is_output]:
                yield _Port(index, name, port.is_output)
        if level.around is not None and port.name in level.ends[port.is_output]:
            yield level.around._replace(is_output=port.is_output)

    def _node(self, index: int, name: str) -> tuple[nir.NIRNode, _Origin]:
        level = self.levels[index]
        node = level.graph.nodes[name]
        return node, _Origin(join(level.path, node_place(name)), type(node).__name__)


def _advice(*origins: _Origin) -> str:
    if any(origin.kind.startswith("Conv") for origin in origins):
        return "correct one of them; types that nir inferred behind a convolution may be wrong, None leaves them open"
    return "correct the parameters or the type of one of them"

"""The shapes of what goes into and comes out of every node, without batch.

A shape is stated by an Input or an Output, by the parameters of a neuron, by a weight. From there it goes along the
edges, through elementwise nodes in both directions, and through convolutions, pools and Flatten from the input to the
output. nir's own inference is not used: it changes the graph, and it is wrong for kernels that are not square and for
grouped convolutions. Cost grows linearly with the graph, but for sorting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import nir

from nirmap.errors import GraphError
from nirmap.parameters import Shape, as_array, as_integers, as_padding, broadcasts, common_shape, shape_of
from nirmap.structure import inputs, join, node_place, outputs, predecessors, successors

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
    inference = _Inference()
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

    def __init__(self) -> None:
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
                before, after = rule_of(node).stated(node, origin.place)
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
                f"its {'output' if port.is_output else 'input'} has the shape {known} by {first.place}, and the shape "
                f"{shape} by {origin.place}",
                "one shape along an edge, batch not included",
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
            rule = rule_of(node)
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


Stated = tuple[Shape | None, Shape | None]
"""The shapes of input and output, as far as a node states them by itself."""


@dataclass(frozen=True)
class Rule:
    """What a primitive says about shapes.

    Attributes:
        stated: from a node and its place, the shapes that the node states itself.
        forward: from a node, the shape of its input and its place, the shape of its output. Raises GraphError where the
            node cannot take that input.
        is_elementwise: the output has the shape of the input.
    """

    stated: Callable[[Any, str], Stated]
    forward: Callable[[Any, Shape, str], Shape] | None = None
    is_elementwise: bool = False


def rule_of(node: nir.NIRNode) -> Rule:
    """The rule of a node; a node that NIR does not have states its types, and no more."""
    name = type(node).__name__
    known = getattr(nir, name, None) is type(node)
    return RULES.get(name, _OTHER) if known else _OTHER


def _typed(node: nir.NIRNode, where: str) -> Stated:
    """The types of a node, where it has one of each."""
    return _type(node, "input_type", where), _type(node, "output_type", where)


def _end(node: nir.NIRNode, where: str) -> Stated:
    """The type that an Input or an Output is made with; its other type is a copy that may be out of date."""
    shape = _type(node, "output_type" if isinstance(node, nir.Output) else "input_type", where)
    return shape, shape


def _type(node: nir.NIRNode, attribute: str, where: str) -> Shape | None:
    types: dict[str, object] | None = getattr(node, attribute, None)
    values = list(types.values()) if types else []
    if len(values) != 1 or values[0] is None:
        return None
    array = as_array(values[0], where=where, parameter=attribute, dtype=None)
    return as_integers(array.reshape(-1), array.size, where=where, parameter=attribute, minimum=0)


def _elementwise(node: nir.NIRNode, where: str) -> Stated:
    """The shape of the parameters; those of one element follow the layer instead."""
    names = [
        entry.name for entry in fields(node) if entry.name not in ("input_type", "output_type", "metadata")
    ]
    shape = common_shape({name: shape_of(getattr(node, name)) for name in names}, where=where)
    return (None, None) if prod(shape) == 1 else (shape, shape)


def _linear(node: Any, where: str) -> Stated:
    weight = shape_of(node.weight)
    if len(weight) < 2:
        raise GraphError(
            where, f"its weight has the shape {weight}", "(outputs, inputs)", "give it two axes or more"
        )
    after = weight[:-1]
    if isinstance(node, nir.Affine) and not broadcasts(shape_of(node.bias), after):
        raise GraphError(
            where,
            f"its bias has the shape {shape_of(node.bias)}, and its weight has the shape {weight}",
            f"a bias of the shape {after}",
            "correct one of them",
        )
    return (*weight[:-2], weight[-1]), after


class _Kernel(NamedTuple):
    """The window of a convolution or a pool. All but ``channels`` have one entry for each spatial axis.

    ``channels`` are those of the input and of the output of a convolution; a pool takes any number and keeps it.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    channels: tuple[int, int] | None = None


def _convolution_kernel(node: Any, where: str) -> _Kernel:
    weight = shape_of(node.weight)
    axes = 1 if isinstance(node, nir.Conv1d) else 2
    groups = as_integers(node.groups, 1, where=where, parameter="groups", minimum=1)[0]
    if len(weight) != axes + 2 or weight[0] % groups:
        raise GraphError(
            where,
            f"its weight has the shape {weight}, in {groups} groups",
            f"(output channels, input channels / groups, {'length' if axes == 1 else 'height, width'}), where the "
            "groups divide the output channels",
            "correct weight or groups",
        )
    if shape_of(node.bias) != weight[:1]:
        found = f"its bias has the shape {shape_of(node.bias)}"
        raise GraphError(
            where, found, f"{weight[:1]}, one entry for each output channel", "correct bias or weight"
        )
    stride = as_integers(node.stride, axes, where=where, parameter="stride", minimum=1)
    padding = as_padding(node.padding, axes, where=where, parameter="padding")
    if padding == "same" and stride != (1,) * axes:
        raise GraphError(
            where, f"padding 'same' with stride {stride}", "stride 1", "give the padding in numbers"
        )
    dilation = as_integers(node.dilation, axes, where=where, parameter="dilation", minimum=1)
    return _Kernel(weight[2:], stride, padding, dilation, (weight[1] * groups, weight[0]))


def _convolution_input(node: Any, where: str) -> Stated:
    kernel = _convolution_kernel(node, where)
    if node.input_shape is None or kernel.channels is None:
        return None, None
    space = as_integers(node.input_shape, len(kernel.size), where=where, parameter="input_shape", minimum=1)
    return (kernel.channels[0], *space), None


def _convolution(node: Any, shape: Shape, where: str) -> Shape:
    return _windows(_convolution_kernel(node, where), shape, where)


def _pooling(node: Any, shape: Shape, where: str) -> Shape:
    size = as_integers(node.kernel_size, 2, where=where, parameter="kernel_size", minimum=1)
    stride = as_integers(node.stride, 2, where=where, parameter="stride", minimum=1)
    padding = as_integers(node.padding, 2, where=where, parameter="padding", minimum=0)
    return _windows(_Kernel(size, stride, padding, (1, 1)), shape, where)


def _windows(kernel: _Kernel, shape: Shape, where: str) -> Shape:
    """The shape behind a kernel: (channels, places of the kernel along each axis).

    The number of places is that of torch.nn.Conv2d: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.
    """
    axes = len(kernel.size)
    before, after = kernel.channels or (shape[:1] * 2 if shape else (0, 0))
    if len(shape) != axes + 1 or shape[0] != before:
        channels, space = (
            before if kernel.channels else "channels",
            "length" if axes == 1 else "height, width",
        )
        found = f"its input has the shape {shape}"
        raise GraphError(where, found, f"({channels}, {space})", "correct the layer, or the one before")
    if kernel.padding == "same":
        return (after, *shape[1:])
    padding = (0,) * axes if isinstance(kernel.padding, str) else kernel.padding
    numbers = zip(shape[1:], kernel.size, kernel.stride, padding, kernel.dilation, strict=True)
    places = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in numbers)
    if min(places) < 1:
        raise GraphError(
            where,
            f"a kernel of {kernel.size}, dilation {kernel.dilation}, on an input of the shape {shape}",
            "an input, padding included, at least as large as the kernel",
            "correct kernel, padding or dilation, or the layer before",
        )
    return (after, *places)


def _flatten_input(node: nir.NIRNode, where: str) -> Stated:
    return _type(node, "input_type", where), None


def _flatten(node: Any, shape: Shape, where: str) -> Shape:
    """The shape with the axes start_dim to end_dim joined; neither counts the batch."""
    rank = len(shape)
    (start,) = as_integers(node.start_dim, 1, where=where, parameter="start_dim")
    (end,) = as_integers(node.end_dim, 1, where=where, parameter="end_dim")
    first, last = (axis + rank if axis < 0 else axis for axis in (start, end))
    if not 0 <= first <= last < rank:
        raise GraphError(
            where,
            f"start_dim {start} and end_dim {end} for an input of the shape {shape}",
            "axes of that shape, which does not include the batch, in this order",
            "correct start_dim or end_dim",
        )
    return (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])


_OTHER = Rule(_typed)
_POOL = Rule(lambda node, where: (None, None), _pooling)
_ELEMENTWISE = Rule(_elementwise, is_elementwise=True)
_END = Rule(_end, is_elementwise=True)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "Input": _END,
        "Output": _END,
        "Affine": Rule(_linear),
        "Linear": Rule(_linear),
        "Conv1d": Rule(_convolution_input, _convolution),
        "Conv2d": Rule(_convolution_input, _convolution),
        "SumPool2d": _POOL,
        "AvgPool2d": _POOL,
        "Flatten": Rule(_flatten_input, _flatten),
        **dict.fromkeys(
            ("Scale", "Threshold", "Delay", "I", "IF", "LI", "LIF", "CubaLI", "CubaLIF"), _ELEMENTWISE
        ),
    }
)
"""The rule of each primitive, by the name of its class."""

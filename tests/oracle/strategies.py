"""Drawn NIR graphs and inputs for property tests.

`networks` draws a graph on vectors with inputs that make it fire, `graphs` and `graph_inputs` the two apart,
`image_graphs` chains with convolutions. `parameters`, `node` and `neuron` draw single nodes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import nir
from hypothesis import strategies as st

from oracle.building import input_node, output_node
from oracle.images import image_graphs
from oracle.parameters import (
    DENSE,
    NEURONS,
    SPIKING,
    TIME_STEP,
    Array,
    Settings,
    generators,
    neuron,
    node,
    output_level,
    parameters,
)

__all__ = [
    "DENSE",
    "NEURONS",
    "SPIKING",
    "TIME_STEP",
    "Array",
    "Settings",
    "graph_inputs",
    "graphs",
    "image_graphs",
    "networks",
    "neuron",
    "node",
    "parameters",
]

Range = tuple[int, int]

# Neither their order nor their spelling may matter: dots, keywords, digits, and names that collide once cleaned.
_NAMES = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "lif",
    "lif1.lif",
    "lif1.w_rec",
    "lif1_lif",
    "input",
    "output",
    "input_1",
    "state",
    "self",
    "x",
    "y",
    "0",
    "1",
    "10",
    "2",
    "if",
    "class",
    "fc.1",
    "A",
    "_",
    "é",
]


@dataclass(frozen=True)
class _Plan:
    """What a graph may be made of."""

    primitives: list[str]
    connectors: list[str]
    cycles: bool
    settings: Settings


@dataclass
class _Sketch:
    """A graph while it is drawn: ``width``, ``level`` and ``received`` (level of the input) are by node name."""

    draw: st.DrawFn
    plan: _Plan
    names: list[str]
    nodes: dict[str, nir.NIRNode] = field(default_factory=dict[str, nir.NIRNode])
    edges: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    width: dict[str, int] = field(default_factory=dict[str, int])
    level: dict[str, float] = field(default_factory=dict[str, float])
    received: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, added: nir.NIRNode, width: int, level: float, sources: Collection[str]) -> str:
        """Put a node with its incoming edges into the graph; its output has the given width and level."""
        name = self.names.pop()
        self.nodes[name] = added
        self.edges.extend((source, name) for source in sources)
        self.width[name], self.level[name] = width, level
        self.received[name] = sum(self.level[source] for source in sources)
        return name

    def inner(self) -> list[str]:
        """The nodes that are neither Inputs nor Outputs."""
        return [name for name, added in self.nodes.items() if not isinstance(added, (nir.Input, nir.Output))]

    def input_width(self, name: str) -> int:
        """The width of what a node receives."""
        return next(self.width[source] for source, target in self.edges if target == name)

    def layer(self, sources: list[str], primitive: str) -> str:
        """Draw a node of a primitive behind the sum of the sources."""
        width, level = self.width[sources[0]], sum(self.level[source] for source in sources)
        if primitive == "NIRGraph":
            inside = _Sketch(self.draw, _without_nesting(self.plan), self.draw(st.permutations(_NAMES)))
            graph = inside.graph([width], 1, self.draw(st.integers(1, 3)), level)
            (output,) = [name for name, inner in inside.nodes.items() if isinstance(inner, nir.Output)]
            return self.add(graph, inside.width[output], inside.level[output], sources)
        if primitive in ("Linear", "Affine"):
            return self.connect(sources, primitive, self.draw(st.integers(1, 5)))
        drawn = self.draw(node(primitive, (width,), level=level, settings=self.plan.settings))
        return self.add(drawn, width, output_level(primitive, level), sources)

    def connect(self, sources: list[str], primitive: str, width: int) -> str:
        """Draw a Linear or an Affine from the sum of the sources to a width."""
        level = sum(self.level[source] for source in sources)
        shape = (width, self.width[sources[0]])
        drawn = self.draw(node(primitive, shape, level=level, settings=self.plan.settings))
        return self.add(drawn, width, output_level(primitive, level), sources)

    def layers(self, count: int) -> None:
        """Draw the layers: each behind an Input that has no user yet, or behind one or two of the nodes so far."""
        unused = list(self.nodes)
        for _ in range(count):
            first = unused.pop(0) if unused else self.draw(st.sampled_from(list(self.nodes)[::-1]))
            alike = [name for name in self.nodes if name != first and self.width[name] == self.width[first]]
            joined = bool(alike) and self.draw(st.integers(0, 3)) == 3
            sources = [first, self.draw(st.sampled_from(alike))] if joined else [first]
            self.layer(sources, self.draw(st.sampled_from(self.plan.primitives)))

    def outputs(self, count: int) -> None:
        """Give every node a way to an Output, and every Output a source."""
        users = {source for source, _ in self.edges}
        ends = [name for name in self.inner() if name not in users]
        while len(ends) < count:
            ends.append(self.draw(st.sampled_from(self.inner())))
        for start in range(count):
            sources = ends[start : start + 1]
            width = self.width[sources[0]]
            for end in ends[start + count :: count]:
                fits = self.width[end] == width
                sources.append(end if fits else self.connect([end], self._connector(), width))
            self.add(output_node(width), width, sum(self.level[source] for source in sources), sources)

    def _connector(self) -> str:
        return self.draw(st.sampled_from(self.plan.connectors))

    def cycle(self) -> None:
        """Lead a node's output back to itself or to a node before it, where the primitives allow it.

        The way back goes through a node with small weights of both signs, or straight if spikes flow on it, so that no
        loop of analog values can grow without bound.
        """
        target = self.draw(st.sampled_from(self.inner()))
        source = self.draw(st.sampled_from(self._reachable(target)))
        width = self.input_width(target)
        same = width == self.width[source]
        ways = [*self.plan.connectors, *(["Scale"] if same and "Scale" in self.plan.primitives else [])]
        if same and type(self.nodes[source]).__name__ in SPIKING and (source, target) not in self.edges:
            ways.append("straight")
        if not ways:
            return
        way = self.draw(st.sampled_from(ways))
        if way == "straight":
            self.edges.append((source, target))
            return
        gain = 0.3 * self.received[target] / self.level[source]
        back = self.add(
            self._way_back(way, width, self.width[source], gain), width, self.received[target], [source]
        )
        self.edges.append((back, target))

    def _way_back(self, way: str, width: int, width_before: int, gain: float) -> nir.NIRNode:
        random, dtype = self.draw(generators()), self.plan.settings.dtype
        if way == "Scale":
            return nir.Scale(gain * random.uniform(-1, 1, (width,)).astype(dtype))
        weight = (gain / width_before * random.uniform(-1, 1, (width, width_before))).astype(dtype)
        if way == "Linear":
            return nir.Linear(weight)
        return nir.Affine(weight, random.uniform(-0.2, 0.4, (width,)).astype(dtype))

    def _reachable(self, start: str) -> list[str]:
        """``start`` and the nodes behind it, Outputs excepted."""
        reached = [start]
        for name in reached:
            reached.extend(
                target
                for source, target in self.edges
                if source == name and target not in reached and not isinstance(self.nodes[target], nir.Output)
            )
        return reached

    def graph(self, input_widths: list[int], outputs: int, layers: int, level: float = 1.0) -> nir.NIRGraph:
        """Draw the whole, and let `nir` check its types."""
        for width in input_widths:
            name = self.add(input_node(width), width, level, [])
            self.received[name] = level
        self.layers(layers)
        self.outputs(outputs)
        if self.plan.cycles:
            for _ in range(self.draw(st.integers(0, 2))):
                self.cycle()
        return nir.NIRGraph(self.nodes, self.draw(st.permutations(self.edges)))


def _without_nesting(plan: _Plan) -> _Plan:
    primitives = [primitive for primitive in plan.primitives if primitive != "NIRGraph"]
    return _Plan(primitives, plan.connectors, plan.cycles, plan.settings)


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    neurons: Collection[str] = NEURONS,
    primitives: Collection[str] = DENSE,
    nested: bool = True,
    cycles: bool = True,
    inputs: Range = (1, 2),
    outputs: Range = (1, 2),
    layers: Range = (1, 6),
    settings: Settings | None = None,
) -> nir.NIRGraph:
    """Valid graphs on vectors of width 1 to 5: chains, branches, joins, cycles, nested graphs, type checked by `nir`.

    Args:
        draw: given by hypothesis.
        neurons: the kinds of neuron that may occur, of NEURONS.
        primitives: all primitives that may occur, of DENSE; neurons count where both name them.
        nested: whether nested graphs (one level, one Input, one Output) may occur.
        cycles: whether feedback may occur, in nested graphs too.
        inputs, outputs: smallest and largest number of Input and of Output nodes.
        layers: smallest and largest number of drawn nodes; joins before an Output and ways back add to it.
        settings: time step, fixed parameters, dtype.

    Raises:
        ValueError: no primitive is left, or a name is not one of DENSE.
    """
    unknown = sorted((set(primitives) - DENSE) | (set(neurons) - NEURONS))
    allowed = sorted((set(primitives) - NEURONS) | (set(primitives) & set(neurons)))
    if unknown or not allowed:
        raise ValueError(f"unknown primitives {unknown}, allowed {allowed}: give some of {sorted(DENSE)}")
    connectors = [primitive for primitive in allowed if primitive in ("Linear", "Affine")]
    plan = _Plan([*allowed, *(["NIRGraph"] if nested else [])], connectors, cycles, settings or Settings())
    count = draw(st.integers(*inputs))
    # Without a node that changes the width, all branches must have one width to meet.
    widths = [draw(st.integers(1, 5)) for _ in range(count if connectors else 1)]
    widths = widths if connectors else widths * count
    sketch = _Sketch(draw, plan, draw(st.permutations(_NAMES)))
    return sketch.graph(widths, draw(st.integers(*outputs)), max(count, draw(st.integers(*layers))))


@st.composite
def graph_inputs(
    draw: st.DrawFn, graph: nir.NIRGraph, *, steps: Range = (10, 25), batch: Range = (1, 3)
) -> dict[str, Array]:
    """Float64 arrays (T, B, *shape) per Input node: analog values with mean 1, or spikes of height 2 at rate 1/2."""
    shape = (draw(st.integers(*steps)), draw(st.integers(*batch)))
    spikes, random = draw(st.booleans()), draw(generators())
    streams: dict[str, Array] = {}
    for name in sorted(name for name, inner in graph.nodes.items() if isinstance(inner, nir.Input)):
        full = (*shape, *(int(size) for size in graph.nodes[name].input_type["input"]))
        streams[name] = 2.0 * (random.random(full) < 0.5) if spikes else random.uniform(-0.5, 2.5, full)
    return streams


@st.composite
def networks(
    draw: st.DrawFn,
    graph: st.SearchStrategy[nir.NIRGraph] | None = None,
    *,
    steps: Range = (10, 25),
    batch: Range = (1, 3),
) -> tuple[nir.NIRGraph, dict[str, Array]]:
    """A graph, by default one of `graphs`, with inputs for it."""
    drawn = draw(graphs() if graph is None else graph)
    return drawn, draw(graph_inputs(drawn, steps=steps, batch=batch))

"""Shapes: a wrong one makes a network that does not run, or a file whose types contradict its weights."""

from __future__ import annotations

import copy
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nirmap.errors import GraphError
from nirmap.files import read_graph
from nirmap.oracle.interpreter import simulate
from nirmap.shape_rules import RULES
from nirmap.shapes import Shapes, infer_shapes
from oracle.images import image_graphs
from oracle.strategies import TIME_STEP, graph_inputs, graphs

Shape = tuple[int, ...]


def start(*shape: int) -> nir.Input:
    return nir.Input({"input": np.array(shape)})


def untyped_input() -> nir.Input:
    return nir.Input(None)  # type: ignore[arg-type]


def untyped_output() -> nir.Output:
    return nir.Output(None)  # type: ignore[arg-type]


def neuron(*shape: int) -> nir.LIF:
    return nir.LIF(*(np.ones(shape) for _ in range(4)))


def scale(*shape: int) -> nir.Scale:
    return nir.Scale(np.ones(shape))


def linear(after: int, before: int) -> nir.Linear:
    return nir.Linear(np.ones((after, before)))


def conv2d(weight: Shape, shape: Any = None, **changes: Any) -> nir.Conv2d:
    values: dict[str, Any] = {
        "stride": 1,
        "padding": 0,
        "dilation": 1,
        "groups": 1,
        "bias": np.zeros(weight[0]),
        **changes,
    }
    return nir.Conv2d(input_shape=shape, weight=np.ones(weight), **values)


def chain(*nodes: nir.NIRNode) -> nir.NIRGraph:
    """Nodes named a, b, c, ... behind one another."""
    names = "abcdefgh"[: len(nodes)]
    return nir.NIRGraph(dict(zip(names, nodes, strict=True)), list(pairwise(names)), type_check=False)


def known(shapes: Shapes) -> list[tuple[Shape | None, Shape | None]]:
    return [(shapes.inputs[name], shapes.outputs[name]) for name in sorted(shapes.inputs)]


def without_types(graph: nir.NIRGraph) -> nir.NIRGraph:
    """The graph with no type at an Input, an Output or a Flatten, at any depth."""
    nodes: dict[str, nir.NIRNode] = {}
    for name, node in graph.nodes.items():
        if isinstance(node, nir.NIRGraph):
            nodes[name] = without_types(node)
        elif isinstance(node, nir.Input):
            nodes[name] = untyped_input()
        elif isinstance(node, nir.Output):
            nodes[name] = untyped_output()
        elif isinstance(node, nir.Flatten):
            nodes[name] = nir.Flatten(None, node.start_dim, node.end_dim)  # type: ignore[arg-type]
        else:
            nodes[name] = node
    return nir.NIRGraph(nodes, graph.edges, type_check=False)


def stated_inputs(graph: nir.NIRGraph) -> dict[str, Shape]:
    return {
        name: tuple(int(extent) for extent in node.input_type["input"])
        for name, node in graph.nodes.items()
        if isinstance(node, nir.Input)
    }


def at(shapes: Shapes, path: tuple[str, ...]) -> Shape | None:
    for name in path[:-1]:
        shapes = shapes.subgraphs[name]
    return shapes.outputs[path[-1]]


@given(graphs() | image_graphs(), st.booleans(), st.data())
def test_every_shape_is_that_of_the_values_when_the_oracle_runs_the_graph(
    graph: nir.NIRGraph, typed: bool, data: st.DataObject
) -> None:
    """Nested graphs, groups, dilation, kernels that are not square: nothing is known but the shapes of the inputs."""
    shapes = infer_shapes(graph) if typed else infer_shapes(without_types(graph), stated_inputs(graph))
    trace = simulate(graph, data.draw(graph_inputs(graph, steps=(1, 1), batch=(2, 2))), TIME_STEP)
    for path, values in trace.values.items():
        assert at(shapes, path) == values.shape[2:]


@given(graphs(), st.randoms())
def test_the_order_of_nodes_and_edges_does_not_matter(graph: nir.NIRGraph, order: random.Random) -> None:
    names = list(graph.nodes)
    order.shuffle(names)
    edges = list(graph.edges)
    order.shuffle(edges)
    shuffled = nir.NIRGraph({name: graph.nodes[name] for name in names}, edges, type_check=False)
    assert infer_shapes(shuffled) == infer_shapes(graph)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[nir.NIRNode, torch.nn.Module, Shape]:
    """A convolution, the torch module of the same parameters, and the shape of an input."""
    axes = draw(st.integers(1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(axes))

    groups, per_group, after = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel, dilation = each(1, 4), each(1, 3)
    padding: Any = draw(st.sampled_from(["same", "valid"])) if draw(st.booleans()) else each(0, 3)
    stride = (1,) * axes if padding == "same" else each(1, 3)
    kinds: list[Any] = [torch.nn.Conv1d, torch.nn.Conv2d]
    module = kinds[axes - 1](
        groups * per_group, groups * after, kernel, stride, padding, dilation, groups, device="meta"
    )
    weight = np.zeros(tuple(module.weight.shape))
    primitives: list[Any] = [nir.Conv1d, nir.Conv2d]
    node = primitives[axes - 1](
        input_shape=None,
        weight=weight,
        stride=stride[0] if axes == 1 else stride,
        padding=padding[0] if axes == 1 and not isinstance(padding, str) else padding,
        dilation=dilation[0] if axes == 1 else np.array(dilation),
        groups=np.int64(groups),
        bias=np.zeros(len(weight)),
    )
    return node, module, (groups * per_group, *each(1, 12))


@st.composite
def pools(draw: st.DrawFn) -> tuple[nir.NIRNode, torch.nn.Module, Shape]:
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    padding = (draw(st.integers(0, kernel[0] // 2)), draw(st.integers(0, kernel[1] // 2)))
    primitive: Any = draw(st.sampled_from([nir.SumPool2d, nir.AvgPool2d]))
    node = primitive(np.array(kernel), np.array(stride), np.array(padding))
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    return node, torch.nn.AvgPool2d(kernel, stride, padding), shape


@st.composite
def flattenings(draw: st.DrawFn) -> tuple[nir.NIRNode, torch.nn.Module, Shape]:
    """NIR counts no batch, torch counts one; dimensions out of range are drawn too."""
    start_dim, end_dim = draw(st.integers(-4, 3)), draw(st.integers(-4, 3))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    node = nir.Flatten(None, start_dim, end_dim)  # type: ignore[arg-type]
    first, last = (axis + len(shape) if axis < 0 else axis for axis in (start_dim, end_dim))
    # Beyond the front, torch would join the batch; NIR has no such axis.
    outside = min(first, last) < 0
    module = torch.nn.Flatten(99 if outside else first + 1, last + 1)
    return node, module, shape


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
@given(convolutions() | pools() | flattenings())
def test_a_layer_has_the_shape_that_torch_gives_it_or_is_refused_as_by_torch(
    layer: tuple[nir.NIRNode, torch.nn.Module, Shape],
) -> None:
    node, module, shape = layer
    graph = chain(start(*shape), node, untyped_output())
    expected: Shape | None
    try:
        expected = tuple(module(torch.empty((2, *shape), device="meta")).shape[1:])
    except (RuntimeError, IndexError):
        expected = None
    if expected is None:
        with pytest.raises(GraphError, match=f"node 'b': .*{', '.join(map(str, shape))}"):
            infer_shapes(graph)
    else:
        assert infer_shapes(graph).outputs["c"] == expected


def test_every_primitive_has_a_rule() -> None:
    ends = {"NIRGraph", "NIRNode"}
    primitives = {name for name in nir.ir.__all__ if name[0].isupper()} - ends
    assert set(RULES) == primitives


def test_shapes_go_backwards_through_elementwise_nodes() -> None:
    graph = chain(
        untyped_input(),
        neuron(),
        scale(1),
        nir.Threshold(np.ones(())),
        linear(3, 4),
        neuron(1),
        untyped_output(),
    )
    assert known(infer_shapes(graph)) == [((4,), (4,))] * 4 + [((4,), (3,))] + [((3,), (3,))] * 2


def test_the_shapes_of_a_convolution_follow_from_its_own_input_shape() -> None:
    """nir 1.0.8 gives it one channel and an output of (4, 8, 8)."""
    graph = chain(untyped_input(), conv2d((4, 1, 3, 5), (10, 10), groups=2), untyped_output())
    assert known(infer_shapes(graph)) == [((2, 10, 10),) * 2, ((2, 10, 10), (4, 8, 6)), ((4, 8, 6),) * 2]


def test_a_shape_that_follows_from_nothing_is_none() -> None:
    graph = chain(
        untyped_input(), neuron(1), nir.SumPool2d(np.array(2), np.array(2), np.array(0)), untyped_output()
    )
    assert known(infer_shapes(graph)) == [(None, None)] * 4
    assert infer_shapes(graph, {"a": (1, 4, 6)}).outputs["d"] == (1, 2, 3)


def test_what_is_known_at_one_edge_holds_for_the_others_of_the_node() -> None:
    nodes: dict[str, nir.NIRNode] = {
        "i": untyped_input(),
        "j": untyped_input(),
        "a": neuron(),
        "l": linear(2, 5),
        "o": untyped_output(),
    }
    edges = [("i", "a"), ("j", "a"), ("a", "l"), ("l", "o")]
    assert infer_shapes(nir.NIRGraph(nodes, edges, type_check=False)).outputs["j"] == (5,)


def test_shapes_cross_the_border_of_a_sub_graph_in_both_directions() -> None:
    inner = chain(untyped_input(), neuron(), untyped_output())
    shapes = infer_shapes(chain(untyped_input(), inner, linear(2, 7), untyped_output()))
    assert known(shapes.subgraphs["b"]) == [((7,), (7,))] * 3
    assert shapes.inputs["b"] == shapes.outputs["a"] == (7,)
    typed = chain(untyped_input(), linear(4, 3), untyped_output())
    shapes = infer_shapes(chain(untyped_input(), neuron(), typed, neuron(), untyped_output()))
    assert known(shapes) == [((3,), (3,))] * 2 + [((3,), (4,))] + [((4,), (4,))] * 2


def test_a_weight_may_have_leading_axes() -> None:
    graph = chain(untyped_input(), nir.Affine(np.ones((5, 3, 4)), np.ones(3)), untyped_output())
    assert known(infer_shapes(graph))[1] == ((5, 4), (5, 3))


def test_parameters_may_be_tensors_and_numbers() -> None:
    lif = neuron(3)
    lif.tau, lif.r, lif.v_leak = 1.0, torch.ones(3, requires_grad=True), torch.ones(1)  # type: ignore[assignment]
    assert infer_shapes(chain(untyped_input(), lif, untyped_output())).inputs["a"] == (3,)


def test_a_node_that_nir_does_not_have_states_its_types() -> None:
    """A user's own function may build it; a class that only bears a known name is not taken for that primitive."""

    class Linear(nir.NIRNode):
        def __init__(self, before: Any, after: Any) -> None:
            self.input_type, self.output_type = {"input": before}, {"output": after}

    own = chain(untyped_input(), Linear(np.array([2]), np.array([3])), untyped_output())
    assert known(infer_shapes(own)) == [((2,), (2,)), ((2,), (3,)), ((3,), (3,))]
    silent = chain(start(2), Linear(None, None), untyped_output())
    assert known(infer_shapes(silent)) == [((2,), (2,)), ((2,), None), (None, None)]


@given(graphs() | image_graphs())
def test_the_graph_is_not_changed(graph: nir.NIRGraph) -> None:
    before = copy.deepcopy(graph)
    infer_shapes(graph)
    assert graph.edges == before.edges
    assert list(graph.nodes) == list(before.nodes)
    for name, node in graph.nodes.items():
        assert repr(node) == repr(before.nodes[name])


CONTRADICTIONS: dict[str, tuple[nir.NIRGraph, list[str]]] = {
    "layer and neuron": (
        chain(start(2), linear(3, 2), neuron(4), untyped_output()),
        ["(4,) by node 'c'", "(3,) by node 'b'"],
    ),
    "input and a layer further on": (
        chain(start(5), neuron(), linear(3, 2), untyped_output()),
        ["(5,) by node 'a'", "(2,) by node 'c'"],
    ),
    "output": (
        chain(start(2), linear(3, 2), nir.Output({"output": np.array([9])})),
        ["(9,) by node 'c'", "(3,) by node 'b'"],
    ),
    "inside a sub-graph": (
        chain(start(2), chain(start(3), neuron(), untyped_output()), untyped_output()),
        ["(2,) by node 'a'", "(3,) by node 'b' / node 'a'"],
    ),
    "a convolution, with the hint that nir's types may be wrong": (
        chain(start(1, 10, 10), conv2d((2, 1, 3, 5)), nir.Output({"output": np.array([2, 8, 8])})),
        ["(2, 8, 8) by node 'c'", "(2, 8, 6) by node 'b'", "types that nir inferred"],
    ),
    "input_shape": (
        chain(start(1, 10, 10), conv2d((2, 1, 3, 3), (9, 9)), untyped_output()),
        ["(1, 10, 10) by node 'a'", "(1, 9, 9) by node 'b'"],
    ),
}


@pytest.mark.parametrize(("graph", "found"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_contradiction_names_both_nodes_and_both_shapes(graph: nir.NIRGraph, found: list[str]) -> None:
    with pytest.raises(GraphError, match="node '") as caught:
        infer_shapes(graph)
    for part in found:
        assert part in str(caught.value)


def test_a_given_shape_may_not_contradict_the_graph_nor_name_another_node() -> None:
    graph = chain(start(2), linear(3, 2), untyped_output())
    assert infer_shapes(graph, {"a": (2,)}) == infer_shapes(graph)
    with pytest.raises(
        GraphError, match=r"\(4,\) by what is given for node 'a', and the shape \(2,\) by node 'a'"
    ):
        infer_shapes(graph, {"a": (4,)})
    for name in ("b", "ghost"):
        with pytest.raises(GraphError, match=f"node '{name}': a shape is given for it, and it is no Input"):
            infer_shapes(graph, {name: (2,)})


WRONG: dict[str, tuple[nir.NIRNode, str]] = {
    "channels": (conv2d((2, 3, 1, 1)), r"\(1, 6, 6\).*expected \(3, height, width\)"),
    "channels in groups": (conv2d((2, 1, 1, 1), groups=2), r"expected \(2, height, width\)"),
    "groups": (conv2d((3, 1, 1, 1), groups=2), r"\(3, 1, 1, 1\), in 2 groups"),
    "kernel": (conv2d((2, 1, 7, 1)), r"a kernel of \(7, 1\)"),
    "dilation": (conv2d((2, 1, 3, 3), dilation=3), r"dilation \(3, 3\)"),
    "bias": (conv2d((2, 1, 1, 1), bias=np.zeros(3)), r"bias has the shape \(3,\)"),
    "stride": (conv2d((2, 1, 1, 1), stride=np.array([0, 1])), "stride = 0"),
    "same with stride": (conv2d((2, 1, 3, 3), stride=2, padding="same"), r"'same' with stride \(2, 2\)"),
    "axes": (nir.Conv1d(None, np.ones((1, 1, 1)), 1, 0, 1, 1, np.zeros(1)), r"expected \(1, length\)"),
    "pool": (nir.AvgPool2d(np.array(7), np.array(1), np.array(0)), r"a kernel of \(7, 7\)"),
    "affine": (nir.Affine(np.ones((3, 6)), np.ones(4)), r"bias has the shape \(4,\)"),
    "flatten": (nir.Flatten(None, 3, -1), "start_dim 3 and end_dim -1"),  # type: ignore[arg-type]
    "type": (nir.Flatten({"input": np.array([1, -6, 6])}, 0, -1), "input_type = -6"),
}


@pytest.mark.parametrize(("node", "found"), WRONG.values(), ids=WRONG)
def test_a_layer_that_cannot_take_its_input_is_refused(node: nir.NIRNode, found: str) -> None:
    with pytest.raises(GraphError, match=f"node 'b': .*{found}"):
        infer_shapes(chain(start(1, 6, 6), node, untyped_output()))


def test_parameters_that_do_not_fit_together_are_refused() -> None:
    lif = neuron(3)
    lif.v_reset = np.ones(4)
    with pytest.raises(
        GraphError, match=r"node 'b': v_reset has the shape \(4,\), and tau has the shape \(3,\)"
    ):
        infer_shapes(chain(untyped_input(), lif, untyped_output()))


def test_a_long_chain_and_deep_nesting_need_no_recursion() -> None:
    names = [f"a{number:05d}" for number in range(20_000)]
    shared = neuron()
    nodes: dict[str, nir.NIRNode] = {"i": untyped_input(), **dict.fromkeys(names, shared), "z": linear(1, 3)}
    edges = [("i", names[0]), *pairwise(names), (names[-1], "z")]
    assert infer_shapes(nir.NIRGraph(nodes, edges, type_check=False)).outputs["i"] == (3,)
    inner = chain(untyped_input(), linear(3, 3), untyped_output())
    for _ in range(64):
        inner = chain(untyped_input(), inner, untyped_output())
    assert infer_shapes(inner).outputs["c"] == (3,)


@pytest.mark.parametrize("name", ["cnn_sinabs", "lif_norse", "braille/braille_noDelay_bias_zero"])
def test_the_graphs_of_the_nir_paper_have_the_shapes_that_they_state(nir_paper: Path, name: str) -> None:
    graph = read_graph(nir_paper / f"{name}.nir")
    shapes = infer_shapes(without_types(graph), stated_inputs(graph))
    for node_name, node in graph.nodes.items():
        if not isinstance(node, nir.SumPool2d):
            assert shapes.inputs[node_name] == tuple(node.input_type["input"])
            assert shapes.outputs[node_name] == tuple(node.output_type["output"])

"""The structure of a graph: what passes here unseen is dropped silently, or fails far away from its cause."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nirmap.errors import GraphError
from nirmap.files import read_graph
from nirmap.structure import MAX_DEPTH, check_structure, inputs, outputs, predecessors, successors
from oracle.strategies import graphs


def node(name: str) -> nir.NIRNode:
    """A node by its first letter: i Input, o Output, others Scale."""
    one = np.ones(1)
    kinds: dict[str, Callable[[], nir.NIRNode]] = {
        "i": lambda: nir.Input({"input": np.array([1])}),
        "o": lambda: nir.Output({"output": np.array([1])}),
    }
    return kinds.get(name[:1], lambda: nir.Scale(one))()


def graph(edges: str, **further: nir.NIRNode) -> nir.NIRGraph:
    """Edges as in "i>a a>o"; a word without ">" is a node alone."""
    pairs = [tuple(edge.split(">")) for edge in edges.split()]
    nodes = {name: node(name) for pair in pairs for name in pair if name != "ghost"}
    return nir.NIRGraph({**nodes, **further}, [pair for pair in pairs if len(pair) == 2], type_check=False)


@pytest.mark.parametrize(
    "edges", ["i>o", "i>a a>o", "i>a i>b a>b b>o b>dead", "i>a a>b b>a a>o", "i1>a i2>a a>o1 a>o2", "i>o i2"]
)
def test_a_graph_that_can_be_converted_passes(edges: str) -> None:
    check_structure(graph(edges))


@given(graphs(layers=(1, 6)))
def test_every_valid_graph_passes(drawn: nir.NIRGraph) -> None:
    check_structure(drawn)


MALFORMED = {
    "edge to nowhere": ("i>a a>ghost a>o", "edge 'a' -> 'ghost'", "ends at 'ghost'"),
    "edge from nowhere": ("i>a ghost>a a>o", "edge 'ghost' -> 'a'", "starts at 'ghost'"),
    "an edge twice": ("i>a i>a a>o", "edge 'i' -> 'a'", "twice"),
    "Input with a predecessor": ("i>a a>i a>o", "node 'i'", "edge from 'a'"),
    "Output with a successor": ("i>o o>a", "node 'o'", "edge to 'a'"),
    "Output without a source": ("i>o o2", "node 'o2'", "without an edge"),
    "no Input": ("a>o", "graph", "no Input"),
    "no Output": ("i>a", "graph", "no Output"),
    "empty": ("", "graph", "no Input"),
    "a node that is not reached": ("i>o b a>b", "node 'a'", "no Input reaches"),
    "a cycle that is not reached": ("i>o a>b b>c c>b c>d", "node 'a'", "no edge leads to it"),
    "a closed cycle": ("i>a a>o b>c c>d d>b d>a d>e", "nodes 'b', 'c', 'd'", "a cycle that no Input reaches"),
    "a node onto itself": ("i>o a>a", "nodes 'a'", "a cycle that no Input reaches"),
}


@pytest.mark.parametrize(("edges", "where", "found"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_graph_is_refused_with_the_place(edges: str, where: str, found: str) -> None:
    with pytest.raises(GraphError) as caught:
        check_structure(graph(edges))
    assert caught.value.where == where
    assert found in caught.value.found
    assert caught.value.expected
    assert caught.value.do


@pytest.mark.parametrize(("edges", "where", "found"), MALFORMED.values(), ids=MALFORMED)
def test_the_place_shows_the_sub_graphs_around(edges: str, where: str, found: str) -> None:
    outer = graph("i>a a>o", a=graph("i>b b>o", b=graph(edges)))
    with pytest.raises(GraphError) as caught:
        check_structure(outer, "file 'x.nir'")
    inside = "file 'x.nir' / node 'a' / node 'b'"
    assert caught.value.where in (inside, f"{inside} / {where}")


def test_a_misspelt_name_gets_a_suggestion() -> None:
    misspelt = graph("i>lif1.lif lif1.lif>o")
    misspelt.edges.append(("i", "lif1_lif"))
    with pytest.raises(GraphError, match=r"such as 'lif1\.lif'"):
        check_structure(misspelt)


def test_a_name_of_any_length_makes_a_short_message() -> None:
    long = "x" * 10_000
    with pytest.raises(GraphError) as caught:
        check_structure(
            nir.NIRGraph({"i": node("i"), "o": node("o")}, [("i", long), ("i", "o")], type_check=False)
        )
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("nodes", [{1: node("a")}, {b"a": node("a")}, {"a": "Scale"}, {"a": None}, []])
def test_names_and_nodes_of_another_type_are_refused(nodes: Any) -> None:
    malformed = graph("i>o")
    malformed.nodes = {**malformed.nodes, **nodes} if isinstance(nodes, dict) else nodes
    with pytest.raises(GraphError):
        check_structure(malformed)
    with pytest.raises(GraphError, match="node 'a'"):
        check_structure(graph("i>a a>o", a=malformed))


@pytest.mark.parametrize("edge", [("i",), ("i", "o", "x"), "io", ("i", 1), (b"i", b"o"), ("i", ["o"]), None])
def test_an_edge_that_is_no_pair_of_names_is_refused(edge: Any) -> None:
    malformed = graph("i>o")
    malformed.edges.append(edge)
    with pytest.raises(GraphError, match="an edge"):
        check_structure(malformed)


def test_edges_that_are_no_list_are_refused() -> None:
    malformed: Any = graph("i>o")
    malformed.edges = None
    with pytest.raises(GraphError, match="its edges are a NoneType"):
        check_structure(malformed)


@pytest.mark.parametrize("other", [None, 1, "x.nir", {}, nir.Scale(np.ones(1))])
def test_what_is_no_graph_is_refused(other: Any) -> None:
    with pytest.raises(GraphError, match=r"expected a nir\.NIRGraph"):
        check_structure(other)


@pytest.mark.parametrize("edges", ["i1>o i2>o", "i>o1 i>o2", "a>o", "i>a"])
def test_a_sub_graph_has_one_input_and_one_output(edges: str) -> None:
    """An edge names no port, so the value would go to one of them by chance."""
    with pytest.raises(GraphError, match=r"node 'a': a sub-graph with \d Inputs and \d Outputs"):
        check_structure(graph("i>a a>o", a=graph(edges)))


def nested(levels: int) -> nir.NIRGraph:
    inner = graph("i>o")
    for _ in range(levels):
        inner = graph("i>a a>o", a=inner)
    return inner


def test_the_depth_is_limited() -> None:
    check_structure(nested(MAX_DEPTH))
    for levels in (MAX_DEPTH + 1, 5_000):
        with pytest.raises(GraphError, match="nested deeper than 64 levels"):
            check_structure(nested(levels))


def test_the_depth_counts_for_a_graph_that_was_seen_less_deep_before() -> None:
    deep = nested(MAX_DEPTH - 2)
    check_structure(graph("i>a a>b b>o", a=deep, b=graph("i>c c>o", c=deep)))
    with pytest.raises(GraphError, match="nested deeper than 64 levels"):
        check_structure(graph("i>a a>b b>o", a=deep, b=graph("i>c c>o", c=graph("i>d d>o", d=deep))))


def test_a_graph_in_itself_is_refused() -> None:
    inner = graph("i>a a>o")
    outer = graph("i>b b>o", b=inner)
    inner.nodes["a"] = outer
    with pytest.raises(GraphError, match="node 'b' / node 'a': the graph contains itself"):
        check_structure(outer)


def test_one_graph_object_in_many_places_is_looked_at_once() -> None:
    """Sixty levels of two references each are 2 ** 60 places."""
    inner = graph("i>o")
    for _ in range(60):
        inner = graph("i>a a>b b>o", a=inner, b=inner)
    check_structure(inner)


def test_neighbours_and_ends_come_in_name_order() -> None:
    table = graph("i2>b i1>b i1>a a>b b>a b>o2 a>o1")
    assert inputs(table) == ["i1", "i2"]
    assert outputs(table) == ["o1", "o2"]
    assert predecessors(table)["b"] == ["a", "i1", "i2"]
    assert successors(table) == {
        "a": ["b", "o1"],
        "b": ["a", "o2"],
        "i1": ["a", "b"],
        "i2": ["b"],
        "o1": [],
        "o2": [],
    }
    assert list(predecessors(table)) == sorted(table.nodes)


@given(st.randoms())
def test_the_error_does_not_depend_on_the_order_of_nodes(order: random.Random) -> None:
    malformed = graph("i>a a>o b>c c>b d>e e>d")
    names = list(malformed.nodes)
    order.shuffle(names)
    malformed.nodes = {name: malformed.nodes[name] for name in names}
    order.shuffle(malformed.edges)
    with pytest.raises(GraphError, match="nodes 'b', 'c': a cycle"):
        check_structure(malformed)


def test_a_long_chain_and_a_large_ring_need_no_recursion() -> None:
    count = 20_000
    names = [f"a{number}" for number in range(count)]
    shared = node("a")
    nodes = {"i": node("i"), "o": node("o"), **dict.fromkeys(names, shared)}
    edges = [("i", "a0"), (names[-1], "o"), *pairwise(names)]
    check_structure(nir.NIRGraph(nodes, [*edges, (names[-1], "a0")], type_check=False))
    with pytest.raises(GraphError, match=f"and {count - 8} more: a cycle"):
        check_structure(nir.NIRGraph(nodes, [("i", "o"), *edges[1:], (names[-1], "a0")], type_check=False))


def test_the_malformed_graph_of_the_nir_paper_names_its_edge(nir_paper: Path) -> None:
    malformed = read_graph(nir_paper / "braille" / "braille_noDelay_bias_zero_subgraph.nir")
    with pytest.raises(GraphError, match=r"edge 'input' -> 'lif': it ends at 'lif'.*such as '"):
        check_structure(malformed)

"""Which edges are a step late: another choice is another network, and one that varies cannot be relied on at all."""

from __future__ import annotations

import random
from collections.abc import Collection
from itertools import pairwise

import nir
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nirmap.delays import Delays, Edge, delayed_edges
from nirmap.errors import GraphError
from nirmap.oracle.feedback import delayed_edges as oracle_edges
from nirmap.oracle.feedback import is_stateful
from oracle.strategies import graphs

ONE = np.ones(1)


def graph(edges: Collection[Edge]) -> nir.NIRGraph:
    """Nodes by their first letter: i Input, o Output, n LI (stateful), others Scale."""
    nodes: dict[str, nir.NIRNode] = {}
    for name in dict.fromkeys(name for edge in edges for name in edge):
        if name.startswith("i"):
            nodes[name] = nir.Input({"input": np.array([1])})
        elif name.startswith("o"):
            nodes[name] = nir.Output({"output": np.array([1])})
        else:
            nodes[name] = nir.LI(ONE, ONE, ONE) if name.startswith("n") else nir.Scale(ONE)
    return nir.NIRGraph(nodes, list(edges), type_check=False)


def delays(edges: Collection[Edge]) -> Delays:
    return delayed_edges(graph(edges), lambda name: name.startswith("n"))


def pairs(text: str) -> list[Edge]:
    """Edges from "i>a a>o"."""
    return [(edge.split(">")[0], edge.split(">")[1]) for edge in text.split()]


# Edges, those of them that are delayed, and those of these that close a cycle without a stateful node.
CASES = {
    "no cycle": ("i>a a>n n>b a>b b>o", "", ""),
    "a neuron onto itself": ("i>n n>n n>o", "n>n", ""),
    "neuron, affine, neuron: the spikes are late": ("i>n n>a a>n n>o", "n>a", ""),
    "through several stateless nodes": ("i>n n>a a>b b>c c>n n>o", "n>a", ""),
    "to the nearest of two neurons": ("i>n1 n1>n2 n2>a a>n1 n2>o", "n2>a", ""),
    "to each of two neurons that meet upstream": ("i>n1 i>n2 n1>a n2>a a>n1 a>n2 a>o", "n1>a n2>a", ""),
    "a neuron outside the cycle stays on time": ("i>n1 i>n2 n2>a n1>a a>n1 n1>o", "n1>a", ""),
    "the edge forwards may be the late one": ("i>a a>n n>b b>a b>o", "n>b", ""),
    "stateless nodes only": ("i>a a>b b>a b>o", "b>a", "b>a"),
    "a stateless node onto itself": ("i>a a>a a>o", "a>a", "a>a"),
    "names decide where the walk goes first": ("i>p i>q p>q q>p p>o q>o", "q>p", "q>p"),
    "Inputs in name order": ("i2>p i1>q p>q q>p p>o q>o", "p>q", "p>q"),
    "a stateless cycle inside one through a neuron": ("i>n n>a a>b b>a b>n b>o", "b>a n>a", "b>a"),
    "two ways back from one node": ("i>a a>b b>a a>n n>b b>o", "b>a", "b>a"),
    "two cycles apart": ("i>n n>n n>a a>b b>a b>o", "n>n b>a", "b>a"),
}


@pytest.mark.parametrize(("edges", "late", "stateless"), CASES.values(), ids=CASES)
def test_the_rule_case_by_case(edges: str, late: str, stateless: str) -> None:
    found = delays(pairs(edges))
    assert found.edges == set(pairs(late))
    assert found.stateless_cycles == tuple(sorted(pairs(stateless)))


def test_the_order_goes_along_the_edges_and_takes_the_first_name() -> None:
    assert delays(pairs("i>c i>b b>a c>a a>o")).order == ("i", "b", "c", "a", "o")
    assert delays(pairs("i>n n>a a>n n>o")).order == ("a", "i", "n", "o")
    assert delays(pairs("i1>z i2>a z>o a>o")).order == ("i1", "i2", "a", "z", "o")


@st.composite
def edge_lists(draw: st.DrawFn) -> list[Edge]:
    """Random graphs of up to seven nodes, all of which an Input reaches."""
    names = draw(st.permutations(["n1", "n2", "n3", "a", "b", "c", "d"]))[: draw(st.integers(1, 7))]
    inner = st.tuples(st.sampled_from(names), st.sampled_from(names))
    first = st.tuples(st.sampled_from(["i1", "i2"]), st.sampled_from(names))
    edges = {*draw(st.lists(first, min_size=1, max_size=3)), *draw(st.lists(inner, max_size=18))}
    reached = _reached({source for source, _ in edges if source.startswith("i")}, edges)
    return draw(st.permutations(sorted(edge for edge in edges if edge[0] in reached)))


def _reached(starts: set[str], edges: Collection[Edge]) -> set[str]:
    while True:
        further = starts | {target for source, target in edges if source in starts}
        if further == starts:
            return starts
        starts = further


def naive(edges: Collection[Edge]) -> set[Edge]:
    """The rule as it is written: recursive, and a search of its own for everything that it asks."""
    back: list[Edge] = []
    visited: set[str] = set()

    def walk(name: str, path: list[str]) -> None:
        visited.add(name)
        for following in sorted(target for source, target in edges if source == name):
            if following in path:
                back.append((name, following))
            elif following not in visited:
                walk(following, [*path, following])

    for root in sorted({source for source, _ in edges if source.startswith("i")}):
        walk(root, [root])

    stateless = [edge for edge in edges if not edge[0].startswith("n") and not edge[1].startswith("n")]

    def upstream(name: str, component: set[str], met: set[str]) -> set[Edge]:
        found: set[Edge] = set()
        for source, target in edges:
            if target == name and source in component and source not in met:
                stateful = source.startswith("n")
                found |= {(source, target)} if stateful else upstream(source, component, met | {source})
        return found

    late: set[Edge] = set()
    for source, target in back:
        component = {name for name in _reached({source}, edges) if source in _reached({name}, edges)}
        stays = source.startswith("n") or (
            not target.startswith("n") and source in _reached({target}, stateless)
        )
        late |= {(source, target)} if stays else upstream(source, component, {source})
    return late


@given(edge_lists())
def test_the_rule_agrees_with_a_naive_reading_of_it(edges: list[Edge]) -> None:
    assert delays(edges).edges == naive(edges)


@given(edge_lists(), st.randoms())
def test_every_cycle_is_broken_inside_itself_whatever_the_order_of_nodes_and_edges(
    edges: list[Edge], order: random.Random
) -> None:
    found = delays(edges)
    position = {name: index for index, name in enumerate(found.order)}
    assert sorted(position) == sorted({name for edge in edges for name in edge})
    assert all(position[source] < position[target] for source, target in set(edges) - found.edges)
    for source, target in found.edges:
        assert source in _reached({target}, edges), "an edge outside of any cycle is late"
    for source, target in found.stateless_cycles:
        rest = [edge for edge in edges if not edge[0].startswith("n")]
        assert source in _reached({target}, rest)

    drawn = graph(edges)
    names = list(drawn.nodes)
    order.shuffle(names)
    order.shuffle(drawn.edges)
    drawn.nodes = {name: drawn.nodes[name] for name in names}
    assert delayed_edges(drawn, lambda name: name.startswith("n")) == found


@given(graphs(layers=(2, 8)))
def test_the_oracle_finds_the_same_edges(drawn: nir.NIRGraph) -> None:
    """Nested graphs, and names that no order of a file suggests."""
    found = delayed_edges(drawn, lambda name: is_stateful(drawn.nodes[name]))
    assert oracle_edges(drawn) == found.edges


def test_a_cycle_that_no_input_reaches_is_refused() -> None:
    with pytest.raises(GraphError, match="nodes 'a', 'b': a cycle that no Input reaches"):
        delays(pairs("i>o a>b b>a"))
    with pytest.raises(GraphError, match="nodes 'a': a cycle that no Input reaches"):
        delays(pairs("i>o a>a"))


def test_a_long_chain_and_a_large_ring_need_no_recursion() -> None:
    names = [f"a{number:05d}" for number in range(20_000)]
    chain = [("i", names[0]), *pairwise(names)]
    assert delays(chain).order == ("i", *names)
    ring = [*chain, (names[-1], names[0])]
    assert delays(ring).edges == {(names[-1], names[0])}
    assert delayed_edges(graph(ring), lambda name: name == names[0]).edges == {(names[0], names[1])}


def test_many_ways_back_to_one_node_are_walked_once() -> None:
    """Walked upstream one by one they would take a hundred million steps."""
    names = [f"a{number:05d}" for number in range(10_000)]
    edges = [("i", "n"), ("n", names[0]), *pairwise(names), *((name, "n") for name in names)]
    assert delays(edges).edges == {("n", names[0])}
    stateless = [("i", "b"), ("b", names[0]), *pairwise(names), *((name, "b") for name in names)]
    assert delays(stateless).stateless_cycles == tuple((name, "b") for name in names)

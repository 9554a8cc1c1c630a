"""Which edges are delayed: a product that chose others would give other spikes, or others on another machine."""

from __future__ import annotations

from collections.abc import Callable

import networkx
import nir
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nirmap.oracle.feedback import delayed_edges, is_stateful
from oracle.building import input_node, output_node
from oracle.strategies import graphs


def graph(edges: str) -> nir.NIRGraph:
    """Nodes by their first letter: i Input, o Output, n LI, d Delay, others Scale; edges as in "i>a a>o"."""
    one = np.ones(1)
    kinds: dict[str, Callable[[], nir.NIRNode]] = {
        "i": lambda: input_node(1),
        "o": lambda: output_node(1),
        "n": lambda: nir.LI(one, one, one),
        "d": lambda: nir.Delay(one),
    }
    pairs = [(edge.split(">")[0], edge.split(">")[1]) for edge in edges.split()]
    names = dict.fromkeys(name for pair in pairs for name in pair)
    nodes = {name: kinds[name[0]]() if name[0] in kinds else nir.Scale(one) for name in names}
    return nir.NIRGraph(nodes, pairs, type_check=False)


CASES = {
    "no cycle": ("i>a a>n n>b a>b b>o", ""),
    "a neuron onto itself": ("i>n n>n n>o", "n>n"),
    "the delay moves from the way back to the neuron's output": ("i>n n>a a>n n>o", "n>a"),
    "through two stateless nodes": ("i>n n>a a>b b>n n>o", "n>a"),
    "to the nearest of two neurons": ("i>n1 n1>n2 n2>a a>n1 n2>o", "n2>a"),
    "to each of two neurons that meet upstream": ("i>n1 i>n2 n1>a n2>a a>n1 a>n2 a>o", "n1>a n2>a"),
    "a neuron outside the cycle stays on time": ("i>n1 i>n2 n2>a n1>a a>n1 n1>o", "n1>a"),
    "a delay node counts as stateful": ("i>a a>d d>b b>a a>o", "d>b"),
    "stateless nodes only: the edge that leads back": ("i>a a>b b>a b>o", "b>a"),
    "a stateless node onto itself": ("i>a a>a a>o", "a>a"),
    "names decide where the walk goes first": ("i>p i>q p>q q>p p>o q>o", "q>p"),
    "inputs in name order": ("i2>p i1>q p>q q>p p>o q>o", "p>q"),
    "a stateless cycle inside a cycle through a neuron": ("i>n n>a a>b b>a b>n b>o", "b>a n>a"),
    "a stateless cycle beside a neuron that feeds it": ("i>a a>b b>n n>b b>a n>o", "b>a n>b"),
    "the forward edge may be the delayed one": ("i>a a>n n>b b>a b>o", "n>b"),
}


@pytest.mark.parametrize(("edges", "delayed"), CASES.values(), ids=CASES)
def test_delayed_edges(edges: str, delayed: str) -> None:
    found = {f"{source}>{target}" for source, target in delayed_edges(graph(edges))}
    assert found == set(delayed.split())


@given(st.data())
def test_what_is_left_has_no_cycle_and_the_order_of_nodes_and_edges_does_not_matter(
    data: st.DataObject,
) -> None:
    drawn = data.draw(graphs(layers=(2, 8)))
    delayed = delayed_edges(drawn)
    rest = networkx.DiGraph([edge for edge in drawn.edges if tuple(edge) not in delayed])
    assert networkx.is_directed_acyclic_graph(rest)
    component = {
        name: number
        for number, names in enumerate(networkx.strongly_connected_components(networkx.DiGraph(drawn.edges)))
        for name in names
    }
    assert all(component[source] == component[target] for source, target in delayed)
    nodes = dict(data.draw(st.permutations(list(drawn.nodes.items()))))
    edges = data.draw(st.permutations(drawn.edges))
    assert delayed_edges(nir.NIRGraph(nodes, edges, type_check=False)) == delayed


def test_a_graph_is_stateful_if_a_node_at_any_depth_is() -> None:
    def around(node: nir.NIRNode) -> nir.NIRGraph:
        ends = {"i": input_node(1), "o": output_node(1)}
        return nir.NIRGraph({**ends, "inside": node}, [("i", "inside"), ("inside", "o")], type_check=False)

    assert is_stateful(around(around(nir.I(np.ones(1)))))
    assert not is_stateful(around(around(nir.Threshold(np.ones(1)))))

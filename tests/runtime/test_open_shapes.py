"""Graphs in which a Linear acts along the last of several axes, as torch's does, and NIR has no types for that.

If these fail, ``torch_to_nir(..., type_check=False)`` refuses a network that torch runs, or writes one that
it cannot run.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import given

from nirmap.errors import GraphError
from nirmap.parameters import Shape
from nirmap.shapes import check_open_shapes, infer_shapes
from oracle.strategies import graphs


def untyped(kind: Any) -> nir.NIRNode:
    node: nir.NIRNode = kind(None)
    return node


def series(*nodes: nir.NIRNode) -> nir.NIRGraph:
    """The nodes in a row, between an Input and an Output without types: a, b, c, ..."""
    every = [untyped(nir.Input), *nodes, untyped(nir.Output)]
    names = [chr(ord("a") + number) for number in range(len(every))]
    return nir.NIRGraph(dict(zip(names, every, strict=True)), list(pairwise(names)), type_check=False)


def linear(after: int, before: int) -> nir.Linear:
    return nir.Linear(np.ones((after, before)))


def flatten() -> nir.Flatten:
    nothing: Any = None
    return nir.Flatten({"input": nothing}, 0, -1)


def scale(size: int) -> nir.Scale:
    return nir.Scale(np.ones(size))


def conv1d(after: int, before: int) -> nir.Conv1d:
    return nir.Conv1d(4, np.ones((after, before, 1)), 1, 0, 1, 1, np.ones(after))


def test_a_matrix_along_the_last_axis_is_no_contradiction() -> None:
    """As torch runs it: (3, 4), (3, 5), 15, 2."""
    graph = series(linear(5, 4), flatten(), linear(2, 15))
    for shapes in ({}, {"a": (3, 4)}):
        with pytest.raises(GraphError, match="the shape"):
            infer_shapes(graph, shapes)
        check_open_shapes(graph, shapes)


OPEN: dict[str, tuple[list[nir.NIRNode], dict[str, Shape], str]] = {
    "two matrices": ([linear(5, 4), linear(2, 6)], {}, r"last axis \(6,\) by node 'c'.*\(5,\) by node 'b'"),
    "a neuron between them": (
        [linear(5, 4), scale(1), scale(5), linear(2, 6)],
        {},
        r"node 'e': its input has the shape \(5,\); expected 6",
    ),
    "a neuron": ([linear(5, 4), scale(6)], {}, r"last axis \(6,\) by node 'c'"),
    "the input": ([linear(5, 4)], {"a": (3, 5)}, r"node 'b': its input has the shape \(3, 5\); expected 4"),
    "what is flattened": (
        [linear(5, 4), flatten(), linear(2, 15)],
        {"a": (4, 4)},
        r"node 'd': its input has the shape \(20,\); expected 15 entries along the last axis",
    ),
    "another primitive": (
        [conv1d(4, 2), conv1d(4, 3)],
        {},
        r"node 'b': its output has the shape \(4, 4\) by node 'b', and the shape \(3, 4\) by node 'c'",
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_what_no_axes_before_the_last_one_explain_is_refused(name: str) -> None:
    nodes, shapes, message = OPEN[name]
    with pytest.raises(GraphError, match=message):
        check_open_shapes(series(*nodes), shapes)


@given(graphs())
def test_what_agrees_with_the_types_of_nir_agrees_with_open_ones(graph: nir.NIRGraph) -> None:
    infer_shapes(graph)
    check_open_shapes(graph)

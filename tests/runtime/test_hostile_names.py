"""Node names from an untrusted file: if these fail, a name is executed, or two nodes become one."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import nirmap
from nirmap.oracle.interpreter import simulate
from oracle.building import chain, input_node, output_node
from runtime.suitable import DT, NEURONS, elementwise_rows, inputs, suitable_node


def lif() -> nir.LIF:
    node: nir.LIF = suitable_node(next(row for row in elementwise_rows("torch") if row.node == "LIF"))
    return node


def rebuild(graph: nir.NIRGraph) -> nirmap.Network:
    return nirmap.from_nir(graph, dt=DT, dtype=torch.float64)


HOSTILE = [
    "it's",
    'a "quoted" name',
    "two\nlines",
    "tab\tand\\backslash",
    "__class__",
    "__init__",
    "__import__('os').system('touch executed')",
    "x = 1; import os",
    "{0}",
    "%s",
    "lambda",
    "None",
    "class",
    "lif1.lif",
    "lif1_lif",
    "lif1-lif",
    "",
    " ",
    ".",
    "neuron é",
    "ニューロン",
    "🧠",
    "\u202eltr",
    "\x00",
    "\udcff",
    "x" * 10_000,
    "x" * 9_999 + "y",
    "0",
    "forward",
    "training",
    "state",
    "unpack_state",
    "pack_state",
    "name_outputs",
    "whole",
    "input",
    "self",
    "torch",
    "graph",
    "code",
    "meta",
    "add",
    "getitem",
    "getitem_1",
    "operator",
    "print",
    "T_destination",
]


def named_graph(names: Sequence[str], seed: int = 0) -> tuple[nir.NIRGraph, str]:
    """Scale and LIF in turn under these names, between an Input and an Output with names of their own."""
    ends = [f"in{seed}", f"out{seed}"]
    while set(ends) & set(names):
        ends = [end + "_" for end in ends]
    nodes: dict[str, Any] = {ends[0]: input_node(NEURONS)}
    for index, name in enumerate(names):
        nodes[name] = lif() if index % 2 else nir.Scale(np.full(NEURONS, 1.5 + index / 100))
    nodes[ends[1]] = output_node(NEURONS)
    return nir.NIRGraph(nodes, list(pairwise(nodes)), type_check=False), ends[1]


def shape_of_source(code: str) -> str:
    """The source with its variables and attributes called by the order in which they come."""
    order: dict[tuple[bool, str], str] = {}
    tree = ast.parse(code)
    for entry in ast.walk(tree):
        for field in ("id", "attr", "arg"):
            if isinstance(text := getattr(entry, field, None), str):
                setattr(entry, field, order.setdefault((field == "attr", text), f"v{len(order)}"))
    return ast.dump(tree)


def sources(net: nirmap.Network) -> list[str]:
    """The source of a network and of its sub-graphs."""
    return [module.code for module in net.modules() if isinstance(module, torch.fx.GraphModule)]


def check_source(net: nirmap.Network, plain: nirmap.Network) -> None:
    """The source of a network and its sub-graphs has plain short identifiers and no text.

    But for them it is that of the same network with plain names: no name has become a part of it.
    """
    for code, same in zip(sources(net), sources(plain), strict=True):
        assert shape_of_source(code) == shape_of_source(same)
        for entry in ast.walk(ast.parse(code)):
            if isinstance(entry, ast.Constant):
                assert not isinstance(entry.value, str | bytes)
            for text in (getattr(entry, "id", ""), getattr(entry, "attr", ""), getattr(entry, "arg", "")):
                assert re.fullmatch(r"[A-Za-z0-9_]{0,60}", text or "")


def check_names(names: Sequence[str]) -> None:
    graph, output = named_graph(names)
    net = rebuild(graph)
    xs = inputs(6, 2, NEURONS)
    outputs, state = nirmap.run(net, xs)
    trace = simulate(graph, xs, DT)
    np.testing.assert_allclose(outputs.numpy(), trace.outputs[output], rtol=1e-9, atol=1e-9)
    assert state.keys() == {name for index, name in enumerate(names) if index % 2}
    assert set(names) == net.meta["nirmap"].nodes.keys()
    # Their order is the same, and so is that of the state.
    ranks = {name: f"n{rank:03}" for rank, name in enumerate(sorted(names))}
    check_source(net, rebuild(named_graph([ranks[name] for name in names])[0]))
    restored = copy.deepcopy(net)
    assert torch.equal(nirmap.run(restored, xs)[0], outputs)


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:24])
def test_no_name_reaches_the_source(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_names([name, "other"])
    check_names(["other", name])
    assert not list(tmp_path.iterdir()), "a name was executed"


def test_all_of_them_together_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_names(HOSTILE)
    assert not list(tmp_path.iterdir()), "a name was executed"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=30), min_size=1, max_size=6, unique=True))
@example(["a.b", "a_b", "a b", "a-b"])
@example(["a_1", "a", "a.1", "a 1"])
def test_any_names_give_the_right_numbers(names: list[str]) -> None:
    check_names(names)


def everything_under(name: str) -> nir.NIRGraph:
    """Inputs, outputs and a sub-graph with nodes of its own, under names that begin with one."""
    nodes: dict[str, Any] = {
        name + "a": input_node(NEURONS),
        name + "b": input_node(NEURONS),
        name: chain([lif()], (NEURONS,), names=[name, name + "2", name + "3"]),
        name + "c": output_node(NEURONS),
        name + "d": output_node(NEURONS),
    }
    edges = [(name + "a", name), (name + "b", name), (name, name + "c"), (name + "a", name + "d")]
    return nir.NIRGraph(nodes, edges, type_check=False)


@pytest.mark.parametrize(
    "name", ["__import__('os').system('touch executed')", "it's\n", "forward", "output", ""]
)
def test_names_of_inputs_outputs_and_sub_graphs_are_data_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = everything_under(name)
    net = rebuild(graph)
    first, second = inputs(6, 2, NEURONS), inputs(6, 2, NEURONS, seed=1)
    outputs, state = nirmap.run(net, (first, second))
    trace = simulate(graph, {name + "a": first, name + "b": second}, DT)
    for key, expected in trace.outputs.items():
        np.testing.assert_allclose(outputs[key].numpy(), expected, rtol=1e-9, atol=1e-9)
    assert state.keys() == {name}
    assert state[name].keys() == {name + "2"}
    check_source(net, rebuild(everything_under("n")))
    assert not list(tmp_path.iterdir()), "a name was executed"

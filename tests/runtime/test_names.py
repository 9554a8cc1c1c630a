"""Identifiers of nodes: what is wrong here is code from a file that is run, or two nodes taken for one."""

from __future__ import annotations

import ast
import builtins
import keyword
import random
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx import Graph, GraphModule

from nirmap.names import MAX_LENGTH, RESERVED, safe_identifiers

TEXT = st.text(max_size=30) | st.sampled_from(
    [
        "",
        "a.b",
        "a_b",
        "a-b",
        "a b",
        "a_b_1",
        "a_b_2",
        "A_b",
        "if",
        "node_if",
        "__class__",
        "class",
        "0",
        "node_0",
    ]
)


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("lif", "lif"),
        ("LIF_2", "LIF_2"),
        ("lif1.lif", "lif1_lif"),
        ("encoder/conv-1", "encoder_conv_1"),
        ("0", "node_0"),
        ("if", "node_if"),
        ("match", "node_match"),
        ("input", "node_input"),
        ("forward", "node_forward"),
        ("self", "node_self"),
        ("torch", "node_torch"),
        ("", "node"),
        ("'\n\"", "node"),
        ("__class__", "node_class"),
        ("_hidden", "hidden"),
        ("é", "e"),
        ("ニューロン", "node"),
        ("ﬁre", "fire"),
        ("x); import os; os.system('ls') #", "x_import_os_os_system_ls"),
        ("lif\n", "lif"),
        ("a" * 10_000, "a" * 40),
        ("." * 10_000, "node"),
    ],
)
def test_an_identifier_is_safe_and_still_reads_like_the_name(name: str, identifier: str) -> None:
    assert safe_identifiers([name]) == {name: identifier}


@given(st.lists(TEXT), st.sets(st.sampled_from(["a_b", "a_b_1", "lif", "node", "node_1"])), st.randoms())
def test_no_two_names_share_an_identifier_and_none_can_be_code(
    names: list[str], reserved: set[str], order: random.Random
) -> None:
    table = safe_identifiers(names, reserved)
    assert table.keys() == set(names)
    assert len(set(table.values())) == len(table)
    for identifier in table.values():
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(?![\s\S])", identifier)
        assert len(identifier) <= MAX_LENGTH
        assert not keyword.iskeyword(identifier)
        assert not keyword.issoftkeyword(identifier)
        assert not hasattr(builtins, identifier)
        assert not hasattr(torch.nn.Module, identifier)
        assert identifier not in reserved
        assert isinstance(ast.parse(identifier, mode="eval").body, ast.Name)
    shuffled = names + names[:3]
    order.shuffle(shuffled)
    assert safe_identifiers(shuffled, reserved) == table


def test_a_name_that_is_safe_keeps_itself_whatever_else_becomes_like_it() -> None:
    table = safe_identifiers(["a.b", "a/b", "a_b", "a_b_1"])
    assert table == {"a.b": "a_b_2", "a/b": "a_b_3", "a_b": "a_b", "a_b_1": "a_b_1"}


def test_a_number_does_not_lead_to_a_reserved_word() -> None:
    assert safe_identifiers(["", "."], {"node_1"}) == {"": "node", ".": "node_2"}
    assert safe_identifiers(["if"], {"node_if"}) == {"if": "node_if_1"}


def test_long_names_that_differ_at_their_end_only_stay_apart() -> None:
    names = ["x" * 10_000 + end for end in "abc"]
    assert list(safe_identifiers(names).values()) == ["x" * 40, "x" * 40 + "_1", "x" * 40 + "_2"]


def test_a_hundred_thousand_names_that_collide_are_numbered() -> None:
    """A search from 1 for each name would take five billion steps here."""
    names = ["." * (1 + number % 150) + chr(0x4E00 + number // 150) + "." for number in range(100_000)]
    table = safe_identifiers(names)
    assert len(set(table.values())) == len(set(names)) == 100_000
    assert max(map(len, table.values())) == len("node_99999")


def test_the_reserved_words_cover_the_running_python_and_torch() -> None:
    """A node called `training` must not replace the attribute, and one called `None` must not break the source."""
    module = GraphModule(torch.nn.Module(), Graph())
    words = {*dir(torch.nn.Module), *dir(module), *vars(module), *keyword.kwlist, *keyword.softkwlist}
    words |= {word for word in dir(builtins) if word not in ("display", "get_ipython")}
    assert {word for word in words if not word.startswith("_")} <= RESERVED


def test_the_names_work_as_submodules_and_arguments_of_a_graph_module() -> None:
    names = ["if", "a.b", "a_b", "x = 1\n", "__init__", "training", "", "torch", "inf", "10", "é" * 10_000]
    table = safe_identifiers(names)
    graph = Graph()
    total = graph.placeholder(table["torch"])
    for name in names:
        total = graph.call_module(table[name], (total,))
    graph.output(total)
    modules: dict[str, torch.nn.Module] = {identifier: torch.nn.Identity() for identifier in table.values()}
    assert GraphModule(modules, graph)(torch.ones(2)).tolist() == [1.0, 1.0]

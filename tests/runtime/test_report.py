"""What a conversion says that it did: if these fail, a user takes one module, delay or identifier for another."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.registry import load_registry, rows_for_node
from nirmap.report import Report
from oracle.building import chain, input_node, output_node
from runtime.suitable import DT, FRAMEWORKS, NEURONS, elementwise_rows, suitable_node, weight


def report_of(graph: nir.NIRGraph, framework: str = "torch", **wishes: Any) -> Report:
    report: Report = nirmap.from_nir(graph, framework, dt=DT, **wishes).meta["nirmap"]
    return report


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_node_is_reported_with_its_module_and_its_mapping(framework: str) -> None:
    rows = elementwise_rows(framework)
    nodes = [suitable_node(row) for row in rows]
    graph = chain(
        [nir.Linear(weight()), *nodes], (NEURONS,), names=["in", "lin", *(row.node for row in rows), "out"]
    )
    report = report_of(graph, framework)
    assert (report.framework, report.dt) == (framework, DT)
    assert (report.inputs, report.outputs) == (("in",), ("out",))
    assert report.nodes.keys() == {"lin", *(row.node for row in rows)}
    assert report.nodes["lin"].module == rows_for_node(load_registry(framework), "Linear")[0].path
    for row in rows:
        entry = report.nodes[row.node]
        assert (entry.node, entry.module, entry.source) == (row.node, row.path, row.source)
        assert entry.how == ("native" if row.normal_form is None else "normal form")


def test_what_the_caller_gave_is_reported_as_given() -> None:
    def identity(node: nir.NIRNode) -> torch.nn.Module:
        return torch.nn.Identity()

    report = report_of(chain([nir.Scale(np.ones(2))], (2,)), node_map={nir.Scale: identity})
    assert report.nodes["0"].how == "given"
    assert report.nodes["0"].module == "torch.nn.modules.linear.Identity"


def test_delays_identifiers_and_sub_graphs_are_reported_by_their_nir_names() -> None:
    lif = next(suitable_node(row) for row in elementwise_rows("torch") if row.node == "LIF")
    inner = chain([nir.Scale(np.ones(NEURONS)), lif], (NEURONS,), names=["i", "sc.ale", "lif", "o"])
    graph = nir.NIRGraph(
        {
            "b": input_node(NEURONS),
            "a": input_node(NEURONS),
            "sub graph": inner,
            "back": nir.Linear(weight()),
            "y": output_node(NEURONS),
        },
        [
            ("a", "sub graph"),
            ("b", "sub graph"),
            ("sub graph", "back"),
            ("back", "sub graph"),
            ("sub graph", "y"),
        ],
        type_check=False,
    )
    report = report_of(graph)
    assert report.inputs == ("a", "b")
    assert report.delayed == (("sub graph", "back"),)
    assert report.identifiers["sub graph"] == "sub_graph"
    assert report.nodes["sub graph"].how == "graph"
    assert report.graphs["sub graph"].identifiers["sc.ale"] == "sc_ale"
    assert report.graphs["sub graph"].nodes.keys() == {"sc.ale", "lif"}


def test_a_report_is_a_value() -> None:
    graph = chain([nir.Scale(np.ones(2))], (2,))
    report = report_of(graph)
    assert report == report_of(graph)
    assert pickle.loads(pickle.dumps(report)) == report
    with pytest.raises(FrozenInstanceError):
        report.dt = 1.0  # type: ignore[misc]

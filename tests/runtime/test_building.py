"""One node, one module: if these fail, a parameter is dropped, shared with the graph, or refused without saying why."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import nir
import numpy as np
import pytest
import torch

from nirmap.building import Builder, is_stateful, node_values, primitive_of
from nirmap.errors import ConstraintError, GraphError, UnsupportedNodeError
from nirmap.reference import LIF
from nirmap.registry import load_registry
from nirmap.resets import reset_of
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rewrites import REWRITES
from nirmap_registry.rows import NodeConstraint, Placement, Registry
from oracle.building import chain
from runtime.suitable import DT, FRAMEWORKS, elementwise_rows, suitable_node

LIF_NODE: Any = nir.LIF(
    tau=np.array([0.01, 0.02]),
    r=np.ones(2),
    v_leak=np.zeros(2),
    v_threshold=np.ones(2),
    v_reset=np.zeros(2),
)


def build(node: nir.NIRNode, framework: str = "torch", trainable: tuple[str, ...] = ()) -> Any:
    reset = reset_of(node.metadata, None, "node 'n'") or "value"
    builder = Builder(load_registry(framework), DT, Placement(), frozenset(trainable), reset=reset)
    return builder.build(node, "node 'n'")


def test_a_node_that_the_catalogue_lacks_is_refused_with_its_place() -> None:
    class Strange(nir.LIF):
        pass

    strange = Strange(tau=np.ones(1), r=np.ones(1), v_leak=np.ones(1), v_threshold=np.ones(1))
    with pytest.raises(UnsupportedNodeError, match=r"node 'n': a Strange; expected one of .*LIF"):
        primitive_of(strange, "node 'n'")


def test_a_class_that_only_has_the_name_of_a_primitive_is_not_taken_for_it() -> None:
    Impostor = type("LIF", (nir.LIF,), {})
    node = Impostor(tau=np.ones(1), r=np.ones(1), v_leak=np.ones(1), v_threshold=np.ones(1))
    with pytest.raises(UnsupportedNodeError):
        primitive_of(node, "node 'n'")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_primitive_without_a_module_is_refused_with_the_declared_reason(framework: str) -> None:
    registry = load_registry(framework)
    rewritten = {rewrite.node for rewrite in REWRITES}
    missing = PRIMITIVES.keys() - {row.node for row in registry.rows} - rewritten
    for kind in missing:
        with pytest.raises(UnsupportedNodeError) as raised:
            build(_any_node(kind), framework)
        assert raised.value.where == "node 'n'"
        assert kind in raised.value.found
        assert _reason(registry, kind) in raised.value.expected
        assert "fallback='torch'" in raised.value.do


def _reason(registry: Registry, kind: str) -> str:
    """A table gives a reason for each primitive of NIR that it does not map."""
    return (
        registry.not_mapped.get(kind, "")
        if hasattr(nir, kind)
        else f"{registry.framework} has no module for it"
    )


def _any_node(kind: str) -> nir.NIRNode:
    names = [parameter.name for parameter in PRIMITIVES[kind].declared]
    node: nir.NIRNode = PRIMITIVES[kind].node(**{name: np.full(2, 1e-2) for name in names})
    return node


def test_neuron_parameters_become_one_shape() -> None:
    node: Any = nir.LIF(tau=np.array([0.01, 0.02]), r=np.ones(2), v_leak=np.zeros(2), v_threshold=np.ones(2))
    node.r = 2  # a plain number, as a file may hold
    values = node_values(node, PRIMITIVES["LIF"], "node 'n'")
    assert values["r"].tolist() == [2.0, 2.0]
    assert node.r == 2


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_module_keeps_its_numbers_when_the_node_is_changed_afterwards(framework: str) -> None:
    for row in elementwise_rows(framework):
        node = suitable_node(row)
        module = build(node, framework).module
        expected = copy.deepcopy(module)
        for parameter in PRIMITIVES[row.node].declared:
            getattr(node, parameter.name)[:] = np.nan
        restored = pickle.loads(pickle.dumps(module))
        for other in (module, restored):
            for value, before in zip(
                other.state_dict().values(), expected.state_dict().values(), strict=True
            ):
                assert torch.equal(value, before)
        for name, value in getattr(module, "free", {}).items():
            assert not np.isnan(value).any(), name


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("tau", 0.0, "tau above 0"), ("tau", -1.0, "tau above 0"), ("r", np.nan, "finite numbers")],
)
def test_a_parameter_outside_its_domain_is_refused(name: str, value: float, expected: str) -> None:
    arguments: dict[str, Any] = {**vars_of(LIF_NODE), name: np.array([0.01, value])}
    node = nir.LIF(**arguments)
    with pytest.raises(GraphError) as raised:
        build(node)
    assert raised.value.where == "node 'n'"
    assert name in raised.value.found
    assert expected in raised.value.expected


def vars_of(node: Any) -> dict[str, Any]:
    return {
        parameter.name: getattr(node, parameter.name)
        for parameter in PRIMITIVES[type(node).__name__].declared
    }


def test_the_first_row_that_holds_is_taken_and_a_refusal_names_every_row() -> None:
    registry = load_registry("torch")
    row = next(row for row in registry.rows if row.node == "LIF")
    never = NodeConstraint(
        that="v_reset == 5",
        because="it never is",
        do="use another one",
        names=("v_reset", "dt"),
        holds=lambda node, dt: False,
    )
    refusing = replace(row, path="toy.First", requires=(never,))
    both = replace(registry, rows=(refusing, replace(row, path="toy.Second")))
    assert Builder(both, DT, Placement()).build(LIF_NODE, "node 'n'").report.module == "toy.Second"
    with pytest.raises(ConstraintError) as raised:
        Builder(replace(registry, rows=(refusing,)), DT, Placement()).build(LIF_NODE, "node 'n'")
    message = str(raised.value)
    for part in (
        "node 'n'",
        "nir.LIF with v_reset = 0, dt = 0.0001",
        "v_reset == 5",
        "toy.First: it never is",
    ):
        assert part in message
    assert raised.value.do == "use another one; or fallback='torch' takes the built-in module for this node"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_trainable_parameters_are_trained_or_refused_with_advice(framework: str) -> None:
    for row in elementwise_rows(framework):
        names = [p.name for p in PRIMITIVES[row.node].declared if p.kind == "neuron"]
        for name in names:
            if row.path.startswith("nirmap.") and name != "delay":
                module = build(suitable_node(row), framework, (name,)).module
                assert {n for n, _ in module.named_parameters()} == {name}
            else:
                with pytest.raises(ConstraintError) as raised:
                    build(suitable_node(row), framework, (name,))
                assert raised.value.where == "node 'n'"
                assert name in raised.value.found
                assert "leave it out of trainable" in raised.value.do


def test_trainable_names_that_a_node_lacks_do_not_concern_it() -> None:
    assert isinstance(build(LIF_NODE, trainable=("w_in",)).module, LIF)
    assert not list(build(LIF_NODE, trainable=("w_in",)).module.parameters())


def test_an_error_of_a_constructor_names_the_node() -> None:
    with pytest.raises(ConstraintError, match=r"node 'n' \(Delay\): a delay of 0\.00015 s"):
        build(nir.Delay(np.array([1.5 * DT])))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_was_built_says_whether_it_keeps_state_and_which(framework: str) -> None:
    for row in elementwise_rows(framework):
        built = build(suitable_node(row), framework)
        primitive = PRIMITIVES[row.node]
        assert built.stateful == primitive.stateful
        assert built.variables == {variable.name for variable in primitive.state}


def test_a_graph_keeps_state_if_a_node_in_it_does() -> None:
    scale = nir.Scale(np.ones(2))
    assert not is_stateful(scale)
    assert is_stateful(LIF_NODE)
    assert not is_stateful(chain([scale], (2,)))
    assert is_stateful(chain([chain([scale, LIF_NODE], (2,))], (2,)))
    assert is_stateful(torch.nn.Identity(), otherwise=True)  # type: ignore[arg-type]

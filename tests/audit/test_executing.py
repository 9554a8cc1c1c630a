"""If these fail, a mapping can be wrong without the audit saying so, or a right one is called wrong."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirmap.audit.cells import Cell
from nirmap.audit.drawing import draws
from nirmap.audit.executing import from_nir_cell, network_cells, primitive_cells
from nirmap.registry import frameworks, load_registry
from nirmap_registry.rows import Registry, Row

FRAMEWORKS = sorted(frameworks())


def cells(framework: str, primitive: str, count: int | None = None) -> tuple[Cell, Cell]:
    return primitive_cells(framework, load_registry(framework), primitive, draws(primitive)[:count])


def neuron_of(framework: str) -> str:
    """A neuron that the framework has a module for."""
    return "LIF" if any(row.node == "LIF" for row in load_registry(framework).rows) else "LI"


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Changes the rows of a primitive in the table of a framework, as a wrong declaration would."""

    def apply(primitive: str, framework: str = "norse", **functions: Callable[[Row], Any]) -> None:
        module = importlib.import_module(f"nirmap_registry.{framework}")
        registry: Registry = module.REGISTRY
        rows = tuple(
            replace(row, **{name: make(row) for name, make in functions.items()})
            if row.node == primitive and row.build is not None
            else row
            for row in registry.rows
        )
        monkeypatch.setattr(module, "REGISTRY", replace(registry, rows=rows))
        load_registry.cache_clear()

    yield apply
    load_registry.cache_clear()


def with_parameter(name: str, factor: float) -> Callable[[Row], Any]:
    """A build whose formula for one parameter is off by a factor."""

    def make(row: Row) -> Any:
        def build(node: Any, dt: float, to: Any) -> Any:
            assert row.build is not None
            return row.build({**node, name: factor * node[name]}, dt, to)

        return build

    return make


def nothing(row: Row) -> Any:
    return ()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_neuron_and_a_layer_are_executed_in_every_framework(framework: str) -> None:
    for primitive in (neuron_of(framework), "Conv2d"):
        for cell in cells(framework, primitive, 4):
            assert cell.status != "wrong", cell.because
            if cell.status in ("exact", "exact when", "by rewrite"):
                assert cell.modules
                assert 0 <= cell.errors["float32"] < 1e-5


@pytest.mark.parametrize(
    ("primitive", "parameter", "factor"),
    [
        ("LIF", "tau", 1.001),
        ("LI", "v_leak", 0.999),
        ("CubaLIF", "tau_syn", 1.01),
        ("IF", "v_threshold", 1.01),
    ],
)
def test_a_wrong_formula_is_wrong_in_the_audit(
    change: Callable[..., None], primitive: str, parameter: str, factor: float
) -> None:
    change(primitive, build=with_parameter(parameter, factor))
    forward, backward = cells("norse", primitive, 3)
    assert forward.status == "wrong"
    assert any("in float32" in reason for reason in forward.because)
    # The module is written as what it is, and the node that it is written as becomes another module.
    assert backward.status == "wrong"
    assert all("built again" in reason or "written back" in reason for reason in backward.because)


def with_read(name: str, factor: float) -> Callable[[Row], Any]:
    """A reading whose formula for one parameter is off by a factor."""

    def make(row: Row) -> Any:
        def read(module: Any, dt: float) -> Any:
            values = row.read(module, dt)
            return {**values, name: factor * np.asarray(values[name])}

        return read

    return make


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("formula", "make"), [("build", with_parameter), ("read", with_read)])
def test_a_wrong_formula_is_found_in_every_framework(
    change: Callable[..., None], framework: str, formula: str, make: Callable[..., Any]
) -> None:
    """With the proof at generation put aside; two draws are enough to find it."""
    primitive = neuron_of(framework)
    change(primitive, framework, **{formula: make("tau", 1.02)})
    resets = {row.reset for row in load_registry(framework).rows if row.node == primitive and row.build}
    names = {"value": primitive, "subtract": f"{primitive} (subtract)"}
    assert resets
    for row in (names[reset] for reset in resets):
        forward, backward = cells(framework, row, 2)
        assert (row, forward.status, backward.status) == (row, "wrong", "wrong")


def test_a_condition_that_is_missing_is_found_by_its_corner(change: Callable[..., None]) -> None:
    """LICell keeps its current as it has decayed, so a time constant of dt loses it."""
    assert cells("norse", "CubaLI")[0].status == "exact"
    change("CubaLI", requires=nothing)
    forward, _ = cells("norse", "CubaLI")
    assert forward.status == "wrong"
    wrong = {case.name for case in forward.cases if case.how == "wrong"}
    assert wrong == {"time constants of dt", "a neuron with r = 0"}


def test_a_condition_that_no_draw_breaks_is_a_condition_all_the_same(change: Callable[..., None]) -> None:
    def requires(row: Row) -> Any:
        (entry,) = load_registry("norse").rows[0].requires or (None,)
        assert entry is None
        from nirmap_registry.rows import NodeConstraint

        return (
            NodeConstraint(
                "r < 1e9", "it is small", "", ("r",), lambda node, dt: bool(np.all(node["r"] < 1e9))
            ),
        )

    change("LIF", requires=requires)
    forward, _ = cells("norse", "LIF")
    assert forward.status == "exact when"
    assert [entry.that for entry in forward.conditions] == ["r < 1e9"]


def test_what_a_framework_lacks_is_a_fallback_with_the_declared_reason() -> None:
    forward, backward = cells("norse", "Delay")
    assert forward.status == "fallback"
    assert forward.because == (load_registry("norse").not_mapped["Delay"],)
    assert {case.how for case in forward.cases} == {"fallback"}
    assert (backward.status, backward.because) == ("no", forward.because)


def test_feedback_is_executed_as_a_network() -> None:
    forward, backward = network_cells("torch", "LIF <-> Affine")
    assert (forward.status, backward.status) == ("exact", "exact")
    assert set(forward.modules) == {"torch.nn.Linear", "nirmap.reference.LIF"}


def test_without_draws_that_ran_nothing_is_exact() -> None:
    assert from_nir_cell("LIF", (), "there is none", ()).status != "exact"

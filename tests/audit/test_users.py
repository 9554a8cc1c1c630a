"""Modules as users make them. If these fail, a condition can be missing or wrong without the audit saying so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import snntorch
import torch

from nirmap.audit.cells import Case
from nirmap.audit.own_calls import own_outputs
from nirmap.audit.settings import Settings
from nirmap.audit.users import UsersModules
from nirmap.leaves import Leaves
from nirmap.registry import frameworks, load_registry
from nirmap_registry.rows import ModuleConstraint, Row

DT = 1e-3
FRAMEWORKS = sorted(frameworks())


def row_of(framework: str, node: str, path: str, reset: str = "value") -> Row:
    (row,) = [
        row
        for row in load_registry(framework).rows
        if (row.node, row.path.rpartition(".")[2], row.reset) == (node, path, reset)
    ]
    return row


def with_rows(framework: str, changed: Row, monkeypatch: pytest.MonkeyPatch) -> UsersModules:
    """The modules of a changed row, in a framework whose table has it in place of the original."""
    registry = load_registry(framework)
    rows = tuple(
        changed if (row.node, row.path, row.reset) == (changed.node, changed.path, changed.reset) else row
        for row in registry.rows
    )
    altered = replace(registry, rows=rows)

    def load(name: str) -> Any:
        return altered if name == framework else load_registry(name)

    for module in ("nirmap.audit.users", "nirmap.tracing"):
        monkeypatch.setattr(f"{module}.load_registry", load)
    return UsersModules(framework, changed)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_condition_is_broken_by_some_module(framework: str) -> None:
    """But for one that is about an object of nirmap's own, which only nirmap's build gives to a module."""
    unbroken: set[str] = set()
    for row in load_registry(framework).rows:
        if row.not_read:
            continue
        settings = Settings(Leaves(load_registry(framework), {}, DT), row)
        assert settings.fitting is not None, row.source
        for condition in row.reads_only_if:
            setting = settings.breaking(condition)
            if setting is None:
                unbroken.add(condition.that)
                continue
            with np.errstate(divide="ignore"):
                assert not settings.leaves.holds(condition, setting.make())
    of_reset_to = "name_of(module.reset_fn) == 'MembraneReset' or module.reset_fn.variable == 'v_mem'"
    assert unbroken == ({of_reset_to} if framework == "sinabs" else set())


@pytest.mark.parametrize(
    ("framework", "node", "path", "reset"),
    [
        ("snntorch", "LIF", "RLeaky", "value"),
        ("snntorch", "CubaLIF", "Synaptic", "subtract"),
        ("spikingjelly", "LIF", "ParametricLIFNode", "value"),
        ("spikingjelly", "LIF", "ParametricLIFNode", "subtract"),
        ("spikingjelly", "Threshold", "ATan", "value"),
        ("spikingjelly", "I", "NonSpikingIFNode", "value"),
        ("sinabs", "I", "ExpLeakSqueeze", "value"),
    ],
)
def test_a_row_that_is_never_built_is_executed_with_drawn_arguments(
    framework: str, node: str, path: str, reset: str
) -> None:
    row = row_of(framework, node, path, reset)
    cases = list(UsersModules(framework, row).as_they_are_read())
    assert cases
    for case in cases:
        assert (case.how, case.because) == ("native", "")
        assert case.errors["float32"] < 1e-6


def test_a_wrong_reading_of_a_row_that_is_never_built_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = row_of("snntorch", "LIF", "RLeaky")

    def read(module: Any, dt: float) -> Any:
        return {**row.read(module, dt), "v_reset": 1.2 * row.read(module, dt)["v_reset"]}

    modules = with_rows("snntorch", replace(row, read=read), monkeypatch)
    assert "wrong" in {case.how for case in modules.as_they_are_read()}


@pytest.mark.parametrize(
    ("framework", "node", "path", "missing"),
    [
        ("snntorch", "LIF", "RLeaky", "not module.reset_delay"),
        ("norse", "LI", "LIBoxCell", "module.dt == dt"),
        ("rockpool", "LI", "RateTorch", "module.threshold == 0"),
        ("torch", "AvgPool2d", "AvgPool2d", "module.count_include_pad or pair(module.padding) == (0, 0)"),
    ],
)
def test_a_condition_is_one_for_a_reason(
    framework: str, node: str, path: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module that is refused for it would be written wrongly without it."""
    row = row_of(framework, node, path)
    (condition,) = [entry for entry in row.reads_only_if if entry.that == missing]
    with_it = {case.name: case for case in UsersModules(framework, row).with_broken_conditions()}
    (refused,) = [case for name, case in with_it.items() if name.endswith(missing)]
    assert refused.how == "refused"
    assert condition.because in refused.because
    case = without(framework, row, condition, monkeypatch)
    assert case.how == "wrong"
    assert "the output at step" in case.because


def without(framework: str, row: Row, condition: ModuleConstraint, monkeypatch: pytest.MonkeyPatch) -> Case:
    """What the module that breaks a condition is written as, in a table that does not have the condition."""
    setting = UsersModules(framework, row).settings.breaking(condition)
    assert setting is not None
    others = tuple(entry for entry in row.reads_only_if if entry is not condition)
    modules = with_rows(framework, replace(row, reads_only_if=others), monkeypatch)
    return modules.case("without it", setting)


def test_what_a_module_returns_is_fed_back_as_its_users_do() -> None:
    """An RLeaky whose spikes are not fed back is a Leaky."""
    row = row_of("snntorch", "LIF", "RLeaky")

    def made() -> Any:
        recurrent: Callable[..., Any] = snntorch.RLeaky
        return recurrent(
            beta=0.5, V=-3.0, all_to_all=False, threshold=0.5, reset_mechanism="zero", reset_delay=False
        )

    xs = torch.ones(3, 1, 1)
    module = made()
    spikes, membrane = torch.zeros(1, 1), torch.zeros(1, 1)
    expected: list[torch.Tensor] = []
    with torch.no_grad():
        for x in xs:
            spikes, membrane = module(x, spikes, membrane)
            expected.append(spikes)
    torch.testing.assert_close(own_outputs(made(), row, xs, 1e-3), torch.stack(expected))
    assert [float(spike) for spike in expected] == [1.0, 0.0, 0.0]

"""torch.compile and torch.export of modules that nirmap built: if these fail, they give other numbers, or none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from nirmap_registry.rows import Row
from runtime.suitable import NEURONS, build, inputs, same_state, stateful_rows, suitable_node
from runtime.test_series import STEPS, example, named, rebuilt

STATEFUL = [
    pytest.param(framework, row, id=f"{framework}-{row.node}-{row.module.__name__}")
    for framework, row in stateful_rows()
]


@pytest.mark.parametrize(("framework", "row"), STATEFUL)
def test_compiled_and_exported_a_module_gives_the_same(framework: str, row: Row) -> None:
    torch.compiler.reset()
    module = build(framework, row, suitable_node(row))
    x = inputs(3, NEURONS)
    expected, state = module(x, None)
    expected_next, _ = module(x, state)
    compiled: Any = torch.compile(module, backend="eager", fullgraph=True)
    output, new_state = compiled(x, None)
    assert torch.equal(output, expected)
    assert torch.equal(compiled(x, new_state)[0], expected_next)
    exported: Any = torch.export.export(module, (x, state)).module()
    assert torch.equal(exported(x, state)[0], expected_next)
    assert torch.equal(copy.deepcopy(module)(x, None)[0], expected)


# One whose parts keep the state, one that begins every step anew, and one of cells; that each framework's own cells can
# be compiled is tested with them.
COMPILED = [
    ("torch", "cuba_lif_as_series"),
    ("torch", "threshold_as_neuron"),
    ("sinabs", "cuba_lif_as_series"),
]


@pytest.mark.parametrize(("framework", "name"), COMPILED)
def test_a_compiled_series_gives_the_same(framework: str, name: str) -> None:
    torch.compiler.reset()
    rewrite = named(name)
    net = rebuilt(example(rewrite), framework, rewrite)
    compiled: Any = torch.compile(net, backend="eager", fullgraph=True)
    xs = inputs(STEPS, 2, NEURONS)
    with torch.no_grad():
        _, state = net(xs[0])
        expected_state = state
        for x in xs:
            output, state = compiled(x, state)
            expected, expected_state = net(x, expected_state)
            assert torch.equal(output, expected)
            assert same_state(state, expected_state)

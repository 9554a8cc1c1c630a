"""Drawn models against the oracle: whatever mixture of layers, sums, scales and feedback a forward is.

If these fail, somebody's model computes one thing and its file another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import nirmap
from nirmap.errors import TraceError
from nirmap.oracle.interpreter import margin, simulate
from nirmap.reference import Threshold
from written import DT, cuba, inputs, li, lif, linear, stepped

pytestmark = pytest.mark.filterwarnings("ignore::nirmap.errors.DelayWarning")

Tensor = torch.Tensor
UNHELPFUL = [HealthCheck.filter_too_much, HealthCheck.too_slow]
WIDTH = 3
STATEFUL: dict[str, Callable[[int], torch.nn.Module]] = {"lif": lif, "li": li, "cuba": cuba}
SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "add": lambda a, b: torch.add(a, b, alpha=0.5),
    "sum": lambda a, b: sum([a, b, a]),
    "stack": lambda a, b: torch.stack([a, b, a], -1).sum(-1),
    "mean": lambda a, b: torch.mean(torch.stack([a, b]), 0),
    "+=": lambda a, b: (a * 1).add_(b),
}
SCALES: dict[str, Callable[[Any], Any]] = {
    "*": lambda a: a * 0.5,
    "/": lambda a: a / 4,
    "neg": lambda a: -a,
    "r*": lambda a: 2 * a,
}


@dataclass(frozen=True)
class Line:
    """One line of a forward: what it does to which of the values so far; `late` names a line whose past it adds."""

    kind: str
    first: int
    second: int
    late: int | None


class Drawn(torch.nn.Module):
    """A model whose forward is a drawn list of lines."""

    def __init__(self, lines: list[Line]) -> None:
        super().__init__()
        self.lines = lines
        self.parts = torch.nn.ModuleDict()
        self.back = torch.nn.ModuleDict()
        self.gain = torch.nn.Parameter(torch.tensor([0.5, 1.5, -1.0], dtype=torch.float64))
        for index, line in enumerate(lines):
            if line.kind in STATEFUL:
                self.parts[str(index)] = STATEFUL[line.kind](WIDTH)
            elif line.kind == "linear":
                self.parts[str(index)] = linear(bias=index % 2 == 0, seed=index)
            elif line.kind == "threshold":
                self.parts[str(index)] = Threshold(torch.tensor([0.2, 0.5, 0.8], dtype=torch.float64))
            if line.late is not None:
                self.back[str(index)] = linear(bias=line.late % 2 == 0, seed=100 + index)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        if state is None:
            late = {line.late for line in self.lines if line.late is not None}
            zeros = torch.zeros_like(x)
            state = {"kept": {}, "late": dict.fromkeys(late, zeros)}
        values: list[Any] = [x]
        kept: dict[int, Any] = {}
        outputs: dict[int, Any] = {}
        for index, line in enumerate(self.lines):
            value = values[line.first % len(values)]
            if line.late is not None:
                value = value + self.back[str(index)](state["late"][line.late])
            value = self.step(index, line, value, values[line.second % len(values)], state["kept"], kept)
            values.append(value)
            outputs[index] = value
        return values[-1], {"kept": kept, "late": {key: outputs[key] for key in state["late"]}}

    def step(self, index: int, line: Line, value: Any, other: Any, before: Any, kept: Any) -> Any:
        if line.kind in STATEFUL:
            value, kept[index] = self.parts[str(index)](value, before.get(index))
            return value
        if line.kind in SUMS:
            return SUMS[line.kind](value, other)
        if line.kind in SCALES:
            return SCALES[line.kind](value)
        return value * self.gain if line.kind == "gain" else self.parts[str(index)](value)


KINDS = st.sampled_from([*STATEFUL, *STATEFUL, "linear", "linear", "threshold", "gain", *SUMS, *SCALES])


@st.composite
def models(draw: st.DrawFn) -> Drawn:
    """A model of up to eight lines that ends in a neuron; lines of neurons may be fed back to earlier ones."""
    kinds = [*draw(st.lists(KINDS, min_size=1, max_size=7)), draw(st.sampled_from(sorted(STATEFUL)))]
    neurons = [index for index, kind in enumerate(kinds) if kind in STATEFUL]
    lines: list[Line] = []
    for index, kind in enumerate(kinds):
        first = draw(st.sampled_from([index, index, index, draw(st.integers(0, index))]))
        later = [other for other in neurons if other >= index]
        late = draw(st.sampled_from([None, None, draw(st.sampled_from(later))])) if later else None
        lines.append(Line(kind, first, draw(st.integers(0, index)), late))
    return Drawn(lines)


@settings(max_examples=120, suppress_health_check=UNHELPFUL)
@given(models(), st.integers(0, 1000))
def test_the_graph_of_a_model_computes_what_the_model_computes(model: Drawn, seed: int) -> None:
    xs = inputs(WIDTH, steps=12, seed=seed)
    try:
        graph = nirmap.to_nir(model, dt=DT)
    except TraceError as error:
        if "one step late in the module" in str(error) or "the same output of the step before" in str(error):
            assume(False)
        raise
    trace = simulate(graph, xs.numpy(), DT)
    assume(margin(trace) > 1e-9)
    expected = stepped(model, xs, 1).numpy()
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(trace.outputs["output"], expected, rtol=1e-8, atol=1e-8 * scale)
    net = nirmap.from_nir(graph, dt=DT, dtype=torch.float64)
    with torch.no_grad():
        outputs, _ = nirmap.run(net, xs)
    np.testing.assert_allclose(outputs.numpy(), expected, rtol=1e-8, atol=1e-8 * scale)


def test_most_drawn_models_can_be_written() -> None:
    written: list[bool] = []

    @settings(max_examples=60, database=None, suppress_health_check=UNHELPFUL)
    @given(models())
    def count(model: Drawn) -> None:
        try:
            graph = nirmap.to_nir(model, dt=DT)
        except TraceError:
            written.append(False)
            return
        written.append(any(line.late is not None for line in model.lines) and len(graph.nodes) > 4)

    count()
    assert sum(written) > 5, "models with feedback are hardly ever drawn"

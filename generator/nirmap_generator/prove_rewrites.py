"""Proof of every rewrite: the node and its series are stepped side by side, by the equations of the catalogue.

Parameters, inputs and the state before the first step are drawn; every output and every state variable has to be the
same, up to rounding, and the parameters that are read back are those of the node. Spikes say little of what they come
from: where node and series spike, both have to be as far from their thresholds, in a unit that stays the same. A
per-neuron parameter and a weight are one number here. What steps are made of is the catalogue alone: neither torch nor
a framework has a part in it.
"""

from __future__ import annotations

import ast
import functools
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nirmap_generator.draw import Draw
from nirmap_generator.evaluate import EvaluationError, evaluate
from nirmap_generator.expressions import Expression, parse
from nirmap_generator.model import Catalogue, Located, Primitive
from nirmap_generator.problems import Problems
from nirmap_generator.prove import fulfils, impose, same, shown
from nirmap_generator.rewrites import Rewrite

Values = dict[str, Any]
DRAWS, STEPS = 16, 24
TOLERANCE = 1e-9


def prove_rewrites(catalogue: Catalogue, rewrites: tuple[Rewrite, ...], problems: Problems) -> None:
    """Proves every rewrite; each failure is a problem that shows the counter-example."""
    for rewrite in rewrites:
        try:
            _prove(rewrite, catalogue, problems)
        except EvaluationError as error:
            problems.add(rewrite.place.problem(f"no proof: {error}", "expressions that have a value"))


def _prove(rewrite: Rewrite, catalogue: Catalogue, problems: Problems) -> None:
    primitive = catalogue.primitives[rewrite.node]
    for part in rewrite.series:
        other = catalogue.primitives[part.node]
        if other.shape not in ("elementwise", "linear") or primitive.shape not in ("elementwise", "linear"):
            expected = "nodes that act on each neuron alone, or linear ones"
            problems.add(part.place.problem(f"a {part.node}", expected, "such a rewrite cannot be proven"))
            return
    draw, numbers = Draw(rewrite.name, primitive), random.Random(rewrite.name)
    proven = 0
    for node in draw.nodes():
        for constraint in rewrite.requires:
            impose(constraint, node)
        if not all(fulfils(constraint, node) for constraint in rewrite.requires):
            continue
        counter = _counter_example(rewrite, catalogue, node, numbers)
        if counter:
            found = f"the series is not the node: {counter}; drawn: {shown(node)}"
            problems.add(rewrite.place.problem(found, "the same output and state in every step"))
            return
        proven += 1
        if proven == DRAWS:
            return
    problems.add(rewrite.place.problem("requirements that few drawn nodes fulfil", f"{DRAWS} nodes that do"))


def _counter_example(
    rewrite: Rewrite, catalogue: Catalogue, node: Values, numbers: random.Random
) -> str | None:
    """What differs between a node and its series; None where nothing does."""
    primitive, dt = catalogue.primitives[rewrite.node], node["dt"]
    parts = {
        part.name: {name: evaluate(entry.expression, node) for name, entry in part.parameters.items()}
        for part in rewrite.series
    }
    reading = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    for name, located in rewrite.read.items():
        again = evaluate(located.expression, {**reading, "dt": dt})
        if not same(again, node[name]):
            return f"{name} = {node[name]!r} is read back as {again!r}"
    state = {name: numbers.uniform(-1, 1) for name in primitive.state}
    # Where the node keeps no state, none of the parts' may matter.
    inner = {
        part.name: {name: numbers.uniform(-1, 1) for name in catalogue.primitives[part.node].state}
        for part in rewrite.series
    }
    for name, (holder, variable) in rewrite.state.items():
        inner[holder][variable] = state[name]
    size = 1 / min(1.0, abs(float(node.get("r", 1.0)) or 1.0))
    distances: list[tuple[Distance, Distance]] = []
    for step in range(STEPS):
        x = numbers.uniform(-2, 4) * size
        own = last = stepped(primitive, node, state, x, dt)
        signal = x
        for part in rewrite.series:
            other = catalogue.primitives[part.node]
            last = stepped(other, parts[part.name], inner[part.name], signal, dt)
            signal = last.output
        if not own.clear:
            break  # At the threshold rounding decides.
        compared = [("the output", own.output, signal)]
        compared += [
            (name, state[name], inner[holder][variable]) for name, (holder, variable) in rewrite.state.items()
        ]
        for name, expected, found in compared:
            if not math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE * max(1.0, abs(x))):
                return f"in step {step}, {name} is {expected:.6g}, and that of the series {found:.6g}"
        if own.distance is not None and last.distance is not None and own.distance.value != 0:
            distances.append((own.distance, last.distance))
    return _distances_differ(distances)


def _distances_differ(distances: list[tuple[Distance, Distance]]) -> str | None:
    """Where the distances to the thresholds of a node and of its series are not proportional; None where they are.

    The factor is that of the step in which the node's distance is the most exact; what is shown is in the series' unit.
    """
    if not distances:
        return None
    own, other = max(distances, key=lambda pair: abs(pair[0].value) / pair[0].size)
    factor = other.value / own.value
    for step, (own, other) in enumerate(distances):
        expected = factor * own.value
        if abs(expected - other.value) > TOLERANCE * (abs(factor) * own.size + other.size):
            found = f"{expected:.9g}, and that of the series {other.value:.9g}"
            return f"in step {step}, the distance to the threshold is {found}"
    return None


@dataclass(frozen=True)
class Distance:
    """How far above its threshold something is, and the size of the numbers of which that is the difference."""

    value: float
    size: float


@dataclass(frozen=True)
class Step:
    """What a step gave.

    Attributes:
        output: the output.
        clear: whether the membrane potential was clearly on one side of the threshold.
        distance: how far above the threshold it was before the reset; None for a node that does not spike.
    """

    output: float
    clear: bool = True
    distance: Distance | None = None


def stepped(primitive: Primitive, parameters: Mapping[str, Any], state: Values, x: float, dt: float) -> Step:
    """One step of forward Euler; the state is changed in place."""
    scope: Values = {**parameters, "input": x}
    if primitive.shape == "linear":
        bias = _float(parameters["bias"]) if "bias" in parameters else 0.0
        return Step(_float(parameters["weight"]) * x + bias)
    for name, located in primitive.dynamics.items():
        state[name] += dt * _float(evaluate(located.expression, {**scope, **state}))
    spiked, clear, distance = False, True, None
    if primitive.spike is not None:
        distance = _distance(primitive.spike, {**scope, **state})
        spiked = bool(evaluate(primitive.spike.expression, {**scope, **state}))
        # A condition that turns with the smallest change of a state or of the input is at the threshold.
        for factor in (1 - TOLERANCE, 1 + TOLERANCE):
            moved = {name: value * factor for name, value in {**state, "input": x}.items()}
            clear &= bool(evaluate(primitive.spike.expression, {**scope, **moved})) is spiked
        if spiked:
            state.update(
                {
                    name: evaluate(entry.expression, {**scope, **state})
                    for name, entry in primitive.reset.items()
                }
            )
    if primitive.output is None:
        raise EvaluationError(f"{primitive.name} has no equation for its output")
    output = _float(evaluate(primitive.output.expression, {**scope, **state, "spike": spiked}))
    return Step(output, clear, distance)


def _distance(spike: Located, scope: Values) -> Distance:
    left, right = (_float(evaluate(side, scope)) for side in _sides(spike.expression.text))
    return Distance(left - right, max(abs(left), abs(right)))


@functools.cache
def _sides(text: str) -> tuple[Expression, Expression]:
    """The two sides of ``left > right``."""
    body = parse(text).tree.body
    if isinstance(body, ast.Compare) and len(body.ops) == 1 and isinstance(body.ops[0], ast.Gt):
        return parse(ast.unparse(body.left)), parse(ast.unparse(body.comparators[0]))
    raise EvaluationError(f"{text!r} is no comparison as 'v > v_threshold' is one")


def _float(value: object) -> float:
    if isinstance(value, bool | int | float):
        return float(value)
    raise EvaluationError(f"{value!r} is not a number")

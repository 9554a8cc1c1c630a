"""Proof of every rewrite: the node and its series are stepped side by side, by the equations of the catalogue.

Parameters, inputs and the state before the first step are drawn; every output and every state variable has to be the
same, up to rounding, and the parameters that are read back are those of the node. A per-neuron parameter and a weight
are one number here. What steps are made of is the catalogue alone: neither torch nor a framework has a part in it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from nirmap_generator.draw import Draw
from nirmap_generator.evaluate import EvaluationError, evaluate
from nirmap_generator.model import Catalogue, Primitive
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
    for step in range(STEPS):
        x = numbers.uniform(-2, 4) * size
        output, clear = stepped(primitive, node, state, x, dt)
        signal = x
        for part in rewrite.series:
            signal, _ = stepped(
                catalogue.primitives[part.node], parts[part.name], inner[part.name], signal, dt
            )
        if not clear:
            return None  # At the threshold rounding decides.
        compared = [("the output", output, signal)]
        compared += [
            (name, state[name], inner[holder][variable]) for name, (holder, variable) in rewrite.state.items()
        ]
        for name, expected, found in compared:
            if not math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE * max(1.0, abs(x))):
                return f"in step {step}, {name} is {expected:.6g}, and that of the series {found:.6g}"
    return None


def stepped(
    primitive: Primitive, parameters: Mapping[str, Any], state: Values, x: float, dt: float
) -> tuple[float, bool]:
    """One step of forward Euler; the state is changed in place.

    Returns:
        The output, and whether the membrane potential was clearly on one side of the threshold.
    """
    scope: Values = {**parameters, "input": x}
    if primitive.shape == "linear":
        bias = _float(parameters["bias"]) if "bias" in parameters else 0.0
        return _float(parameters["weight"]) * x + bias, True
    for name, located in primitive.dynamics.items():
        state[name] += dt * _float(evaluate(located.expression, {**scope, **state}))
    spiked, clear = False, True
    if primitive.spike is not None:
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
    return _float(evaluate(primitive.output.expression, {**scope, **state, "spike": spiked})), clear


def _float(value: object) -> float:
    if isinstance(value, bool | int | float):
        return float(value)
    raise EvaluationError(f"{value!r} is not a number")

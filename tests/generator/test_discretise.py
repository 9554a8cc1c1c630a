"""If these fail, a neuron that is said to be stepped exactly is not."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from declaring import declared
from nirmap_generator.discretise import NotExact, exact_step, methods
from nirmap_generator.expressions import parse
from nirmap_generator.model import Located, Primitive, StateVariable

mpmath: Any = importlib.import_module("mpmath")

CATALOGUE = declared().catalogue
CUBA = CATALOGUE.primitives["CubaLI"]
DT = 0.25
times = st.floats(1e-3, 1e3)
levels = st.floats(-3, 3)
# Equations of two and more variables, in the parameters of CubaLI; a is driven by none, and every other one by a.
LINEAR = [
    {"a": "(w_in * input - a) / tau_syn", "b": "(v_leak - b + r * a) / tau_mem"},
    {"a": "w_in * input", "b": "(v_leak - b + r * a) / tau_mem"},
    {"a": "w_in * input", "b": "r * a"},
    {"a": "(w_in - a) / tau_syn", "b": "r * a - w_in"},
    {"b": "r * a - b / tau_mem", "a": "-a / tau_syn + input"},
    {"a": "-a / tau_syn", "b": "r * a - b / tau_mem", "c": "(v_leak * a - c) / tau_syn + input"},
    {"a": "a / tau_syn + input", "b": "w_in * b - r * a"},
    {"a": "exp(-v_leak) * a", "b": "a - sqrt(tau_mem) * b"},
]


def with_dynamics(dynamics: dict[str, str]) -> Primitive:
    place = CUBA.dynamics["v"].place
    return replace(
        CUBA,
        state={name: StateVariable(name, "1", name, Located(parse("0"), place)) for name in dynamics},
        dynamics={name: Located(parse(text), place) for name, text in dynamics.items()},
    )


def exprel(x: Any) -> Any:
    return mpmath.expm1(x) / x if x else mpmath.mpf(1)


def exp_difference(a: Any, b: Any) -> Any:
    return mpmath.exp(b) * exprel(a - b)


def value(text: str, names: dict[str, Any]) -> Any:
    functions = {"exp": mpmath.exp, "sqrt": mpmath.sqrt, "exprel": exprel, "exp_difference": exp_difference}
    library = SimpleNamespace(exp=mpmath.exp, sqrt=mpmath.sqrt)
    return eval(
        text, {"self": SimpleNamespace(**names), "np": library, "torch": library, **functions, **names}
    )


@pytest.mark.parametrize("dynamics", LINEAR, ids=lambda dynamics: "; ".join(dynamics.values()))
@settings(max_examples=20)
@given(tau=times, ratio=st.sampled_from([1.0, 1 + 1e-12, 1.001, 0.01, 30.0]), drawn=st.tuples(*[levels] * 5))
def test_a_step_is_the_exponential_of_the_matrix(
    dynamics: dict[str, str], tau: float, ratio: float, drawn: tuple[float, ...]
) -> None:
    """Held against mpmath's, of the equations as they are evaluated, with 60 digits."""
    primitive = with_dynamics(dynamics)
    with mpmath.workdps(60):
        r, v_leak, w_in, x, start = map(mpmath.mpf, drawn)
        tau_syn = mpmath.mpf(tau)
        parameters = {"tau_syn": tau_syn, "tau_mem": tau_syn * ratio, "r": r, "v_leak": v_leak, "w_in": w_in}
        names = {**parameters, "input": x, "dt": mpmath.mpf(DT)}
        state = {name: start + index for index, name in enumerate(dynamics)}

        def rates(at: dict[str, Any]) -> list[Any]:
            return [value(text, {**names, **at}) for text in dynamics.values()]

        zero = dict.fromkeys(dynamics, mpmath.mpf(0))
        constant = rates(zero)
        columns = [
            [rate - base for rate, base in zip(rates({**zero, name: mpmath.mpf(1)}), constant, strict=True)]
            for name in dynamics
        ]
        size = len(dynamics)
        matrix = mpmath.zeros(size + 1)
        for row in range(size):
            matrix[row, size] = constant[row]
            for column in range(size):
                matrix[row, column] = columns[column][row]
        expected = mpmath.expm(matrix * DT) * mpmath.matrix([*state.values(), 1])
        rate = dict(zip(dynamics, rates(state), strict=True))
        step = exact_step(primitive)
        names |= {name: value(text, names) for name, text in step.factors.items()}
        for row, name in enumerate(dynamics):
            weights = step.weights[name]
            total = sum(rate[entry.source] * value(entry.python or "1", names) for entry in weights)
            found = state[name] + DT * total
            assert abs(found - expected[row]) <= mpmath.mpf(10) ** -25 * (1 + abs(expected[row]))


@pytest.mark.parametrize(
    "name",
    [name for name, entry in CATALOGUE.primitives.items() if entry.dynamics and not entry.is_extension],
)
def test_every_neuron_of_nir_has_both_methods(name: str) -> None:
    assert methods(CATALOGUE.primitives[name]) == ("forward_euler", "exponential")


def test_what_has_no_dynamics_has_no_method() -> None:
    assert methods(CATALOGUE.primitives["Delay"]) == methods(CATALOGUE.primitives["Affine"]) == ()


@pytest.mark.parametrize(
    ("dynamics", "reason"),
    [
        ({"v": "v ** 2 / tau_mem"}, "d/dt v is not linear in the state"),
        ({"v": "exp(v / v_leak)"}, "d/dt v is not linear in the state"),
        ({"v": "input * v / tau_mem"}, "d/dt v is not linear in the state"),
        ({"v": "w * r", "w": "v * r"}, "w drives v, and v drives w"),
        ({"u": "-u", "v": "u - v", "w": "v - w"}, "v drives w, and u drives v"),
        ({"v": "minimum(v, v_leak)"}, "d/dt v is not linear in the state"),
        ({"v": "nearest(v)"}, "nearest"),
        ({"v": "abs(r) * v"}, "has no spelling"),
    ],
)
def test_what_is_not_exact_has_forward_euler_only(dynamics: dict[str, str], reason: str) -> None:
    primitive = with_dynamics(dynamics)
    with pytest.raises(NotExact) as error:
        exact_step(primitive)
    assert reason in str(error.value)
    assert methods(primitive) == ("forward_euler",)

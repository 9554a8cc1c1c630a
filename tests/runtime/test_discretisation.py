"""If these fail, ``method="exponential"`` is not exact, or is not what a user gets who asks for it."""

from __future__ import annotations

import importlib
import math
from itertools import pairwise
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nirmap
from nirmap.discretisation import Method, exp_difference, exprel
from nirmap.errors import ConstraintError, UnsupportedNodeError
from nirmap.graph_cells import GraphCell
from nirmap.oracle.interpreter import margin, simulate
from nirmap.reference import LIF, CubaLI
from oracle.building import chain, input_node, output_node
from oracle.parameters import NEURONS, SPIKING, neuron
from oracle.parameters import TIME_STEP as DT
from runtime.suitable import FRAMEWORKS, backward

mpmath: Any = importlib.import_module("mpmath")

WIDTH = 3
# Times over which both methods have the same input, in which it changes once.
COARSE, STEPS = 8, 12
exponents = st.floats(-1e3, 20) | st.floats(-1, 1) | st.sampled_from([0.0, -0.1, 0.1, 1e-300, -1e-16])


def tensor(*values: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def noise(seed: int, steps: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0.6, 1, (steps, 2, WIDTH))


def stepped(
    node: nir.NIRNode, xs: np.ndarray[Any, Any], dt: float, method: Method, reset: Any = None
) -> tuple[np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
    """Output and state after the last step, as float64."""
    net = nirmap.from_nir(chain([node], (WIDTH,)), dt=dt, method=method, dtype=torch.float64, reset=reset)
    output, state = nirmap.run(net, torch.tensor(xs))
    values = {name: value.detach().numpy() for name, value in state["0"].items()}
    return output.detach().numpy(), values


@given(exponents)
def test_exprel_is_that_of_mpmath(x: float) -> None:
    with mpmath.workdps(40):
        exact = float(mpmath.expm1(mpmath.mpf(x)) / mpmath.mpf(x)) if x else 1.0
    assert float(exprel(tensor(x))[0]) == pytest.approx(exact, rel=1e-15, abs=0)
    single = exprel(tensor(x, dtype=torch.float32))
    assert float(single[0]) == pytest.approx(exact, rel=4e-6)


@given(st.floats(-500, 5), st.floats(-500, 5) | st.sampled_from([0.0, 1e-15, 1e-8, -1e-3]), st.booleans())
def test_a_divided_difference_is_accurate_however_near_its_points_are(
    a: float, other: float, near: bool
) -> None:
    b = a + other * abs(a) / 1000 if near else other
    with mpmath.workdps(400):
        p, q = mpmath.mpf(a), mpmath.mpf(b)
        exact = float((mpmath.exp(p) - mpmath.exp(q)) / (p - q)) if a != b else float(mpmath.exp(p))
    # The exponential of a number near -500 has a relative error of as many roundings of the number.
    for found in (exp_difference(tensor(a), tensor(b)), exp_difference(tensor(b), tensor(a))):
        assert float(found[0]) == pytest.approx(exact, rel=1e-15 * (4 + abs(a) + abs(b)), abs=0)


@pytest.mark.parametrize("x", [-30.0, -0.5, -0.11, -0.1, -0.09, -1e-4, -1e-9, 0.0, 1e-9, 0.099, 0.3, 2.0])
def test_the_gradient_of_exprel_has_all_its_digits(x: float) -> None:
    """Time constants can be trained: expm1(x) / x has no digit left in its derivative near 0."""
    at = tensor(x).requires_grad_()
    backward(exprel(at).sum())
    with mpmath.workdps(50):
        y = mpmath.mpf(x)
        exact = float((mpmath.exp(y) * y - mpmath.expm1(y)) / y**2) if x else 0.5
    assert at.grad is not None
    assert float(at.grad[0]) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("b", [-0.7, -0.7 + 1e-9, -0.69, -3.0])
def test_the_gradient_of_a_divided_difference_is_that_of_its_values(b: float) -> None:
    points = (tensor(-0.7).requires_grad_(), tensor(b).requires_grad_())
    assert torch.autograd.gradcheck(exp_difference, points)  # pyright: ignore[reportPrivateImportUsage]


@pytest.mark.parametrize("kind", sorted(NEURONS))
@settings(max_examples=15)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), reset=st.sampled_from(["value", "subtract"]))
def test_a_neuron_does_what_the_oracle_says(kind: str, data: st.DataObject, seed: int, reset: Any) -> None:
    """The oracle's step is the exponential of a matrix: neither formula nor code is shared."""
    node, xs = data.draw(neuron(kind, (WIDTH,))), noise(seed, 40)
    if kind in SPIKING:
        node.metadata["reset"] = reset
    trace = simulate(chain([node], (WIDTH,)), xs, DT, method="exponential")
    assume(margin(trace) > 1e-9)
    output, state = stepped(node, xs, DT, "exponential")
    np.testing.assert_allclose(output, trace.outputs["output"], rtol=1e-11, atol=1e-11)
    for name, values in trace.states[("0",)].items():
        np.testing.assert_allclose(state[name], values[-1], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", sorted(NEURONS - SPIKING))
@settings(max_examples=15)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_small_steps_lead_where_a_large_one_does(kind: str, data: st.DataObject, seed: int) -> None:
    """The input is held, so both are exact; forward Euler goes elsewhere."""
    node, xs = data.draw(neuron(kind, (WIDTH,))), noise(seed, STEPS)
    coarse = stepped(node, xs, DT, "exponential")[1]
    fine = stepped(node, np.repeat(xs, COARSE, axis=0), DT / COARSE, "exponential")[1]
    for name, values in coarse.items():
        np.testing.assert_allclose(values, fine[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", sorted(NEURONS - SPIKING - {"I"}))
@settings(max_examples=10)
@given(data=st.data())
def test_the_error_of_forward_euler_halves_with_the_step(kind: str, data: st.DataObject) -> None:
    """Over a fixed time, against the exact method: order 1."""
    node = data.draw(neuron(kind, (WIDTH,)))
    xs = np.full((1, 1, WIDTH), 0.8)
    exact = stepped(node, np.repeat(xs, 5, axis=0), DT, "exponential")[1]["v"]
    errors = [
        np.abs(stepped(node, np.repeat(xs, 5 * parts, axis=0), DT / parts, "forward_euler")[1]["v"] - exact)
        for parts in (32, 64, 128)
    ]
    # Where the leading term of the error happens to cancel, there is no order to be seen.
    seen = errors[0] > 1e-4 * np.abs(exact).max()
    for coarse, fine in pairwise(errors):
        np.testing.assert_allclose((coarse / fine)[seen], 2, rtol=0.1)


@settings(max_examples=25)
@given(
    tau=st.floats(2e-3, 5e-2),
    threshold=st.floats(0.1, 0.9),
    v_reset=st.floats(-0.5, 0.05),
    drive=st.floats(1.1, 5),
)
def test_spikes_come_in_the_step_in_which_the_closed_form_crosses(
    tau: float, threshold: float, v_reset: float, drive: float
) -> None:
    """``v(t) = drive + (v(0) - drive) exp(-t / tau)``: the time of each spike to within one step."""
    dt, steps = 1e-3, 150
    first = tau * math.log(drive / (drive - threshold)) / dt
    later = tau * math.log((drive - v_reset) / (drive - threshold)) / dt
    # A crossing at the end of a step is decided by rounding.
    assume(all(abs(time - round(time)) > 1e-6 for time in (first, later)))
    expected = np.arange(math.floor(first), steps, math.floor(later) + 1)
    names = {"tau": tau, "r": 1.0, "v_leak": 0.0, "v_threshold": threshold, "v_reset": v_reset}
    constants: dict[str, Any] = {name: np.full(WIDTH, value) for name, value in names.items()}
    node = nir.LIF(**constants)
    output, _ = stepped(node, np.full((steps, 1, WIDTH), drive), dt, "exponential")
    np.testing.assert_array_equal(np.flatnonzero(output[:, 0, 0]), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("tau_syn", "tau_mem"),
    [(1e-2, 1e-2 * ratio) for ratio in (1, 1 + 1e-6, 1 - 1e-12, 1e-5, 1e5)] + [(1e-7, 1e-2), (1e3, 1e-2)],
)
def test_equal_and_very_different_time_constants_are_exact(
    tau_syn: float, tau_mem: float, dtype: torch.dtype
) -> None:
    r, v_leak, w_in, x, dt, steps = 2.0, 0.25, 1.5, 0.75, 1e-3, 25
    names = {"tau_syn": tau_syn, "tau_mem": tau_mem, "r": r, "v_leak": v_leak, "w_in": w_in}
    constants = {name: tensor(value, dtype=dtype) for name, value in names.items()}
    module = CubaLI(**constants, dt=dt, method="exponential")
    _, state = module(tensor(x, dtype=dtype))
    for _ in range(steps - 1):
        _, state = module(tensor(x, dtype=dtype), state)
    with mpmath.workdps(60):
        syn, mem = (mpmath.mpf(float(value)) for value in (module.tau_syn, module.tau_mem))
        matrix = [[-1 / syn, 0, w_in * x / syn], [r / mem, -1 / mem, v_leak / mem], [0, 0, 0]]
        i, v, _ = mpmath.expm(mpmath.matrix(matrix) * mpmath.mpf(dt) * steps) * mpmath.matrix([0, 0, 1])
    tolerance = 20 * torch.finfo(dtype).eps
    assert float(state["i"]) == pytest.approx(float(i), rel=tolerance)
    assert float(state["v"]) == pytest.approx(float(v), rel=tolerance, abs=tolerance * r * float(i) / 1e3)


@pytest.mark.parametrize("ratio", [1.0, 1 + 1e-7, 0.5])
def test_time_constants_are_trained_also_where_they_are_equal(ratio: float) -> None:
    def after(tau_syn: torch.Tensor, tau_mem: torch.Tensor) -> torch.Tensor:
        names = {"tau_syn": tau_syn, "tau_mem": tau_mem}
        constants = {name: tensor(0.7) for name in ("r", "v_leak", "w_in")}
        module = CubaLI(**names, **constants, dt=0.1, method="exponential")
        state: Any = None
        for _ in range(3):
            _, state = torch.func.functional_call(module, names, (tensor(1.3), state))
        voltage: torch.Tensor = state["v"]
        return voltage

    points = (tensor(1.1).requires_grad_(), tensor(1.1 * ratio).requires_grad_())
    assert torch.autograd.gradcheck(after, points)  # pyright: ignore[reportPrivateImportUsage]


CONSTANTS: dict[str, Any] = {
    name: np.full(WIDTH, value)
    for name, value in {"tau": 5e-3, "r": 1.0, "v_leak": 0.0, "v_threshold": 0.5, "v_reset": 0.0}.items()
}
LI_NODE = nir.LI(CONSTANTS["tau"], CONSTANTS["r"], CONSTANTS["v_leak"])
LIF_NODE = nir.LIF(**CONSTANTS)


@pytest.mark.parametrize("framework", sorted(set(FRAMEWORKS) - {"torch"}))
def test_another_framework_says_that_it_integrates_otherwise(framework: str) -> None:
    with pytest.raises((ConstraintError, UnsupportedNodeError)) as error:
        nirmap.from_nir(chain([LI_NODE], (WIDTH,)), framework, dt=1e-3, method="exponential")
    assert error.value.found == "method = 'exponential' for a nir.LI"
    assert error.value.expected == f"'forward_euler', by which {framework} integrates"
    assert error.value.do.startswith("use framework='torch', or method='forward_euler'")


def test_the_fallback_integrates_where_the_framework_does_not() -> None:
    graph = chain([nir.Linear(np.eye(WIDTH)), LIF_NODE], (WIDTH,))
    net = nirmap.from_nir(graph, "snntorch", dt=1e-3, method="exponential", fallback="torch")
    report = net.meta["nirmap"].nodes
    assert {name: entry.how for name, entry in report.items()} == {"0": "native", "1": "fallback"}
    (module,) = [module for module in net.modules() if isinstance(module, LIF)]
    assert module.method == "exponential"
    assert "method='exponential'" in repr(module)


def test_a_sub_graph_is_no_module_that_integrates_otherwise() -> None:
    """snnTorch's RLeaky would take the recurrent sub-graph, and steps with forward Euler."""
    random = np.random.default_rng(5)
    inside: dict[str, nir.NIRNode] = {
        "in": input_node(WIDTH),
        "neuron": LIF_NODE,
        "back": nir.Affine(random.normal(size=(WIDTH, WIDTH)), np.zeros(WIDTH)),
        "out": output_node(WIDTH),
    }
    edges = [("in", "neuron"), ("neuron", "back"), ("back", "neuron"), ("neuron", "out")]
    cell = nir.NIRGraph(inside, edges, type_check=False)
    graph = chain([nir.Linear(np.eye(WIDTH)), cell], (WIDTH,))
    xs = noise(3, 60)
    modules: dict[str, bool] = {}
    for method in ("forward_euler", "exponential"):
        net = nirmap.from_nir(
            graph, "snntorch", dt=1e-3, method=method, dtype=torch.float64, fallback="torch"
        )
        modules[method] = any(isinstance(module, GraphCell) for module in net.modules())
        trace = simulate(graph, xs, 1e-3, method=method)
        assert trace.outputs["output"].sum() > 20
        output, _ = nirmap.run(net, torch.tensor(xs))
        np.testing.assert_array_equal(output.detach().numpy(), trace.outputs["output"])
    assert modules == {"forward_euler": True, "exponential": False}


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    method: Any = "euler"
    with pytest.raises(ConstraintError, match="method: 'euler'; expected 'forward_euler' or 'exponential'"):
        nirmap.from_nir(chain([LIF_NODE], (WIDTH,)), method=method)


def test_the_node_is_the_same_by_whichever_method_it_was_stepped() -> None:
    net = nirmap.from_nir(chain([LIF_NODE], (WIDTH,)), dt=1e-3, method="exponential", dtype=torch.float64)
    written: Any = nirmap.to_nir(net).nodes["0"]
    for name, value in CONSTANTS.items():
        np.testing.assert_array_equal(getattr(written, name), value)

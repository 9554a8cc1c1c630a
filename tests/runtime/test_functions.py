"""Arithmetic between modules is written as what it computes, or refused.

If these fail, a residual connection, a scale or a constant is lost between a model and its file, without a word.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch

from nirmap.errors import ConstraintError, TraceError
from nirmap.functions import FUNCTIONS, METHODS
from written import DT, check_written, edges, inputs, kinds, li, lif, linear, to_nir

Tensor = torch.Tensor
Written = Callable[[Any, Tensor], Any]


class Model(torch.nn.Module):
    """``written`` is its forward."""

    def __init__(self, written: Written) -> None:
        super().__init__()
        self.a, self.b, self.c = linear(seed=1), linear(seed=2), linear(seed=3)
        self.p = torch.nn.Parameter(torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64))
        self.register_buffer("q", torch.tensor([2.0, 4.0, 0.5], dtype=torch.float64))
        self.lif, self.li = lif(), li()
        self.written = written

    def forward(self, x: Tensor) -> Any:
        return self.written(self, x)


def add_in_place(m: Any, x: Tensor) -> Tensor:
    y: Tensor = m.a(x)
    y += m.b(x)
    return y


def subtract_in_place(m: Any, x: Tensor) -> Tensor:
    y: Tensor = m.a(x)
    y -= m.b(x)
    return y


def multiply_in_place(m: Any, x: Tensor) -> Tensor:
    y: Tensor = m.a(x)
    y *= 3
    return y


def divide_in_place(m: Any, x: Tensor) -> Tensor:
    y: Tensor = m.a(x)
    y /= 4
    return y


SUMS: list[Written] = [
    lambda m, x: m.a(x) + m.b(x),
    add_in_place,
    lambda m, x: torch.add(m.a(x), m.b(x)),
    lambda m, x: m.a(x).add(m.b(x)),
    lambda m, x: m.a(x).add_(m.b(x)),
    lambda m, x: torch.add(m.a(x), other=m.b(x), alpha=1),
    lambda m, x: sum([m.a(x), m.b(x)]),
    lambda m, x: operator.add(m.a(x), m.b(x)) + 0,
    lambda m, x: torch.clone(m.a(x)) + torch.zeros(1, 3) + m.b(x).clone(),
    lambda m, x: m.a(x).clone() + torch.nn.functional.dropout(m.b(x).contiguous(), training=False),
    lambda m, x: torch.stack([m.a(x), m.b(x)]).sum(0),
    lambda m, x: torch.sum(torch.stack((m.a(x), m.b(x)), dim=-1), dim=(-1,)),
    lambda m, x: +m.a(x) - (-m.b(x)),
    lambda m, x: torch.stack([m.a(x)])[0] + torch.stack([x, m.b(x)])[-1],
]


@pytest.mark.parametrize("written", SUMS)
def test_every_spelling_of_a_sum_joins_edges(written: Written) -> None:
    graph = check_written(Model(lambda m, x: m.c(written(m, x))), inputs(3), is_spiking=False)
    assert edges(graph) == {("x", "a"), ("x", "b"), ("a", "c"), ("b", "c"), ("c", "output")}


LINEAR: list[Written] = [
    lambda m, x: m.a(x) - m.b(x),
    subtract_in_place,
    lambda m, x: torch.sub(m.a(x), m.b(x), alpha=2),
    lambda m, x: m.a(x).sub(m.b(x)).sub_(x),
    lambda m, x: 0 - m.a(x),
    lambda m, x: -m.a(x),
    lambda m, x: m.a(x).neg() + torch.neg(m.b(x)),
    lambda m, x: m.a(x).add(m.b(x), alpha=3),
    lambda m, x: torch.add(m.a(x), m.b(x), alpha=-0.5),
    lambda m, x: m.a(x) * 2,
    lambda m, x: 2 * m.a(x),
    lambda m, x: torch.mul(m.a(x), 2).mul_(1.5),
    multiply_in_place,
    lambda m, x: m.a(x) / 4,
    lambda m, x: torch.div(m.a(x), 4).div(3).div_(2),
    divide_in_place,
    lambda m, x: m.p * m.a(x),
    lambda m, x: m.a(x) * m.q,
    lambda m, x: m.a(x) / m.p,
    lambda m, x: m.a(x) * (torch.exp(m.p) - m.q.abs()),
    lambda m, x: m.a(x) * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64),
    lambda m, x: m.a(x).detach() + torch.zeros_like(x),
    lambda m, x: torch.stack([m.a(x), m.b(x), x, m.a(x)]).mean(0),
    lambda m, x: torch.mean(torch.stack([m.a(x), x], 1), 1),
    lambda m, x: torch.subtract(m.a(x), m.b(x)).multiply(3).divide(4).negative(),
    lambda m, x: m.a(x) + m.b(x) + x + m.a(m.b(x)),
    lambda m, x: sum(layer(x) for layer in (m.a, m.b, m.c)),
]


@pytest.mark.parametrize("written", LINEAR)
def test_linear_arithmetic_is_exact(written: Written) -> None:
    check_written(Model(written), inputs(3), is_spiking=False)
    check_written(Model(lambda m, x: m.c(written(m, x))), inputs(3), is_spiking=False)


def doubled(m: Any, x: Tensor) -> Tensor:
    y: Tensor = m.a(x)
    return y + y


def test_a_value_added_to_itself_is_a_scale_of_two() -> None:
    graph = check_written(Model(doubled), inputs(3), is_spiking=False)
    assert graph.nodes["a_times"].scale.tolist() == [2, 2, 2]
    assert edges(graph) == {("x", "a"), ("a", "a_times"), ("a_times", "output")}


def test_a_value_that_is_added_thrice_and_taken_away_is_scaled_by_what_is_left() -> None:
    def written(m: Any, x: Tensor) -> Tensor:
        u = m.a(x)
        left: Tensor = u + m.b(x) + u * 2 - u
        return left

    graph = check_written(Model(written), inputs(3), is_spiking=False)
    assert graph.nodes["a_times"].scale.tolist() == [2, 2, 2]


def test_a_difference_of_a_value_with_itself_stays_zero() -> None:
    graph = to_nir(Model(lambda m, x: m.c(m.a(x) * 0)))
    assert graph.nodes["a_times"].scale.tolist() == [0, 0, 0]


def test_equal_scales_of_one_node_are_one_node() -> None:
    written: Written = lambda m, x: m.c(x * 2) + m.b(x * 3) + m.a(2 * x)  # noqa: E731
    graph = check_written(Model(written), inputs(3), is_spiking=False)
    assert sum(kind == "Scale" for kind in kinds(graph).values()) == 2


def test_residual_connections_around_neurons_keep_their_values() -> None:
    def written(m: Any, x: Tensor) -> Tensor:
        h = m.a(x)
        z, _ = m.lif(h)
        y: Tensor = m.c(z + x) + h
        return y

    class Carrying(Model):
        def forward(self, x: Tensor, state: Any = None) -> Any:
            h = self.a(x)
            z, state = self.lif(h, state)
            return self.c(z + x) + h, state

    graph = check_written(Carrying(written), inputs(3), carried=1, is_spiking=False)
    assert {("lif", "c"), ("x", "c"), ("a", "lif"), ("a", "output"), ("c", "output")} <= edges(graph)
    assert edges(to_nir(Model(written), dt=DT)) == edges(graph)


@pytest.mark.parametrize("flatten", [torch.nn.Flatten(), None, "method"])
def test_flatten_does_not_count_the_batch(flatten: Any) -> None:
    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flatten = flatten

        def forward(self, x: Tensor) -> Tensor:
            if flatten is None:
                return torch.flatten(x, 1)
            return x.flatten(start_dim=1) if flatten == "method" else self.flatten(x)

    graph = to_nir(Flat(), sample=torch.zeros(1, 2, 3))
    (node,) = [node for node in graph.nodes.values() if isinstance(node, nir.Flatten)]
    assert (node.start_dim, node.end_dim) == (0, -1)
    assert node.output_type["output"].tolist() == [6]


def keep_and_change(m: Any, x: Tensor) -> Any:
    y = m.a(x)
    kept = y
    y += m.b(x)
    return m.c(y) + kept


def change_through_a_view(m: Any, x: Tensor) -> Any:
    y = m.a(x)
    view = y.flatten(1)
    y.add_(m.b(x))
    return view


def change_an_input_that_is_used_again(m: Any, x: Tensor) -> Any:
    y = m.a(x)
    x *= 2
    return y + m.b(x)


def change_the_old_input(m: Any, x: Tensor) -> Any:
    old = x
    x *= 2
    return m.a(old)


def change_the_state(m: Any, x: Tensor) -> Any:
    v, _ = m.li(x)
    v += m.a(x)
    return v


def change_without_a_name(m: Any, x: Tensor) -> Any:
    y = m.a(x)
    y.mul_(2)
    return y


@pytest.mark.parametrize(
    "written",
    [keep_and_change, change_through_a_view, change_the_old_input, change_the_state, change_without_a_name],
)
def test_a_change_in_place_of_what_is_used_again_is_refused(written: Written) -> None:
    with pytest.raises(TraceError, match=r"it changes a value that is .*write y = y \+ x instead of y \+= x"):
        to_nir(Model(written))


def change_spikes(m: Any, x: Tensor) -> Any:
    z, v = m.lif(x)
    z += m.a(x)
    return z, v


def change_what_is_asked_for_its_size(m: Any, x: Tensor) -> Any:
    old = new = m.a(x)
    new *= 2
    return m.b(new) + torch.zeros_like(old) + old.new_zeros(old.shape)


@pytest.mark.parametrize(
    "written", [change_spikes, change_an_input_that_is_used_again, change_what_is_asked_for_its_size]
)
def test_a_change_in_place_that_nobody_else_sees_is_written(written: Written) -> None:
    assert kinds(to_nir(Model(written)))["a"] == "Affine"


REFUSED: list[tuple[Written, str]] = [
    (lambda m, x: m.a(x) * m.b(x), "a product of two signals"),
    (lambda m, x: m.a(x) / m.b(x), "a division by a signal"),
    (lambda m, x: 1 / m.a(x), "a division by a signal"),
    (lambda m, x: m.a(x) / 0, "a division by zero"),
    (lambda m, x: torch.relu(m.a(x)), "a function that NIR has no node for"),
    (lambda m, x: m.a(x).sigmoid(), "a function that NIR has no node for"),
    (lambda m, x: m.a(x)[:, 0], "of a signal"),
    (lambda m, x: torch.div(m.a(x), 4, rounding_mode="floor"), "the argument 'rounding_mode'"),
    (lambda m, x: torch.nn.functional.dropout(m.a(x)), "dropout is random in training mode"),
    (lambda m, x: m.a(x) * m.p.add_(1), "it cannot be computed from the parameters"),
    (lambda m, x: m.a(x) * torch.rand_like(m.p), "it cannot be computed from the parameters"),
    (lambda m, x: m.a(m.p), "the constant 'p'"),
    (lambda m, x: m.a(x).add(m.b(x), alpha=x), "alpha"),
    (lambda m, x: m.a(x) * torch.ones(1, 1, 3), "a constant of the shape (1, 1, 3)"),
    (lambda m, x: m.a(x) + torch.zeros(4, 2, 3), "a constant of the shape (4, 2, 3)"),
]


@pytest.mark.parametrize(("written", "found"), REFUSED)
def test_what_nir_cannot_say_is_refused_with_the_line(written: Written, found: str) -> None:
    line = written.__code__.co_firstlineno
    with pytest.raises(TraceError) as caught:
        to_nir(Model(written))
    assert found in str(caught.value)
    assert f"{Path(__file__).name}:{line}" in caught.value.where
    assert caught.value.do or caught.value.expected


def test_a_parameter_is_not_changed_by_computing_with_it() -> None:
    model = Model(lambda m, x: m.a(x) * m.p.add_(1))
    with pytest.raises(TraceError):
        to_nir(model)
    torch.testing.assert_close(
        model.p.detach(), torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64), rtol=0, atol=0
    )


def test_flattening_the_batch_is_refused() -> None:
    with pytest.raises(ConstraintError, match="torch counts the batch as axis 0"):
        to_nir(Model(lambda m, x: torch.flatten(m.a(x))))


def test_every_function_of_the_table_exists() -> None:
    for function in FUNCTIONS:
        assert callable(function)
    for name in METHODS:
        assert callable(getattr(torch.Tensor, name))


def test_values_that_are_scaled_are_read_back_from_a_file(tmp_path: Path) -> None:
    graph = to_nir(Model(lambda m, x: m.a(x) * m.p + 2 * x), path=tmp_path / "a.nir")
    back: Any = nir.read(tmp_path / "a.nir")
    np.testing.assert_array_equal(back.nodes["p"].scale, graph.nodes["p"].scale)
    assert set(back.edges) == edges(graph)

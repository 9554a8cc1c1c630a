"""Layers in every spelling are the nodes that they mean, and take in what follows them.

If these fail, a convolution is padded in another way in its file, or a normalisation or a constant is lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import pytest
import spikingjelly.activation_based.functional
import spikingjelly.activation_based.layer
import spikingjelly.activation_based.neuron
import torch
from torch.nn import functional

import nirmap
from nirmap.errors import ConstraintError, NirmapError, TraceError
from nirmap.oracle.interpreter import simulate
from written import DT, check_written, edges, inputs, kinds, linear, to_nir

# nir mistakes the channels of grouped convolutions, and kernels that are not square.
pytestmark = [
    pytest.mark.filterwarnings("ignore::nirmap.errors.ReadBackWarning"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
]

Tensor = torch.Tensor
Written = Callable[[Any, Tensor], Any]
FRAMEWORKS = ("torch", "norse", "rockpool", "sinabs", "snntorch", "spikingjelly")


def drawn(module: torch.nn.Module, seed: int = 0) -> Any:
    """The module in float64 and in eval mode, with other numbers than those it was made with."""
    module.double().eval()
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            low = 0.4 if name.endswith("running_var") else -1.0
            if tensor.is_floating_point():
                tensor.copy_(torch.tensor(random.uniform(low, 1.5, tuple(tensor.shape))))
    return module


class Model(torch.nn.Module):
    """``written`` is its forward."""

    def __init__(self, written: Written) -> None:
        super().__init__()
        self.a, self.b = linear(seed=1), linear(seed=2, bias=False)
        self.convolution = drawn(torch.nn.Conv2d(2, 3, 3))
        self.norm, self.norm_2d = drawn(torch.nn.BatchNorm1d(3)), drawn(torch.nn.BatchNorm2d(3))
        self.pool = torch.nn.AvgPool2d(2)
        self.matrix = torch.nn.Parameter(linear(seed=4).weight.detach())
        self.kernel = torch.nn.Parameter(torch.tensor(np.random.default_rng(1).normal(size=(4, 1, 3, 2))))
        self.row = torch.nn.Parameter(torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64))
        self.ones = torch.nn.Parameter(torch.ones(1, 1, 1, dtype=torch.float64))
        self.written = written

    def forward(self, x: Tensor) -> Any:
        return self.written(self, x)


MODULES: list[tuple[Callable[[], torch.nn.Module], tuple[int, ...], str]] = [
    (lambda: torch.nn.Linear(3, 2), (3,), "Affine"),
    (lambda: torch.nn.Linear(3, 2, bias=False), (3,), "Linear"),
    (lambda: torch.nn.Conv1d(2, 3, 4, stride=2, padding=1), (2, 9), "Conv1d"),
    (lambda: torch.nn.Conv1d(4, 2, 3, bias=False, groups=2, dilation=2), (4, 9), "Conv1d"),
    (lambda: torch.nn.Conv1d(2, 3, 4, padding="same"), (2, 9), "Conv1d"),
    (lambda: torch.nn.Conv2d(2, 3, 3, bias=False), (2, 5, 6), "Conv2d"),
    (lambda: torch.nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(2, 0)), (2, 6, 7), "Conv2d"),
    (lambda: torch.nn.Conv2d(4, 6, 2, groups=2, dilation=(2, 1), bias=False), (4, 6, 6), "Conv2d"),
    (lambda: torch.nn.Conv2d(1, 2, 3, padding="valid", stride=2), (1, 7, 7), "Conv2d"),
    (lambda: torch.nn.Conv2d(1, 2, (4, 2), padding="same", dilation=(1, 3)), (1, 7, 8), "Conv2d"),
    (lambda: torch.nn.AvgPool2d(2), (2, 5, 6), "AvgPool2d"),
    (lambda: torch.nn.AvgPool2d((3, 2), stride=1, padding=(1, 0)), (2, 5, 6), "AvgPool2d"),
    (lambda: torch.nn.AvgPool2d(3, 2, count_include_pad=False), (2, 7, 7), "AvgPool2d"),
    (lambda: torch.nn.AvgPool2d(2, padding=1, divisor_override=1), (2, 4, 4), "SumPool2d"),
    (torch.nn.Flatten, (2, 3, 4), "Flatten"),
    (lambda: torch.nn.Flatten(2, 3), (2, 3, 4), "Flatten"),
    (lambda: torch.nn.Flatten(-2), (2, 3, 4), "Flatten"),
]


@pytest.mark.parametrize(("make", "shape", "kind"), MODULES)
def test_layers_of_torch_are_their_nodes_in_every_framework(
    make: Callable[[], torch.nn.Module], shape: tuple[int, ...], kind: str
) -> None:
    xs = inputs(*shape, steps=2)
    model = torch.nn.Sequential(drawn(make()))
    for framework in FRAMEWORKS:
        graph = check_written(model, xs, framework=framework, sample=xs[0], is_spiking=False)
        assert list(kinds(graph).values()) == ["Input", kind, "Output"]


class Block(torch.nn.Module):
    """A convolution, normalised, with a module list inside."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = torch.nn.ModuleList([torch.nn.Conv2d(2, 3, 3, bias=False), torch.nn.BatchNorm2d(3)])
        self.end = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.AvgPool2d(2), torch.nn.Identity())

    def forward(self, x: Tensor) -> Any:
        for step in self.steps:
            x = step(x)
        return self.end(x)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_nested_modules_keep_their_names_and_what_does_nothing_leaves_no_node(framework: str) -> None:
    model = drawn(torch.nn.Sequential(Block(), torch.nn.Flatten(), torch.nn.Linear(12, 2)))
    xs = inputs(2, 6, 6, steps=2)
    graph = check_written(model, xs, framework=framework, sample=xs[0], is_spiking=False)
    names = ["input", "0.steps.0", "0.end.1", "1", "2", "output"]
    assert edges(graph) == set(itertools.pairwise(names))


LAYER_CALLS: list[tuple[Written, tuple[int, ...], str]] = [
    (lambda m, x: functional.linear(x, m.matrix), (3,), "Linear"),
    (lambda m, x: functional.linear(x, weight=m.matrix, bias=m.row), (3,), "Affine"),
    (lambda m, x: x @ m.matrix, (3,), "Linear"),
    (lambda m, x: torch.matmul(x, m.matrix.T), (3,), "Linear"),
    (lambda m, x: x.mm(m.matrix.t()), (3,), "Linear"),
    (lambda m, x: torch.mm(x, m.matrix) + m.row, (3,), "Affine"),
    (lambda m, x: functional.conv1d(x, m.kernel[:, :, 0], None, 2, [1], groups=2), (2, 7), "Conv1d"),
    (lambda m, x: functional.conv2d(x, m.kernel, stride=2, padding=(1, 0), groups=2), (2, 6, 6), "Conv2d"),
    (lambda m, x: torch.conv2d(x, m.kernel, m.kernel.sum((1, 2, 3)), 1, "same"), (1, 6, 6), "Conv2d"),
    (lambda m, x: functional.avg_pool2d(x, (3, 2), padding=(1, 0)), (2, 6, 6), "AvgPool2d"),
    (lambda m, x: functional.avg_pool2d(x, kernel_size=2, stride=1), (2, 6, 6), "AvgPool2d"),
    (lambda m, x: functional.avg_pool2d(x, 2, divisor_override=1), (2, 6, 6), "SumPool2d"),
    (lambda m, x: torch.flatten(x, 1), (2, 3), "Flatten"),
    (lambda m, x: x.flatten(start_dim=2, end_dim=-1), (2, 3, 4), "Flatten"),
]


@pytest.mark.parametrize(("written", "shape", "kind"), LAYER_CALLS)
def test_functions_are_the_nodes_of_the_layers_that_do_the_same(
    written: Written, shape: tuple[int, ...], kind: str
) -> None:
    xs = inputs(*shape, steps=2)
    graph = check_written(Model(written), xs, sample=xs[0], is_spiking=False)
    assert list(kinds(graph).values()) == ["Input", kind, "Output"]


def test_a_function_is_named_after_itself_and_the_module_that_calls_it() -> None:
    graph = to_nir(torch.nn.Sequential(Model(lambda m, x: functional.linear(x, m.matrix))))
    assert edges(graph) == {("input", "0.linear"), ("0.linear", "output")}


TAKEN_IN: list[tuple[Written, tuple[int, ...]]] = [
    (lambda m, x: m.norm(m.a(x)), (3,)),
    (lambda m, x: m.norm(m.b(x)), (3,)),
    (lambda m, x: m.norm(m.a(x) + 2 * m.b(x)), (3,)),
    (lambda m, x: m.norm(torch.stack([m.a(x), m.b(x)]).sum(0)), (3,)),
    (lambda m, x: m.norm(m.norm(m.a(x) + 1)), (3,)),
    (lambda m, x: m.norm_2d(m.convolution(x)), (2, 6, 6)),
    (
        lambda m, x: functional.batch_norm(
            m.convolution(x), m.norm_2d.running_mean, m.norm_2d.running_var, m.row, eps=0.1
        ),
        (2, 6, 6),
    ),
    (lambda m, x: m.a(x) + 1.0, (3,)),
    (lambda m, x: m.b(x) + m.row, (3,)),
    (lambda m, x: 1 - m.b(x), (3,)),
    (lambda m, x: torch.add(m.row, m.a(x), alpha=3), (3,)),
    (lambda m, x: torch.sub(m.a(x), m.row, alpha=0.5).add_(2), (3,)),
    (lambda m, x: x + m.b(x) - torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), (3,)),
    (lambda m, x: m.a(m.a(x)) + m.ones[0], (3,)),
    (lambda m, x: m.convolution(x) + m.row[:, None, None], (2, 6, 6)),
]


@pytest.mark.parametrize(("written", "shape"), TAKEN_IN)
def test_a_layer_takes_in_what_follows_it(written: Written, shape: tuple[int, ...]) -> None:
    xs = inputs(*shape, steps=2)
    graph = check_written(Model(written).eval(), xs, sample=xs[0], is_spiking=False)
    assert set(kinds(graph).values()) <= {"Input", "Affine", "Linear", "Conv2d", "Scale", "Output"}


def test_a_normalisation_is_exact_in_single_precision() -> None:
    model = drawn(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))).float()
    check_written(model, inputs(3, steps=3).float(), tolerance=2e-6, is_spiking=False)
    assert model[0].weight.dtype == torch.float32
    assert to_nir(model).nodes["0"].weight.dtype == np.float32


def used_twice(m: Any, x: Tensor) -> Any:
    y = m.a(x)
    return m.norm(y) + y


def used_twice_through_a_stack(m: Any, x: Tensor) -> Any:
    y = m.a(x)
    return m.norm(torch.stack([y, m.b(x)]).sum(0)) + y


def returned_too(m: Any, x: Tensor) -> Any:
    y = m.a(x)
    return y + 1, y


NOT_TAKEN_IN: list[tuple[Written, tuple[int, ...], str]] = [
    (used_twice, (3,), "the output of 'a' is used by something else too"),
    (used_twice_through_a_stack, (3,), "the output of 'a' is used by something else too"),
    (returned_too, (3,), "the output of 'a' is used by something else too"),
    (lambda m, x: m.norm(x), (3,), "'x' is no such layer"),
    (lambda m, x: m.norm_2d(m.pool(m.convolution(x))), (2, 6, 6), "'pool' is no such layer"),
    (lambda m, x: m.a(x + 1), (3,), "'x' is no such layer"),
    (lambda m, x: m.a(x) * 0 + 1, (3,), "nothing is left of 'a'"),
    (lambda m, x: m.convolution(x) + m.row, (2, 5, 5), "its shape (3,) is not one number for each channel"),
    (lambda m, x: m.a(x) + m.ones, (3,), "its shape (1, 1, 1) is not one number for each channel"),
    (lambda m, x: torch.nn.functional.batch_norm(m.a(x), None, None), (3,), "running_mean = None"),
    (lambda m, x: m.matrix @ x, (3,), "which depends on the input"),
    (lambda m, x: x @ m.row, (3,), "a weight with 1 axes"),
]


@pytest.mark.parametrize(("written", "shape", "found"), NOT_TAKEN_IN)
def test_what_no_layer_can_take_in_is_refused(written: Written, shape: tuple[int, ...], found: str) -> None:
    with pytest.raises(NirmapError) as caught:
        to_nir(Model(written).eval(), sample=torch.zeros(1, *shape))
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (torch.nn.BatchNorm1d(3), "call model.eval() first"),
        (torch.nn.BatchNorm1d(3, track_running_stats=False).eval(), "track_running_stats=True"),
        (torch.nn.BatchNorm1d(4).eval(), "4 channels behind a layer with 3"),
    ],
)
def test_a_normalisation_that_depends_on_the_batch_is_refused(last: torch.nn.Module, found: str) -> None:
    with pytest.raises(TraceError) as caught:
        to_nir(torch.nn.Sequential(torch.nn.Linear(3, 3), last))
    assert found in str(caught.value)


class Renamed(torch.nn.BatchNorm1d):
    """Another name."""


class Changed(torch.nn.BatchNorm1d):
    """Another forward."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2


def test_a_subclass_of_a_normalisation_is_one_unless_it_overrides_forward() -> None:
    model = drawn(torch.nn.Sequential(torch.nn.Linear(3, 3), Renamed(3)))
    check_written(model, inputs(3, steps=2), is_spiking=False)
    with pytest.raises(TraceError, match=r"Changed overrides forward of torch\.nn\.BatchNorm1d"):
        to_nir(drawn(torch.nn.Sequential(torch.nn.Linear(3, 3), Changed(3))))


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (torch.nn.AvgPool2d(2, ceil_mode=True), "ceil_mode = True"),
        (torch.nn.AvgPool2d(2, padding=1, count_include_pad=False), "count_include_pad = False"),
        (torch.nn.AvgPool2d(2, divisor_override=3), "divisor_override = 3"),
        (torch.nn.Conv2d(2, 2, 3, padding_mode="circular"), "padding_mode = circular"),
        (torch.nn.Flatten(0), "start_dim = 0"),
    ],
)
def test_a_setting_that_nir_lacks_is_refused(module: torch.nn.Module, found: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        to_nir(torch.nn.Sequential(module), sample=torch.zeros(1, 2, 6, 6))
    assert found in str(caught.value)


def test_a_function_with_a_setting_that_nir_lacks_is_refused_as_its_module_is() -> None:
    with pytest.raises(ConstraintError, match="ceil_mode = True"):
        to_nir(Model(lambda m, x: functional.avg_pool2d(x, 2, ceil_mode=True)))


def test_a_folded_layer_is_written_and_read_back(tmp_path: Any) -> None:
    model = drawn(torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)))
    xs = inputs(2, 6, 6, steps=2)
    graph = nirmap.to_nir(model, dt=DT, sample=xs[0], path=tmp_path / "net.nir")
    back: Any = nir.read(tmp_path / "net.nir")
    assert set(back.edges) == edges(graph)
    rebuilt, _ = nirmap.run(nirmap.from_nir(tmp_path / "net.nir", dtype=torch.float64), xs)
    torch.testing.assert_close(rebuilt, torch.stack([model(x) for x in xs]))


@pytest.mark.parametrize("step_mode", ["s", "m"])
def test_a_model_of_spikingjellys_own_layers_is_written(step_mode: str) -> None:
    """As its tutorials build one; in the multi-step mode the same network takes a sequence."""
    own: Any = spikingjelly.activation_based.layer
    model = drawn(
        torch.nn.Sequential(
            own.Conv2d(1, 2, 3, padding=1, bias=False),
            own.BatchNorm2d(2),
            spikingjelly.activation_based.neuron.IFNode(v_reset=0.0),
            own.AvgPool2d(2),
            own.Flatten(),
            own.Dropout(0.5),
            own.Linear(18, 3),
        )
    )
    spikingjelly.activation_based.functional.set_step_mode(model, step_mode)
    graph = to_nir(model, "spikingjelly", dt=DT, sample=torch.zeros(1, 1, 6, 6))
    assert sorted(kinds(graph)) == ["0", "2", "3", "4", "6", "input", "output"]
    xs = inputs(1, 6, 6, steps=8)
    spikingjelly.activation_based.functional.set_step_mode(model, "m")
    spikingjelly.activation_based.functional.reset_net(model)
    with torch.no_grad():
        expected = model(xs).numpy()
    np.testing.assert_allclose(simulate(graph, xs.numpy(), DT).outputs["output"], expected, rtol=0, atol=1e-9)
    assert np.ptp(expected) > 0

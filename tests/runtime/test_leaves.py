"""Modules are known by what they compute: whatever changes that, or is not known, is refused by name.

If these fail, a module is written as another one: a subclass as its base, a circular padding as zeros, a weight as it
was before the last update.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nir
import norse.torch
import numpy as np
import pytest
import snntorch
import torch
from torch.nn.utils import parametrizations, prune

from nirmap.errors import ConstraintError, NirmapError, TraceError
from nirmap.leaves import Leaves
from nirmap.reference import LIF
from nirmap.registry import load_registry
from written import DT, check_written, edges, inputs, kinds, li, lif, linear, to_nir

Tensor = torch.Tensor
HERE = Path(__file__).name


class Inner(torch.nn.Module):
    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.layer = module

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)  # the line of the module


LINE = Inner.forward.__code__.co_firstlineno + 1


class Outer(torch.nn.Module):
    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Identity(), Inner(module))

    def forward(self, x: Tensor) -> Any:
        return self.encoder(x)


class Changed(LIF):
    def forward(self, input: Tensor, state: Any = None) -> Any:
        return input, state


def late_lif(kind: type[LIF], dt: float = 1e-3) -> LIF:
    one = torch.ones(3)
    return kind(one, one, one, one, one, dt=dt)


class ChangedInside(torch.nn.Conv2d):
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        changed: Tensor = super()._conv_forward(input, 2 * weight, bias)
        return changed


def snn_leaky(**options: Any) -> torch.nn.Module:
    kind: Any = snntorch.Leaky
    module: torch.nn.Module = kind(0.9, **{"reset_mechanism": "zero", "reset_delay": False, **options})
    return module


@pytest.mark.parametrize(
    ("framework", "module", "found", "why"),
    [
        ("torch", torch.nn.ReLU(), "torch.nn.modules.activation.ReLU", "the table of 'torch' knows"),
        ("torch", torch.nn.BatchNorm1d(3), "training = True", "call model.eval() first"),
        ("torch", snn_leaky(), "snntorch._neurons.leaky.Leaky", "name its framework"),
        ("torch", torch.nn.Dropout().train(), "training = True", "call model.eval() first"),
        (
            "torch",
            torch.nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"),
            "padding_mode = circular",
            "zeros",
        ),
        ("torch", torch.nn.AvgPool2d(2, ceil_mode=True), "ceil_mode = True", "reach over the edge"),
        ("torch", torch.nn.AvgPool2d(2, divisor_override=3), "divisor_override = 3", "size of its window"),
        ("torch", torch.nn.AvgPool2d(3, padding=1, count_include_pad=False), "count_include_pad", "padding"),
        ("torch", late_lif(LIF), "dt = 0.001", "another time step"),
        (
            "torch",
            late_lif(Changed, DT),
            "Changed overrides forward of nirmap.reference.LIF",
            "module_map",
        ),
        (
            "torch",
            ChangedInside(1, 1, 3),
            "ChangedInside overrides _conv_forward of torch.nn.Conv2d",
            "module_map",
        ),
        ("snntorch", snn_leaky(reset_mechanism="subtract"), "reset_mechanism = subtract", "reset to a value"),
        ("snntorch", snn_leaky(reset_delay=True), "reset_delay = True", "in the step of its spike"),
        (
            "snntorch",
            snn_leaky(reset_mechanism="none", init_hidden=True),
            "init_hidden = True",
            "return the second result",
        ),
        ("snntorch", snntorch.RLeaky(0.9, linear_features=3), "reset by subtraction", "reset='subtract'"),
        (
            "norse",
            norse.torch.ConstantCurrentLIFEncoder(10),
            "norse.torch.module.encode.ConstantCurrentLIFEncoder",
            "the table of 'norse' knows",
        ),
        ("norse", norse.torch.LIFBoxCell(dt=1e-2), "dt = 0.01", "another time step"),
    ],
)
def test_what_is_not_known_is_refused_with_path_setting_reason_and_line(
    framework: str, module: torch.nn.Module, found: str, why: str
) -> None:
    with pytest.raises(NirmapError) as caught:
        to_nir(Outer(module), framework, dt=DT)
    message = str(caught.value)
    assert "module 'encoder.1.layer'" in caught.value.where
    assert f"{HERE}:{LINE}" in caught.value.where
    assert found in message
    assert why in message


def test_a_subclass_that_computes_the_same_is_accepted() -> None:
    class Named(LIF):
        """A LIF with a name of its own."""

        def __init__(self, size: int) -> None:
            super().__init__(**{name: getattr(lif(size), name) for name in LIF.parameter_names}, dt=DT)
            self.size = size

        def extra_repr(self) -> str:
            return f"size={self.size}"

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.lif = linear(), Named(3)

        def forward(self, x: Tensor, state: Any = None) -> Any:
            return self.lif(self.fc(x), state)

    assert kinds(check_written(Model(), inputs(3), carried=1))["lif"] == "LIF"


def test_a_forward_that_one_instance_has_of_its_own_is_refused() -> None:
    layer = linear()
    vars(layer)["forward"] = torch.relu
    with pytest.raises(TraceError, match="Linear overrides forward"):
        to_nir(layer)


def test_a_stateful_module_that_is_used_twice_is_refused_and_says_where() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = lif()

        def forward(self, x: Tensor) -> Any:
            z, v = self.cell(x)
            return self.cell(z, v)[0]  # the second use

    line = Twice.forward.__code__.co_firstlineno + 2
    with pytest.raises(TraceError) as caught:
        to_nir(Twice())
    assert f"module 'cell' at {HERE}:{line}" in caught.value.where
    assert "is called 2 times" in caught.value.found


def test_an_input_of_the_name_of_a_neuron_is_no_second_use() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = lif()

        def forward(self, x: Tensor) -> Any:
            return self.x(x)[0]

    assert kinds(to_nir(Model())) == {"x": "Input", "x_1": "LIF", "output": "Output"}


class Branch(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return x * 2


def test_a_branch_that_depends_on_data_is_refused_with_its_line() -> None:
    with pytest.raises(TraceError) as caught:
        to_nir(Outer(Branch()))
    line = Branch.forward.__code__.co_firstlineno + 1
    assert caught.value.where == f"module 'encoder.1.layer' (Branch) at {HERE}:{line}"
    assert "write the branch as arithmetic" in caught.value.do


def test_all_that_a_stateful_module_returned_cannot_flow_on() -> None:
    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lif, self.fc = lif(), linear()

        def forward(self, x: Tensor) -> Any:
            return self.fc(self.lif(x))

    line = Whole.forward.__code__.co_firstlineno + 1
    with pytest.raises(
        TraceError, match=rf"'fc'.*{HERE}:{line}: all that 'lif' returned.*output, state = lif"
    ):
        to_nir(Whole())
    with pytest.raises(
        TraceError, match=r"all that '1' returned.*torch.nn.Sequential cannot, so call its modules"
    ):
        to_nir(torch.nn.Sequential(linear(), lif(), linear()))


def test_a_sequential_may_end_with_a_stateful_module() -> None:
    graph = to_nir(torch.nn.Sequential(linear(), lif()))
    assert edges(graph) == {("input", "0"), ("0", "1"), ("1", "output")}


def doubling(module: torch.nn.Module, args: Any, output: Any) -> Any:
    return 2 * output


def test_hooks_that_may_change_what_a_module_computes_are_refused() -> None:
    layer = linear()
    handle = layer.register_forward_hook(doubling)
    with pytest.raises(TraceError, match="a forward hook"):
        to_nir(layer)
    handle.remove()
    assert to_nir(layer).nodes["0"].weight.any()


def old_weight_norm(layer: torch.nn.Linear) -> torch.nn.Module:
    with pytest.warns(FutureWarning):
        made: torch.nn.Module = torch.nn.utils.weight_norm(layer)
    with torch.no_grad():
        layer.get_parameter("weight_g").mul_(3)
    return made


def new_weight_norm(layer: torch.nn.Linear) -> torch.nn.Module:
    made: torch.nn.Module = parametrizations.weight_norm(layer)
    return made


def old_spectral_norm(layer: torch.nn.Linear) -> torch.nn.Module:
    made: torch.nn.Module = torch.nn.utils.spectral_norm(layer)
    return made


def new_spectral_norm(layer: torch.nn.Linear) -> torch.nn.Module:
    made: torch.nn.Module = parametrizations.spectral_norm(layer)
    return made


def pruned(layer: torch.nn.Linear) -> torch.nn.Module:
    prune.l1_unstructured(layer, "weight", 4)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        layer.get_parameter("weight_orig").mul_(2)
    return layer


@pytest.mark.parametrize(
    "compute", [old_weight_norm, new_weight_norm, old_spectral_norm, new_spectral_norm, pruned]
)
@pytest.mark.parametrize("training", [True, False])
def test_a_weight_that_is_computed_is_the_one_that_forward_would_use(
    compute: Callable[[torch.nn.Linear], torch.nn.Module], training: bool
) -> None:
    layer = compute(linear(bias=False)).train(training)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    weight = to_nir(layer).nodes["0"].weight
    for name, value in layer.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    expected = layer(torch.eye(3, dtype=torch.float64)).detach().numpy().T
    np.testing.assert_allclose(weight, expected, rtol=1e-12)


def test_tied_weights_are_read_for_each_layer() -> None:
    first, second = linear(seed=1), linear(seed=2)
    second.weight = first.weight
    graph = to_nir(torch.nn.Sequential(first, second))
    np.testing.assert_array_equal(graph.nodes["0"].weight, graph.nodes["1"].weight)
    graph.nodes["0"].weight[:] = 0
    assert graph.nodes["1"].weight.any()


def test_the_spikes_of_an_integrator_are_not_its_output() -> None:
    class Readout(torch.nn.Module):
        def __init__(self, take: int) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(2, 3)
            self.cell = snntorch.Leaky(torch.full((3,), 0.9), reset_mechanism="none")
            self.take = take

        def forward(self, x: Tensor, mem: Any = None) -> Any:
            values = self.cell(self.fc(x), mem)
            return values[self.take], values[1]

    model = Readout(1)
    graph = check_written(
        model, inputs(2).float(), carried=1, framework="snntorch", tolerance=1e-5, is_spiking=False
    )
    assert kinds(graph)["cell"] == "LI"
    with pytest.raises(
        TraceError, match="what 'cell' returns beside its output, which is its membrane potential"
    ):
        to_nir(Readout(0), "snntorch")


def test_leaves_and_what_they_return() -> None:
    leaves = Leaves(load_registry("snntorch"), {}, DT)
    assert leaves.is_leaf(torch.nn.Linear(1, 1))
    assert leaves.is_leaf(torch.nn.ReLU())
    assert not leaves.is_leaf(torch.nn.Sequential())
    assert not leaves.is_leaf(Outer(torch.nn.ReLU()))
    assert leaves.returned_values(snn_leaky()) == 2
    assert leaves.returned_values(snntorch.Synaptic(0.5, 0.5)) == 3
    assert leaves.returned_values(torch.nn.Linear(1, 1)) is None
    assert Leaves(load_registry("torch"), {}, DT).returned_values(li()) == 2


def test_norse_layers_pass_their_state_along(tmp_path: Path) -> None:
    cells = [
        norse.torch.LIFBoxCell(
            norse.torch.LIFBoxParameters(
                tau_mem_inv=torch.full((3,), 1000.0, dtype=torch.float64),
                v_leak=torch.zeros(3, dtype=torch.float64),
                v_th=torch.linspace(0.2, 0.4, 3, dtype=torch.float64),
                v_reset=torch.full((3,), -0.1, dtype=torch.float64),
            ),
            dt=DT,
        ),
        norse.torch.LIFCell(
            norse.torch.LIFParameters(
                tau_syn_inv=torch.tensor(500.0, dtype=torch.float64),
                tau_mem_inv=torch.tensor(1000.0, dtype=torch.float64),
                v_leak=torch.tensor(0.0, dtype=torch.float64),
                v_th=torch.tensor(0.3, dtype=torch.float64),
                v_reset=torch.tensor(0.0, dtype=torch.float64),
            ),
            dt=DT,
        ),
    ]
    model = norse.torch.SequentialState(linear(), cells[0], torch.nn.Identity(), linear(), cells[1])
    graph = check_written(model, inputs(3), carried=1, framework="norse", path=tmp_path / "a.nir")
    assert kinds(graph) == {
        "input_tensor": "Input",
        "0": "Affine",
        "1": "LIF",
        "3": "Affine",
        "4": "CubaLIF",
        "output": "Output",
    }
    assert graph.nodes["4"].tau_mem.shape == (3,)
    assert set(nir.read(tmp_path / "a.nir").edges) == edges(graph)


def test_norse_time_constants_do_not_depend_on_the_time_step() -> None:
    for dt in (1e-3, 1e-4):
        cell = norse.torch.LIFBoxCell(norse.torch.LIFBoxParameters(tau_mem_inv=torch.tensor(50.0)), dt=dt)
        graph = to_nir(norse.torch.SequentialState(torch.nn.Linear(1, 1), cell), "norse", dt=dt)
        np.testing.assert_allclose(graph.nodes["1"].tau, np.array([0.02]), rtol=1e-6)


def test_a_setting_that_nir_cannot_express_is_a_constraint_error() -> None:
    with pytest.raises(ConstraintError):
        to_nir(Outer(torch.nn.AvgPool2d(2, ceil_mode=True)))

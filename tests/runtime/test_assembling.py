"""A written graph has a shape everywhere, passes nir's own type check, and comes back from a file.

If these fail, the file that somebody is given cannot be read, or one time constant for a layer becomes none.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import snntorch
import torch

import nirmap
from nirmap.assembling import GraphUnderConstruction
from nirmap.errors import GraphError, ReadBackWarning, TraceError
from nirmap.readable import unreadable
from nirmap.reference import LIF
from nirmap.signals import Signal
from oracle.building import chain
from written import DT, check_written, inputs, kinds, linear, to_nir

Tensor = torch.Tensor


def uniform_lif(*shape: int) -> LIF:
    """A LIF whose parameters have the given shape."""
    values: dict[str, float] = {"tau": 1e-3, "r": 3.0, "v_leak": 0.1, "v_threshold": 0.6, "v_reset": -0.2}
    parameters: dict[str, Any] = {
        name: torch.full(shape, value, dtype=torch.float64) for name, value in values.items()
    }
    return LIF(**parameters, dt=DT)


def shape_of(graph: nir.NIRGraph, name: str) -> tuple[list[int], list[int]]:
    node = graph.nodes[name]
    (before,), (after,) = node.input_type.values(), node.output_type.values()
    return before.tolist(), after.tolist()


def check_file(graph: nir.NIRGraph, path: Path) -> Any:
    """The graph as nir reads it from a file, with its type check on."""
    nir.write(path, graph)
    back: Any = nir.read(path)
    assert set(back.nodes) == set(graph.nodes)
    assert set(back.edges) == set(graph.edges)
    return back


class Carrying(torch.nn.Module):
    def __init__(self, before: torch.nn.Module, neuron: torch.nn.Module) -> None:
        super().__init__()
        self.before, self.neuron = before, neuron

    def forward(self, x: Tensor, state: Any = None) -> Any:
        return self.neuron(self.before(x), state)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3)])
def test_a_parameter_for_the_layer_is_broadcast_to_its_neurons(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    graph = check_written(Carrying(linear(4, 3), uniform_lif(*shape)), inputs(4), carried=1)
    assert graph.nodes["neuron"].tau.tolist() == [1e-3] * 3
    assert check_file(graph, tmp_path / "a.nir").nodes["neuron"].v_threshold.tolist() == [0.6] * 3


def test_a_parameter_for_a_channel_is_broadcast_over_the_image(tmp_path: Path) -> None:
    convolution = torch.nn.Conv2d(1, 2, 3, padding=1, dtype=torch.float64)
    neuron = uniform_lif(2, 1, 1)
    neuron.v_threshold[0] = 0.1
    graph = check_written(
        Carrying(convolution, neuron),
        inputs(1, 4, 5),
        carried=1,
        sample=torch.zeros(1, 1, 4, 5),
        is_spiking=False,
    )
    assert graph.nodes["neuron"].v_threshold.shape == (2, 4, 5)
    assert graph.nodes["neuron"].v_threshold[:, 2, 3].tolist() == [0.1, 0.6]
    check_file(graph, tmp_path / "a.nir")


def test_default_parameters_of_a_framework_are_broadcast(tmp_path: Path) -> None:
    kind: Any = snntorch.Leaky
    cell = kind(beta=0.9, threshold=torch.tensor([0.5, 0.6, 0.7]), reset_mechanism="zero", reset_delay=False)
    graph = to_nir(Carrying(linear(4, 3).float(), cell), "snntorch", path=tmp_path / "a.nir")
    np.testing.assert_allclose(graph.nodes["neuron"].tau, np.full(3, 1e-3), rtol=1e-5)
    back: Any = nir.read(tmp_path / "a.nir")
    assert back.nodes["neuron"].v_threshold.shape == (3,)


@pytest.mark.parametrize("shape", [(2,), (4, 3), (2, 1)])
def test_parameters_that_do_not_fit_the_layer_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(GraphError, match="neuron"):
        to_nir(Carrying(linear(4, 3), uniform_lif(*shape)))


@pytest.mark.parametrize(
    "module",
    [uniform_lif(), uniform_lif(1), torch.nn.Conv2d(1, 1, 3), torch.nn.AvgPool2d(2), torch.nn.Flatten()],
)
def test_without_enough_to_know_the_shapes_a_sample_is_asked_for(module: torch.nn.Module) -> None:
    with pytest.raises(GraphError, match=r"its shape is not known.*pass sample="):
        to_nir(torch.nn.Sequential(torch.nn.Identity(), module))


def test_a_sample_gives_the_shapes_of_convolutions_and_pools(tmp_path: Path) -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3, stride=2, padding=1),
        torch.nn.AvgPool2d(2, padding=1),
        torch.nn.Flatten(),
        torch.nn.Linear(18, 3),
    )
    graph = to_nir(net, sample=torch.zeros(5, 1, 7, 7), path=tmp_path / "a.nir")
    assert shape_of(graph, "0") == ([1, 7, 7], [2, 4, 4])
    assert shape_of(graph, "1") == ([2, 4, 4], [2, 3, 3])
    assert shape_of(graph, "2") == ([2, 3, 3], [18])
    assert tuple(graph.nodes["0"].input_shape) == (7, 7)
    assert shape_of(nir.read(tmp_path / "a.nir"), "2") == ([2, 3, 3], [18])


def test_a_sample_that_contradicts_the_layers_is_refused() -> None:
    with pytest.raises(GraphError, match=r"\(5,\)"):
        to_nir(linear(4, 3), sample=torch.zeros(1, 5))


def test_a_layer_without_bias_is_a_convolution_with_zeros() -> None:
    graph = to_nir(torch.nn.Conv1d(2, 4, 3, bias=False), sample=torch.zeros(1, 2, 9))
    assert graph.nodes["0"].bias.tolist() == [0] * 4
    assert graph.nodes["0"].input_shape == 9


@pytest.mark.parametrize(
    ("layer", "before", "after"),
    [
        (torch.nn.Conv2d(1, 2, (3, 5)), [1, 9, 9], [2, 7, 5]),
        (torch.nn.Conv2d(4, 4, 3, groups=2, padding="same"), [4, 5, 6], [4, 5, 6]),
        (torch.nn.Conv1d(4, 4, 3, groups=4), [4, 8], [4, 6]),
    ],
)
def test_a_file_that_nir_refuses_is_announced_and_right(
    layer: torch.nn.Module, before: list[int], after: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "a.nir"
    with pytest.warns(ReadBackWarning, match=r"nir.read\(path, type_check=False\)"):
        graph = to_nir(layer, sample=torch.zeros(1, *before), path=path)
    assert shape_of(graph, "0") == (before, after)
    with pytest.raises(ValueError, match="mismatch"):
        nir.read(path)
    assert set(nir.read(path, type_check=False).nodes) == set(graph.nodes)
    x = torch.rand(2, *before)
    torch.testing.assert_close(nirmap.from_nir(path)(x)[0], layer(x).detach())


def test_a_kernel_that_is_not_square_is_fine_where_nir_is_right_about_it(tmp_path: Path) -> None:
    layer = torch.nn.Conv2d(1, 2, (3, 5), padding="same")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = to_nir(layer, sample=torch.zeros(1, 1, 9, 9))
    check_file(graph, tmp_path / "a.nir")


def test_unreadable_speaks_of_files_only_and_changes_nothing() -> None:
    pool = nir.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0]))
    graph = chain([pool], (1, 4, 4), (1, 2, 2), type_check=True)
    assert unreadable(graph) is None
    assert unreadable(chain([nir.Scale(np.ones(2))], (2,))) is None
    graph.nodes["output"].output_type = graph.nodes["output"].input_type = {"output": np.array([1, 2, 3])}
    assert "SumPool2d" not in str(unreadable(graph))
    assert unreadable(graph) is not None
    assert graph.nodes["output"].output_type["output"].tolist() == [1, 2, 3]


def test_integers_and_arrays_are_those_that_nir_declares() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 1, 3, stride=2), torch.nn.AvgPool2d(2, 1), torch.nn.Flatten()
    )
    graph = to_nir(net, sample=torch.zeros(1, 1, 9, 9))
    assert np.array_equal(graph.nodes["0"].stride, [2, 2])
    assert graph.nodes["1"].kernel_size.tolist() == [2, 2]
    assert type(graph.nodes["2"].start_dim) is int
    one = to_nir(torch.nn.Conv1d(1, 1, 3, stride=2), sample=torch.zeros(1, 1, 9)).nodes["0"]
    assert (one.stride, one.padding, one.dilation, one.groups) == (2, 0, 1, 1)


def test_the_same_output_of_two_steps_cannot_be_summed() -> None:
    graph = GraphUnderConstruction()
    source = graph.add_input("x")
    graph.add_output("y", Signal.of(source).plus(Signal.of(source, delayed=True)))
    with pytest.raises(TraceError, match="the same output of the step before"):
        graph.connect({})


def test_names_that_are_taken_get_a_number() -> None:
    graph = GraphUnderConstruction()
    names = [graph.add_input("x"), graph.add_input("x_1"), graph.add_input("x")]
    assert names == ["x", "x_1", "x_2"]


def test_the_written_graph_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    script = tmp_path / "write.py"
    script.write_text(
        "import torch, nirmap\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.parts = torch.nn.ModuleDict({n: torch.nn.Linear(3, 3) for n in 'cab'})\n"
        "    def forward(self, x):\n"
        "        y = self.parts['a'](x) + self.parts['b'](x)\n"
        "        return self.parts['c'](y * 2 + x) + y + x\n"
        "graph = nirmap.to_nir(Net())\n"
        "print(list(graph.nodes), list(graph.edges))\n"
    )

    def written(seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(script)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        return done.stdout

    assert written("1") == written("2")


def test_arrays_of_the_graph_are_not_those_of_the_model() -> None:
    layer, neuron = linear(), uniform_lif(3)
    graph = to_nir(torch.nn.Sequential(layer, neuron))
    graph.nodes["0"].weight[:] = 9
    graph.nodes["0"].bias[:] = 9
    graph.nodes["1"].tau[:] = 9
    assert layer.weight.max() < 9
    assert layer.bias.max() < 9
    assert neuron.tau.max() < 9
    assert kinds(graph)["1"] == "LIF"

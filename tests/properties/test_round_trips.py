"""Round trips: whatever goes from NIR to a framework and back, or from a framework to NIR and back, is as it was.

If these fail, a network changes each time that it is saved and loaded.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, TypeGuard

import nir
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import nirmap
from drawn_modules import MAKERS, Made
from nirmap.cells import Cell
from nirmap.errors import ReadBackWarning
from nirmap.oracle.interpreter import margin, simulate
from nirmap.registry import load_registry
from nirmap_registry.catalogue import PRIMITIVES
from oracle.parameters import Fixed, generators
from oracle.strategies import DENSE, NEURONS, TIME_STEP, Settings, graph_inputs, graphs, image_graphs
from runtime.suitable import is_extension

pytestmark = [
    pytest.mark.filterwarnings("ignore::nirmap.errors.DelayWarning"),
    pytest.mark.filterwarnings("ignore::nirmap.errors.ReadBackWarning"),
    # Said by torch once, about the memory that it needs.
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning"),
]

FRAMEWORKS = ["torch", "norse", "snntorch"]
MISSING = {framework: set(load_registry(framework).not_mapped) for framework in FRAMEWORKS}
# Resistances of either sign, and none at all.
SIGNED = Settings(fixed={"r": lambda drawn: drawn["r"] * np.resize([1.0, -1.0, 0.0, 2.0], drawn["r"].shape)})
NEGATIVE = Settings(fixed={"r": lambda drawn: -drawn["r"]})
# What snnTorch can express: it resets to the resting potential.
TO_REST: Fixed = {"v_reset": lambda drawn: drawn["v_leak"] if "v_leak" in drawn else drawn["v_reset"]}
# Examples that a framework cannot express are put aside, and drawing a graph takes its time.
UNHELPFUL = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]


def options(framework: str) -> list[Settings]:
    """Settings of the graphs that a framework can express."""
    if framework == "snntorch":
        return [Settings(fixed=TO_REST), Settings(fixed={**NEGATIVE.fixed, **TO_REST})]
    return [Settings(), SIGNED, NEGATIVE] if framework == "torch" else [Settings(), NEGATIVE]


def check_same(graph: Any, expected: nir.NIRGraph, relative: float, path: str = "") -> None:
    """Nodes by name, their classes and parameters, edges, and the shapes of Inputs and Outputs."""
    assert set(graph.nodes) == set(expected.nodes), path
    assert set(graph.edges) == set(expected.edges), path
    assert len(graph.edges) == len(set(graph.edges))
    for name, node in expected.nodes.items():
        other, where = graph.nodes[name], f"{path}{name}"
        assert type(other) is type(node), where
        if isinstance(node, nir.NIRGraph):
            check_same(other, node, relative, f"{where} / ")
        elif isinstance(node, nir.Input | nir.Output):
            (stated,), (found,) = node.input_type.values(), other.input_type.values()
            assert list(found) == list(stated), where
        else:
            _check_parameters(other, node, relative, where)


def _check_parameters(node: nir.NIRNode, expected: nir.NIRNode, relative: float, where: str) -> None:
    for name, value in vars(expected).items():
        if name in ("input_type", "output_type", "metadata") or value is None:
            continue
        found, message = getattr(node, name), f"{where}.{name}"
        if isinstance(value, str):
            assert found == value, message
        elif np.asarray(value).dtype.kind == "f":
            assert found.shape == np.shape(value), message
            scale = float(np.abs(value).max(initial=0))
            np.testing.assert_allclose(found, value, rtol=relative, atol=relative * scale, err_msg=message)
        else:
            np.testing.assert_array_equal(np.broadcast_to(found, np.shape(value)), value, err_msg=message)


def samples(graph: nir.NIRGraph) -> tuple[torch.Tensor, ...]:
    """An input for each Input, in name order, with a batch of one."""
    names = sorted(name for name, node in graph.nodes.items() if isinstance(node, nir.Input))
    return tuple(torch.zeros(1, *map(int, graph.nodes[name].input_type["input"])) for name in names)


def rebuilt(graph: nir.NIRGraph, framework: str, dtype: torch.dtype = torch.float64) -> nirmap.Network:
    """The graph's network; an example that the framework cannot express is put aside."""
    try:
        return nirmap.from_nir(graph, framework, dt=TIME_STEP, dtype=dtype)
    except nirmap.ConstraintError:
        assume(False)
        raise


@pytest.mark.parametrize(("dtype", "relative"), [(torch.float64, 1e-9), (torch.float32, 2e-4)])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_from_nir_and_back_is_the_same_graph(framework: str, dtype: torch.dtype, relative: float) -> None:
    primitives = DENSE - MISSING[framework]
    drawn = st.sampled_from(options(framework)).flatmap(
        lambda one: graphs(primitives=primitives, settings=one)
    )

    @settings(max_examples=80, suppress_health_check=UNHELPFUL)
    @given(drawn)
    def check(graph: nir.NIRGraph) -> None:
        net = rebuilt(graph, framework, dtype)
        written = nirmap.to_nir(net)
        check_same(written, graph, relative)
        assert written.metadata == {"dt": TIME_STEP}
        check_same(nirmap.to_nir(net, sample=samples(graph)), written, 0)

    check()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_images_from_nir_and_back_are_the_same_graph(framework: str) -> None:
    drawn = st.sampled_from(options(framework)).flatmap(
        lambda one: image_graphs(neurons=NEURONS - MISSING[framework], settings=one)
    )

    @settings(max_examples=60, suppress_health_check=UNHELPFUL)
    @given(drawn)
    def check(graph: nir.NIRGraph) -> None:
        check_same(nirmap.to_nir(rebuilt(graph, framework), sample=samples(graph)), graph, 1e-9)

    check()


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("images", [False, True])
def test_from_torch_and_back_gives_the_same_outputs(framework: str, images: bool) -> None:
    neurons = NEURONS - MISSING[framework]
    one = options(framework)[0]
    drawn = (
        image_graphs(neurons=neurons, settings=one)
        if images
        else graphs(primitives=DENSE - MISSING[framework], settings=one)
    )

    @settings(max_examples=25, suppress_health_check=UNHELPFUL)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        graph = data.draw(drawn)
        inputs = data.draw(graph_inputs(graph, steps=(5, 10)))
        assume(margin(simulate(graph, inputs, TIME_STEP)) > 1e-7)
        net = rebuilt(graph, framework)
        again = rebuilt(nirmap.to_nir(net, sample=samples(graph)), framework)
        xs = tuple(torch.tensor(inputs[name]) for name in sorted(inputs))
        with torch.no_grad():
            (expected, _), (found, _) = nirmap.run(net, xs), nirmap.run(again, xs)
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)

    check()


def check_in_nir(graph: nir.NIRGraph, path: Path) -> None:
    """A written graph passes nir's type check, in memory and from a file, if nothing is said against it."""
    nir.write(path, graph)
    back = nir.read(path)
    check_same(back, graph, 0)
    check_types(back, graph)
    before = set(graph.nodes)
    checked = nir.NIRGraph(dict(graph.nodes), list(graph.edges), type_check=True)
    assert set(checked.nodes) == before


def check_types(back: nir.NIRGraph, graph: nir.NIRGraph) -> None:
    """The shapes of what goes in and out of every node."""
    for name, node in graph.nodes.items():
        for found, own in (
            (back.nodes[name].input_type, node.input_type),
            (back.nodes[name].output_type, node.output_type),
        ):
            assert [list(value) for value in found.values()] == [list(value) for value in own.values()], name


@settings(max_examples=60, suppress_health_check=UNHELPFUL)
@given(graphs(settings=SIGNED))
def test_written_graphs_pass_the_checks_of_nir(
    tmp_path_factory: pytest.TempPathFactory, graph: nir.NIRGraph
) -> None:
    written = nirmap.to_nir(rebuilt(graph, "torch"))
    check_in_nir(written, tmp_path_factory.mktemp("written") / "a.nir")


@settings(max_examples=80, suppress_health_check=UNHELPFUL)
@given(image_graphs())
def test_written_images_pass_the_checks_of_nir_or_a_warning_says_why(
    tmp_path_factory: pytest.TempPathFactory, graph: nir.NIRGraph
) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ReadBackWarning)
        written = nirmap.to_nir(rebuilt(graph, "torch"), sample=samples(graph))
    path = tmp_path_factory.mktemp("written") / "a.nir"
    if not any(entry.category is ReadBackWarning for entry in said):
        check_in_nir(written, path)
        return
    nir.write(path, written)
    with pytest.raises((ValueError, KeyError, IndexError, AssertionError)):
        check_types(nir.read(path), written)
    check_same(nir.read(path, type_check=False), written, 0)
    check_same(
        nirmap.to_nir(nirmap.from_nir(path, dtype=torch.float64), sample=samples(graph)), written, 1e-9
    )


# The layers of torch.nn are the same rows in every framework. What is only read, or only built, does not come back.
ROWS = sorted(
    {
        row.source: (framework, row.node, row.path)
        for framework in reversed(FRAMEWORKS)
        for row in load_registry(framework).rows
        if row.build is not None and not row.not_read
    }.values()
)


class Stepped(torch.nn.Module):
    """A module behind a layer that hands its input on, so that it is one of several.

    Args:
        module: the module.
        index: where its output is among what it returns; None where that is all.
    """

    def __init__(self, module: torch.nn.Module, index: int | None) -> None:
        super().__init__()
        self.same, self.module, self.index = torch.nn.Identity(), module, index

    def forward(self, x: torch.Tensor) -> Any:
        returned = self.module(self.same(x))
        return returned if self.index is None else returned[self.index]


def attribute(module: torch.nn.Module, path: str) -> Any:
    """An attribute, as an array where it is a number or a tensor."""
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value.detach().double().numpy() if isinstance(value, torch.Tensor) else value


def is_array(value: object) -> TypeGuard[np.ndarray[Any, Any]]:
    return isinstance(value, np.ndarray)


def outputs_of(module: torch.nn.Module, xs: torch.Tensor, index: int | None) -> torch.Tensor:
    """What a module of any framework returns step by step: the value at an index, the rest being its state."""
    state: tuple[Any, ...] = ()
    outputs: list[torch.Tensor] = []
    with torch.no_grad():
        for x in xs:
            returned = module(x, *state)
            outputs.append(returned if index is None else returned[index])
            state = () if index is None else tuple(returned[1:])
    return torch.stack(outputs)


def zero_state(framework: str, made: Made, batch: int) -> Any:
    """norse starts at v_leak or v_reset where no state is given, and the primitives of NIR at 0."""
    row = next(row for row in load_registry(framework).rows if row.module is type(made.module))
    state = row.state
    if state is None or state.record is None or is_extension(PRIMITIVES[row.node]):
        return None
    zeros = torch.zeros(batch, *made.shape, dtype=torch.float64)
    return state.record(**{variable.kept_as: zeros for variable in state.variables})


@pytest.mark.parametrize(("framework", "node", "path"), ROWS)
def test_from_a_module_and_back_is_the_same_module(framework: str, node: str, path: str) -> None:
    row = next(row for row in load_registry(framework).rows if (row.node, row.path) == (node, path))
    index = None
    if row.state is not None:
        kept = [variable.kept_as for variable in row.state.variables]
        index = 1 + kept.index(row.state.output) if row.state.output else 0

    @settings(max_examples=20, suppress_health_check=UNHELPFUL)
    @given(generators())
    def check(random: np.random.Generator) -> None:
        made = MAKERS[node, path](random)
        module = made.module.double().eval()
        xs = made.level * torch.tensor(random.uniform(-0.5, 2.5, (12, 2, *made.shape)))
        written = nirmap.to_nir(Stepped(module, index), framework, dt=TIME_STEP, sample=xs[0])
        assert type(written.nodes["module"]).__name__ == node
        net = nirmap.from_nir(written, framework, dt=TIME_STEP, dtype=torch.float64)
        again = net.get_submodule("module")
        inner = again.module if isinstance(again, Cell) else again
        assert type(inner) is type(module)
        for name in made.attributes:
            expected, found = attribute(module, name), attribute(inner, name)
            if is_array(expected):
                np.testing.assert_allclose(
                    found, np.broadcast_to(expected, found.shape), rtol=1e-9, err_msg=name
                )
            else:
                assert found == expected, name
        check_outputs(made, xs, net)

    def check_outputs(made: Made, xs: torch.Tensor, net: nirmap.Network) -> None:
        start = zero_state(framework, made, xs.shape[1])
        module = made.module if start is None else Started(made.module, start)
        with torch.no_grad():
            found, _ = nirmap.run(net, xs)
        torch.testing.assert_close(found, outputs_of(module, xs, index).to(found.dtype), rtol=1e-6, atol=1e-6)

    check()


class Started(torch.nn.Module):
    """A module that starts in a given state."""

    def __init__(self, module: torch.nn.Module, start: Any) -> None:
        super().__init__()
        self.module, self.start = module, start

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        return self.module(x, self.start if state is None else state)


def test_every_row_has_a_maker() -> None:
    assert {(node, path) for _, node, path in ROWS} == set(MAKERS)

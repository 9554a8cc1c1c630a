"""Every stateful module of every framework as a pure function, in the units of its node.

If these fail, a network is right for a while and then remembers another sequence, another batch or another precision,
or it cannot be copied, saved or moved, although nothing says so.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Iterable
from typing import Any, cast

import nir
import numpy as np
import numpy.typing as npt
import pytest
import torch

import nirmap
from nirmap.calling import RecordCell
from nirmap.cells import Cell
from nirmap.oracle.interpreter import margin, simulate
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Row, StateVariable
from oracle.building import chain
from runtime.suitable import DT, NEURONS, backward, build, inputs, stateful_rows, suitable_node

STATEFUL = [
    pytest.param(framework, row, id=f"{framework}-{row.node}-{row.module.__name__}")
    for framework, row in stateful_rows()
]
SPIKING = ("IF", "LIF", "CubaLIF")
each_row = pytest.mark.parametrize(("framework", "row"), STATEFUL)
# SpikingJelly's kernels for these take Python numbers, which are not part of a state dict.
OF_NUMBERS = ("QIFNode", "EIFNode", "IzhikevichNode")
each_row_of_tensors = pytest.mark.parametrize(
    ("framework", "row"), [entry for entry in STATEFUL if not str(entry.id).endswith(OF_NUMBERS)]
)


def run(module: Any, xs: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
    outputs: list[torch.Tensor] = []
    for x in xs:
        output, state = module(x, state)
        outputs.append(output)
    return torch.stack(outputs), state


@each_row
def test_outputs_and_state_of_every_step_are_the_nodes_own(framework: str, row: Row) -> None:
    node = suitable_node(row)
    xs = inputs(40, 3, NEURONS)
    trace = simulate(chain([node], (NEURONS,)), xs, DT)
    assert margin(trace) > 1e-9
    if row.node in SPIKING:
        assert (trace.values[("0",)].sum(axis=(0, 1)) > 0).all(), "a silent neuron proves nothing"
    module, state = build(framework, row, node), None
    for step, x in enumerate(xs):
        output, state = module(x, state)
        np.testing.assert_allclose(output.numpy(), trace.outputs["output"][step], rtol=1e-9, atol=1e-9)
        if row.node != "Delay":
            assert state.keys() == {variable.name for variable in PRIMITIVES[row.node].state}
            for name, expected in trace.states[("0",)].items():
                np.testing.assert_allclose(state[name].numpy(), expected[step], rtol=1e-9, atol=1e-9)


def _initial(variable: StateVariable, node: Any) -> npt.NDArray[np.float64]:
    """The value of the catalogue before the first step."""
    begins: Any = variable.initial
    return np.asarray(begins(vars(node)) if callable(begins) else np.full(NEURONS, begins), np.float64)


@each_row
def test_none_is_the_initial_state_of_the_catalogue(framework: str, row: Row) -> None:
    node = suitable_node(row)
    if row.node == "Delay":
        steps = round(float(node.delay.max()) / DT)
        expected: dict[str, torch.Tensor] = {"history": torch.zeros(3, NEURONS, steps).double()}
    else:
        expected = {
            variable.name: torch.tensor(_initial(variable, node)).expand(3, NEURONS)
            for variable in PRIMITIVES[row.node].state
        }
    module, x = build(framework, row, node), inputs(3, NEURONS)
    first, second = module(x, None), module(x, expected)
    assert torch.equal(first[0], second[0])
    for name in expected:
        assert torch.equal(first[1][name], second[1][name])


@each_row
def test_the_state_passed_in_is_not_changed(framework: str, row: Row) -> None:
    module = build(framework, row, suitable_node(row))
    _, state = run(module, inputs(5, 3, NEURONS))
    before = {name: value.clone() for name, value in state.items()}
    run(module, inputs(5, 3, NEURONS, seed=1), state)
    assert state.keys() == before.keys()
    assert all(torch.equal(state[name], before[name]) for name in before)


def tensors_of(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """Every tensor that a module or a module in it holds in an attribute, with its shape."""
    found: dict[str, tuple[int, ...]] = {}
    for name, part in cast("Iterable[tuple[str, Any]]", module.named_modules()):
        attributes: dict[str, Any] = {**vars(part), **dict(part.named_buffers(recurse=False))}
        for key, value in attributes.items():
            if isinstance(value, torch.Tensor):
                found[f"{name}.{key}"] = tuple(value.shape)
    return found


@each_row
def test_a_module_keeps_nothing_of_a_call(framework: str, row: Row) -> None:
    module = build(framework, row, suitable_node(row))
    held = tensors_of(module)
    first, _ = run(module, inputs(6, 5, NEURONS))
    assert tensors_of(module) == held
    run(module, inputs(4, 2, 7, NEURONS, seed=1))
    again, _ = run(module, inputs(6, 5, NEURONS))
    assert torch.equal(first, again)
    unbatched, _ = run(module, inputs(6, 5, NEURONS)[:, 2])
    torch.testing.assert_close(unbatched, first[:, 2], rtol=1e-12, atol=1e-12)


@each_row
def test_a_copy_after_training_is_independent(framework: str, row: Row) -> None:
    module = build(framework, row, suitable_node(row))
    xs = inputs(10, 3, NEURONS).requires_grad_()
    outputs, state = run(module, xs)
    backward(sum(value.sum() for value in state.values()))
    copied = copy.deepcopy(module)
    assert torch.equal(run(copied, xs)[0], outputs)
    with torch.no_grad():
        for value in (*copied.parameters(), *copied.buffers()):
            if value.is_floating_point():
                value.fill_(math.nan)
    assert torch.equal(run(module, xs)[0], outputs)


@each_row_of_tensors
def test_the_state_dict_holds_all_parameters(framework: str, row: Row) -> None:
    """A number of entries is the structure of a module, as a stride is, and not among its tensors."""
    if row.state is not None and any(variable.entries for variable in row.state.variables):
        first, other = (build(framework, row, suitable_node(row, seed)) for seed in (0, 1))
        assert [*first.state_dict()] == [*other.state_dict()] == []
        return
    first, second = (build(framework, row, suitable_node(row, seed)) for seed in (0, 1))
    xs = inputs(20, 3, NEURONS)
    expected, _ = run(second, xs)
    assert not torch.equal(run(first, xs)[0], expected)
    first.load_state_dict(second.state_dict())
    assert torch.equal(run(first, xs)[0], expected)
    third = build(framework, row, suitable_node(row, 2))
    third.load_state_dict(second.state_dict(), assign=True)
    assert torch.equal(run(third, xs)[0], expected)


@each_row
def test_moving_to_another_precision_moves_everything(framework: str, row: Row) -> None:
    node = suitable_node(row)
    moved = build(framework, row, node, torch.float32).to(torch.float64)
    made = build(framework, row, node, torch.float64)
    assert {v.dtype for v in moved.state_dict().values() if v.is_floating_point()} <= {torch.float64}
    xs = inputs(6, 3, NEURONS)
    output, state = run(moved, xs)
    assert output.dtype == torch.float64
    assert {value.dtype for value in state.values()} == {torch.float64}
    _, expected = run(made, xs)
    for name, value in state.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-5, atol=1e-5)
    if isinstance(moved, RecordCell) and moved.unknown.attributes:
        record: Any = getattr(moved.module, moved.unknown.attributes[0])
        kept = [value for value in record if isinstance(value, torch.Tensor)]
        assert kept
        assert {value.dtype for value in kept} == {torch.float64}


@each_row
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_output_and_state_have_the_dtype_of_the_input(framework: str, row: Row, dtype: torch.dtype) -> None:
    module = build(framework, row, suitable_node(row), dtype)
    output, state = run(module, inputs(3, 2, NEURONS, dtype=dtype))
    assert output.dtype == dtype
    assert {value.dtype for value in state.values()} == {dtype}
    assert {v.dtype for v in module.state_dict().values() if v.is_floating_point()} <= {dtype}


@each_row
def test_counted_spikes_are_an_input_like_any_other(framework: str, row: Row) -> None:
    module = build(framework, row, suitable_node(row), torch.float32)
    counts = torch.tensor([[[2, 0, 1, 1]]] * 8)
    output, state = run(module, counts)
    expected, expected_state = run(module, counts.float())
    torch.testing.assert_close(output.float(), expected)
    for name, value in expected_state.items():
        torch.testing.assert_close(state[name].float(), value)


@each_row
def test_a_state_of_one_sample_serves_a_batch_and_one_of_another_batch_is_refused(
    framework: str, row: Row
) -> None:
    if row.node == "Delay":
        return  # its history has an axis of its own
    module = build(framework, row, suitable_node(row))
    _, state = run(module, inputs(5, 1, NEURONS))
    x = inputs(3, NEURONS, seed=1)
    one, _ = module(x, state)
    three, _ = module(x, {name: value.expand(3, NEURONS) for name, value in state.items()})
    assert torch.equal(one, three)
    with pytest.raises(RuntimeError):
        module(x, {name: value.expand(2, NEURONS) for name, value in state.items()})


@each_row
def test_gradients_flow_through_input_and_state(framework: str, row: Row) -> None:
    module = build(framework, row, suitable_node(row))
    xs = inputs(8, 3, NEURONS).requires_grad_()
    _, state = run(module, xs)
    backward(torch.stack([state[name] for name in sorted(state)]))
    assert xs.grad is not None
    reached = xs.grad.abs().sum(dim=(1, 2))
    assert bool((reached[-2:] > 0).all()), "no gradient through time"


@each_row
def test_it_pickles(framework: str, row: Row) -> None:
    module = build(framework, row, suitable_node(row), torch.float32).to(torch.float64)
    xs = inputs(20, 3, NEURONS)
    outputs, state = run(module, xs)
    stored = io.BytesIO()
    torch.save(module, stored)
    stored.seek(0)
    for restored in (pickle.loads(pickle.dumps(module)), torch.load(stored, weights_only=False)):
        again, state_again = run(restored, xs)
        assert torch.equal(again, outputs)
        assert all(torch.equal(state_again[name], value) for name, value in state.items())
        assert {name: value.dtype for name, value in restored.state_dict().items()} == {
            name: value.dtype for name, value in module.state_dict().items()
        }


@each_row_of_tensors
def test_torch_func_exchanges_the_parameters(framework: str, row: Row) -> None:
    first, second = (build(framework, row, suitable_node(row, seed)) for seed in (0, 1))
    if row.node == "Delay":
        return  # the length of its history is not a tensor
    x = inputs(3, NEURONS)
    before, _ = first(x, None)
    expected, state = second(x, None)
    tensors: dict[str, Any] = {**dict(second.named_parameters()), **dict(second.named_buffers())}
    output, new_state = torch.func.functional_call(first, tensors, (x, None))
    assert torch.equal(output, expected)
    assert all(torch.equal(new_state[name], value) for name, value in state.items())
    assert torch.equal(first(x, None)[0], before)


CELLS = [
    pytest.param(framework, row, id=f"{framework}-{row.node}-{row.module.__name__}")
    for framework, row in stateful_rows()
    if row.state is not None and (row.state.call != "explicit" or row.normal_form is not None)
]
each_cell = pytest.mark.parametrize(("framework", "row"), CELLS)


def _double(module: torch.nn.Module, arguments: Any, result: Any) -> Any:
    return 2 * result[0], result[1]


@each_cell
def test_a_pickled_cell_keeps_what_was_changed_by_hand(framework: str, row: Row) -> None:
    cell = build(framework, row, suitable_node(row))
    cell.register_forward_hook(_double)
    cell.module.note = "mine"
    cell.eval()
    restored = pickle.loads(pickle.dumps(cell))
    x = inputs(3, NEURONS)
    assert torch.equal(restored(x, None)[0], cell(x, None)[0])
    assert restored.module.note == "mine"
    assert not restored.training
    assert not restored.module.training


@each_cell
def test_a_cell_with_another_module_in_it_refuses_to_be_pickled(framework: str, row: Row) -> None:
    cell = build(framework, row, suitable_node(row))
    cell.module = copy.deepcopy(cell.module)
    with pytest.raises(pickle.PicklingError, match=row.module.__name__):
        pickle.dumps(cell)


@each_cell
def test_a_cell_says_what_it_does_around_its_module(framework: str, row: Row) -> None:
    cell = build(framework, row, suitable_node(row))
    assert isinstance(cell, Cell)
    assert PRIMITIVES[row.node].path in cell.extra_repr()
    assert ("gain" in cell.extra_repr()) == (cell.state_dict().get("gain") is not None)


class Alone(torch.nn.Module):
    """A network of one module."""

    def __init__(self, n: torch.nn.Module) -> None:
        super().__init__()
        self.n = n

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        return self.n(x, state)


def written(framework: str, module: torch.nn.Module) -> Any:
    """The node that a module is written as."""
    sample = inputs(1, NEURONS)
    return nirmap.to_nir(Alone(module), framework, dt=DT, sample=sample, reset="subtract").nodes["n"]


def check_written(framework: str, module: Any, node: nir.NIRNode, relative: float = 1e-9) -> None:
    found = written(framework, module)
    assert type(found) is type(node)
    for parameter in PRIMITIVES[type(node).__name__].declared:
        value = getattr(node, parameter.name)
        np.testing.assert_allclose(
            getattr(found, parameter.name), value, rtol=relative, atol=relative, err_msg=parameter.name
        )


@each_row_of_tensors
def test_what_was_loaded_is_what_is_written(framework: str, row: Row) -> None:
    """A checkpoint would else be exported with the numbers of the network into which it was loaded."""
    if row.node == "Delay":
        return  # the length of its history is not a tensor
    nodes = [suitable_node(row, seed) for seed in (0, 1)]
    loaded = build(framework, row, nodes[1]).state_dict()
    module = build(framework, row, nodes[0])
    module.load_state_dict(loaded)
    check_written(framework, module, nodes[1])
    module = build(framework, row, nodes[0])
    module.load_state_dict(loaded, assign=True)
    check_written(framework, copy.deepcopy(module), nodes[1])
    check_written(framework, pickle.loads(pickle.dumps(module)), nodes[1])
    # What is written is what runs, which in another precision are other numbers.
    module = build(framework, row, nodes[0], torch.float32)
    module.load_state_dict(loaded)
    check_written(framework, module, nodes[1], 2e-4)


@each_cell
def test_what_was_changed_by_hand_is_what_is_written(framework: str, row: Row) -> None:
    """Whatever happens to the tensors of a cell: the graph does what the cell does."""
    cell = build(framework, row, suitable_node(row))
    # The others are the module's own, or say in what unit it counts its state.
    names = [name for name in dict(cell.named_buffers()) if not name.startswith(("module.", "times_"))]
    xs, before = inputs(12, 2, NEURONS), written(framework, cell)
    cases = [(_in_place, [name]) for name in cell.held if name in names]
    cases += [(_in_place, names), (_exchanged, names), (_trained, names)]
    for change, chosen in cases if names else []:
        cell = build(framework, row, suitable_node(row))
        for name in chosen:
            change(cell, name)
        node = written(framework, cell)
        changed = [
            parameter.name
            for parameter in PRIMITIVES[row.node].declared
            if not np.allclose(getattr(node, parameter.name), getattr(before, parameter.name), rtol=1e-3)
        ]
        assert changed or not set(chosen) & set(cell.held), chosen
        trace = simulate(chain([node], (NEURONS,)), xs, DT)
        with torch.no_grad():
            output, state = run(cell, xs)
        np.testing.assert_allclose(output.numpy(), trace.outputs["output"], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state["v"].numpy(), trace.states[("0",)]["v"][-1], rtol=1e-9, atol=1e-9)


def test_a_change_that_no_node_can_express_is_refused() -> None:
    """An integrator that was made leaky would else be written as one that never forgets."""
    row = next(row for framework, row in stateful_rows() if (framework, row.node) == ("snntorch", "I"))
    cell = build("snntorch", row, suitable_node(row))
    cell.module.beta.mul_(0.5)
    with pytest.raises(nirmap.ConstraintError, match=r"beta = 0\.5; expected module\.beta == 1") as raised:
        written("snntorch", cell)
    assert "module 'n'" in raised.value.where


def _in_place(cell: Any, name: str) -> None:
    getattr(cell, name).mul_(0.75)


def _exchanged(cell: Any, name: str) -> None:
    setattr(cell, name, 0.75 * getattr(cell, name))


def _trained(cell: Any, name: str) -> None:
    """The buffer becomes a parameter, which follows its gradient for a step."""
    value = getattr(cell, name).clone()
    delattr(cell, name)
    parameter = torch.nn.Parameter(value)
    setattr(cell, name, parameter)
    backward(0.125 * parameter**2)
    assert parameter.grad is not None
    with torch.no_grad():
        parameter.sub_(parameter.grad)


@pytest.mark.parametrize(
    ("framework", "kind"),
    [("norse", "I"), ("spikingjelly", "I"), ("spikingjelly", "LI"), ("spikingjelly", "CubaLI")],
)
def test_an_integrator_that_was_given_a_threshold_is_not_written_as_one(framework: str, kind: str) -> None:
    """It is a spiking module whose threshold is out of reach, and is reset where that is changed by hand."""
    (row,) = [row for name, row in stateful_rows() if name == framework and row.node == kind]
    graph = chain([suitable_node(row)], (NEURONS,))
    net = nirmap.from_nir(graph, framework, dt=DT, dtype=torch.float64)
    assert type(nirmap.to_nir(net).nodes["0"]).__name__ == kind
    (cell,) = [module for module in net.modules() if isinstance(module, Cell)]
    if framework == "norse":
        cell.get_buffer("p_v_th").fill_(0.5)
    else:
        cell.module.v_threshold = 0.5  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(nirmap.ConstraintError, match="a threshold in reach resets the integrator"):
        nirmap.to_nir(net)


def test_what_a_cell_holds_of_another_normal_form_is_not_loaded_in_silence() -> None:
    """It would be left out, and the network would compute something else."""
    found = 0
    for framework, row in stateful_rows():
        if row.normal_form is None:
            continue
        resting = suitable_node(row)
        for name in ("v_leak", "v_reset"):
            if hasattr(resting, name):
                setattr(resting, name, np.zeros(NEURONS))
        cells = [build(framework, row, node) for node in (suitable_node(row), resting)]
        shifted, plain = (set(cell.state_dict()) for cell in cells)
        for name in shifted - plain:
            found += 1
            with pytest.raises(RuntimeError, match=rf'Unexpected key.*"{name}"'):
                cells[1].load_state_dict(cells[0].state_dict())
            with pytest.raises(RuntimeError, match=rf'Missing key.*"{name}"'):
                cells[0].load_state_dict(cells[1].state_dict())
    assert found > 3


def test_a_resistance_of_zero_gives_a_number() -> None:
    """The gain r is divided by on the way back, where it does not matter any more."""
    for framework, row in stateful_rows():
        node: Any = suitable_node(row)
        if row.node not in ("LIF", "LI"):
            continue
        node.r = np.zeros(NEURONS)
        if any("r" in entry.names and "v_reset" not in entry.names for entry in row.requires):
            continue  # the framework needs a resistance for something else
        if not all(entry.holds(node.__dict__, DT) for entry in row.requires):
            node.v_reset = node.v_leak
        output, state = run(build(framework, row, node), inputs(30, 2, NEURONS))
        trace = simulate(chain([node], (NEURONS,)), inputs(30, 2, NEURONS), DT)
        np.testing.assert_allclose(output.numpy(), trace.outputs["output"], atol=1e-9)
        np.testing.assert_allclose(state["v"].numpy(), trace.states[("0",)]["v"][-1], atol=1e-9)


def test_a_conversion_does_not_depend_on_the_device() -> None:
    """On meta there are no numbers to look at, and still the same buffers have to be there."""
    for framework, row in stateful_rows():
        if row.node == "Delay":
            continue
        node: nir.NIRNode = suitable_node(row)
        modules = [build(framework, row, node, device=device) for device in ("cpu", "meta")]
        assert modules[0].state_dict().keys() == modules[1].state_dict().keys()
        assert all(value.is_meta for value in (*modules[1].parameters(), *modules[1].buffers()))
        modules[1].to_empty(device="cpu").load_state_dict(modules[0].state_dict())
        xs = inputs(10, 3, NEURONS)
        assert torch.equal(run(modules[1], xs)[0], run(modules[0], xs)[0])

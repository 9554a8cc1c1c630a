"""Models of every style, step by step or over whole sequences, are the graph of one step.

If these fail, the users of a framework whose modules take sequences, or keep their state in themselves, cannot write
their models, or get other networks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import norse.torch as norse
import numpy as np
import pytest
import rockpool.nn.combinators
import rockpool.nn.modules
import sinabs.activation as sa
import sinabs.layers as sl
import snntorch
import snntorch.utils
import spikingjelly.activation_based.layer as sj_layer
import torch
from spikingjelly.activation_based import functional as sj_functional
from spikingjelly.activation_based import neuron as sj_neuron

from nirmap.errors import GraphError, NirmapError
from nirmap.oracle.interpreter import simulate
from written import DT, edges, kinds, to_nir

Tensor = torch.Tensor
STEPS, BATCH, WIDTH = 30, 2, 3
# Modules of all frameworks, as their users call them: most publish no types.
SJ: Any = sj_layer
NEURONS: Any = sj_neuron
SINGLE: dict[str, Any] = {"spike_fn": sa.SingleSpike, "reset_fn": sa.MembraneReset()}
ZERO: dict[str, Any] = {"reset_mechanism": "zero", "reset_delay": False}
HIDDEN: dict[str, Any] = {**ZERO, "init_hidden": True}
SNN: Any = snntorch
SNN_UTILS: Any = snntorch.utils
RP_COMBINATORS: Any = rockpool.nn.combinators
RP: Any = rockpool.nn.modules
IMAGE = (1, 5, 5)


def linear(before: int = WIDTH, after: int = WIDTH, seed: int = 0) -> Any:
    """A layer whose weights are mostly positive, so that what follows fires."""
    return positive(torch.nn.Linear(before, after), seed)


def positive(module: Any, seed: int = 0) -> Any:
    """A module with weights that are mostly positive."""
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in torch.nn.Module.parameters(module):
            parameter.copy_(torch.tensor(random.uniform(-0.2, 0.8, tuple(parameter.shape))))
    return module


def multi_step(*modules: torch.nn.Module) -> torch.nn.Module:
    model = torch.nn.Sequential(*modules)
    sj_functional.set_step_mode(model, "m")
    return model


def lif_of_norse() -> Any:
    parameters: Any = norse.LIFBoxParameters(tau_mem_inv=torch.tensor(4000.0), v_th=torch.tensor(0.5))
    return norse.LIFBoxCell(parameters, dt=DT)


def lif_over_sequences() -> Any:
    parameters: Any = norse.LIFParameters(torch.tensor(2000.0), torch.tensor(4000.0), v_th=torch.tensor(0.5))
    return norse.LIF(parameters, dt=DT)


def lif_of_spikingjelly(**options: Any) -> Any:
    return NEURONS.LIFNode(tau=2.5, v_threshold=0.7, v_reset=0.0, **options)


def lif_of_rockpool() -> Any:
    return RP.LIFTorch(WIDTH, tau_mem=0.02, tau_syn=0.01, max_spikes_per_dt=1, dt=DT, threshold=0.8)


def half_less(last: Tensor, x: Tensor) -> Tensor:
    """An input less half of what came out last."""
    return x - 0.5 * last


class Feedback(torch.nn.Module):
    """What a neuron gives comes back in the next step, as an attribute of the model."""

    def __init__(self, neuron: torch.nn.Module) -> None:
        super().__init__()
        self.before, self.neuron = linear(seed=1), neuron
        self.back = positive(torch.nn.Linear(WIDTH, WIDTH, bias=False), seed=2)
        self.last: Any = None

    def forward(self, x: Tensor) -> Any:
        current = self.before(x)
        if self.last is not None:
            current = current + self.back(self.last)
        self.last = self.neuron(current)
        return self.last


class Readout(torch.nn.Module):
    """A hidden state whose potential is the output."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()
        self.neuron = SNN.Leaky(0.8, reset_mechanism="none", init_hidden=True, output=True)

    def forward(self, x: Tensor) -> Any:
        _, potential = self.neuron(self.layer(x))
        return potential


class HiddenLoop(torch.nn.Module):
    """The loop of a training script, over neurons that keep their state in themselves."""

    def __init__(self, neuron: torch.nn.Module) -> None:
        super().__init__()
        self.layer, self.neuron = linear(), neuron

    def forward(self, xs: Tensor) -> Any:
        return torch.stack([self.neuron(self.layer(x)) for x in xs])


class Reset(HiddenLoop):
    """The same, which first sets the state back, as scripts of snnTorch do."""

    def forward(self, xs: Tensor) -> Any:
        SNN_UTILS.reset(self)
        return super().forward(xs)


def reset_then_loop() -> torch.nn.Module:
    """The model alone in snnTorch's list of all neurons, since a reset goes through that, whosever they are."""
    SNN.SpikingNeuron.instances.clear()
    return Reset(SNN.Leaky(0.8, **HIDDEN))


class Residual(torch.nn.Module):
    """A sum of sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.neuron = linear(), lif_of_spikingjelly(step_mode="m")

    def forward(self, xs: Tensor) -> Any:
        return 2.0 * self.neuron(self.layer(xs)) + xs / 4


class UserModule(torch.nn.Module):
    """Rockpool's own combination inside of a user's module."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = RP_COMBINATORS.Sequential(positive(RP.LinearTorch((WIDTH, WIDTH))), lif_of_rockpool())

    def forward(self, xs: Tensor) -> Any:
        spikes, _, _ = self.inner(xs)
        return spikes


@dataclass(frozen=True)
class Style:
    """How a model is made and called.

    Attributes:
        framework: the framework of its neurons.
        make: the model.
        called: ``step`` for each step by itself, ``joined`` for batch and time in one axis, or the axis of time.
        shape: of the input, without batch.
    """

    framework: str
    make: Callable[[], Any]
    called: str | int
    shape: tuple[int, ...] = (WIDTH,)
    reset: str = "value"


STYLES: dict[str, Style] = {
    "norse SequentialState": Style("norse", lambda: norse.SequentialState(linear(), lif_of_norse()), "state"),
    "norse RecurrentSequential": Style(
        "norse", lambda: norse.RecurrentSequential(linear(), lif_of_norse()), "state"
    ),
    "norse RecurrentSequential, earlier output": Style(
        "norse",
        lambda: norse.RecurrentSequential(
            linear(), lif_of_norse(), linear(seed=3), lif_of_norse(), output_modules=1
        ),
        "state",
    ),
    "norse Lift": Style("norse", lambda: norse.Lift(norse.SequentialState(linear(), lif_of_norse())), 0),
    "norse over sequences": Style(
        "norse", lambda: norse.SequentialState(norse.Lift(linear()), lif_over_sequences(), linear(seed=6)), 0
    ),
    "norse convolution over sequences": Style(
        "norse",
        lambda: norse.SequentialState(
            norse.Lift(positive(torch.nn.Conv2d(1, 2, 3))),
            lif_over_sequences(),
            norse.Lift(torch.nn.Flatten()),
        ),
        0,
        IMAGE,
    ),
    "norse Lift of a cell": Style("norse", lambda: norse.Lift(lif_of_norse()), 0),
    "snntorch hidden": Style(
        "snntorch", lambda: torch.nn.Sequential(linear(), SNN.Leaky(0.8, **HIDDEN)), "step"
    ),
    "snntorch hidden, with output": Style(
        "snntorch",
        lambda: torch.nn.Sequential(
            linear(), SNN.Synaptic(0.5, 0.8, **HIDDEN), linear(seed=4), SNN.Leaky(0.8, output=True, **HIDDEN)
        ),
        "step",
    ),
    "snntorch hidden, reset later": Style(
        "snntorch",
        lambda: torch.nn.Sequential(linear(), SNN.Leaky(0.8, init_hidden=True)),
        "step",
        reset="subtract",
    ),
    "snntorch hidden, recurrent": Style(
        "snntorch",
        lambda: torch.nn.Sequential(
            linear(), positive(SNN.RLeaky(0.8, all_to_all=False, V=-0.5, init_hidden=True))
        ),
        "step",
        reset="subtract",
    ),
    "snntorch hidden readout": Style("snntorch", Readout, "step"),
    "snntorch hidden in a loop": Style("snntorch", lambda: HiddenLoop(SNN.Leaky(0.8, **HIDDEN)), 0),
    "snntorch reset, then a loop": Style("snntorch", reset_then_loop, 0),
    "spikingjelly single-step": Style(
        "spikingjelly", lambda: torch.nn.Sequential(linear(), lif_of_spikingjelly()), "step"
    ),
    "spikingjelly in a loop": Style("spikingjelly", lambda: HiddenLoop(lif_of_spikingjelly()), 0),
    "spikingjelly fed back": Style("spikingjelly", lambda: Feedback(lif_of_spikingjelly()), "step"),
    "spikingjelly ElementWiseRecurrentContainer": Style(
        "spikingjelly",
        lambda: SJ.ElementWiseRecurrentContainer(lif_of_spikingjelly(), half_less),
        "step",
    ),
    "spikingjelly multi-step": Style(
        "spikingjelly", lambda: multi_step(positive(SJ.Linear(WIDTH, WIDTH)), lif_of_spikingjelly()), 0
    ),
    "spikingjelly multi-step convolution": Style(
        "spikingjelly",
        lambda: multi_step(
            positive(SJ.Conv2d(1, 2, 3)),
            SJ.BatchNorm2d(2).eval(),
            lif_of_spikingjelly(),
            SJ.AvgPool2d(2),
            SJ.Flatten(),
            SJ.Dropout(0.5).eval(),
        ).eval(),
        0,
        IMAGE,
    ),
    "spikingjelly sum of sequences": Style("spikingjelly", Residual, 0),
    "spikingjelly SeqToANNContainer": Style(
        "spikingjelly",
        lambda: torch.nn.Sequential(
            SJ.SeqToANNContainer(positive(torch.nn.Conv2d(1, 2, 3)), torch.nn.Flatten()),
            lif_of_spikingjelly(step_mode="m"),
        ),
        0,
        IMAGE,
    ),
    "spikingjelly MultiStepContainer": Style(
        "spikingjelly", lambda: SJ.MultiStepContainer(linear(), lif_of_spikingjelly()), 0
    ),
    "spikingjelly StepModeContainer, single-step": Style(
        "spikingjelly", lambda: SJ.StepModeContainer(True, "s", linear(), lif_of_spikingjelly()), "step"
    ),
    "spikingjelly StepModeContainer, multi-step": Style(
        "spikingjelly", lambda: SJ.StepModeContainer(True, "m", linear(), lif_of_spikingjelly()), 0
    ),
    "sinabs": Style("sinabs", lambda: torch.nn.Sequential(linear(), sl.LIF(5.0, **SINGLE)), 1),
    "sinabs squeezed": Style(
        "sinabs",
        lambda: torch.nn.Sequential(
            positive(torch.nn.Conv2d(1, 2, 3)), sl.IAFSqueeze(batch_size=BATCH, **SINGLE), torch.nn.Flatten()
        ),
        "joined",
        IMAGE,
    ),
    "sinabs Repeat": Style(
        "sinabs",
        lambda: torch.nn.Sequential(
            sl.Repeat(positive(torch.nn.Conv2d(1, 2, 3))),
            sl.LIF(5.0, **SINGLE),
            sl.Repeat(torch.nn.Flatten()),
        ),
        1,
        IMAGE,
    ),
    "sinabs FlattenTime and UnflattenTime": Style(
        "sinabs",
        lambda: torch.nn.Sequential(
            sl.FlattenTime(),
            positive(torch.nn.Conv2d(1, 2, 3)),
            sl.UnflattenTime(BATCH),
            sl.LIF(5.0, **SINGLE),
            sl.FlattenTime(),
            torch.nn.Flatten(),
            sl.UnflattenTime(BATCH),
        ),
        1,
        IMAGE,
    ),
    "rockpool Sequential": Style(
        "rockpool",
        lambda: RP_COMBINATORS.Sequential(positive(RP.LinearTorch((WIDTH, WIDTH))), lif_of_rockpool()),
        1,
        reset="subtract",
    ),
    "rockpool Sequential in a Sequential": Style(
        "rockpool",
        lambda: RP_COMBINATORS.Sequential(
            RP_COMBINATORS.Sequential(positive(RP.LinearTorch((WIDTH, WIDTH))), lif_of_rockpool()),
            positive(RP.LinearTorch((WIDTH, 2), has_bias=False)),
            RP.ExpSynTorch(2, tau=0.01, dt=DT),
        ),
        1,
        reset="subtract",
    ),
    "rockpool Residual": Style(
        "rockpool",
        lambda: RP_COMBINATORS.Residual(positive(RP.LinearTorch((WIDTH, WIDTH))), lif_of_rockpool()),
        1,
        reset="subtract",
    ),
    "rockpool in a module of the user": Style("rockpool", UserModule, 1, reset="subtract"),
}


def sequence(style: Style) -> Tensor:
    """An input (steps, batch, *shape)."""
    return torch.tensor(
        np.random.default_rng(5).uniform(0, 1, (STEPS, BATCH, *style.shape)), dtype=torch.float32
    )


def as_called(style: Style, xs: Tensor) -> Tensor:
    """A sequence as the model takes it: one step of it, or all of them."""
    if isinstance(style.called, int):
        return xs.movedim(0, style.called)
    return xs.movedim(0, 1).flatten(0, 1) if style.called == "joined" else xs[0]


def returned(model: Any, style: Style, xs: Tensor) -> Tensor:
    """What a model gives, (steps, batch, ...)."""
    with torch.no_grad():
        if isinstance(style.called, int):
            found = model(as_called(style, xs))
            return (found if isinstance(found, Tensor) else found[0]).movedim(style.called, 0)
        if style.called == "joined":
            joined: Tensor = model(as_called(style, xs))
            return joined.reshape(BATCH, STEPS, *joined.shape[1:]).movedim(1, 0)
        outputs: list[Tensor] = []
        state: tuple[Any, ...] = ()
        for x in xs:
            found = model(x, *state)
            outputs.append(found if isinstance(found, Tensor) else found[0])
            state = (found[1],) if style.called == "state" else ()
        return torch.stack(outputs)


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_a_model_of_every_style_is_the_graph_of_one_step(style: Style) -> None:
    xs, model = sequence(style), style.make()
    graph = to_nir(model, style.framework, dt=DT, sample=as_called(style, xs), reset=style.reset)
    assert tuple(graph.nodes[next(iter(graph.inputs))].input_type["input"]) == style.shape
    expected = returned(model, style, xs).numpy()
    (found,) = simulate(graph, xs.double().numpy(), DT).outputs.values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(expected).mean() > 0
    assert expected.std() > 0.01


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("spikingjelly multi-step", {"0": "Affine", "1": "LIF"}),
        ("spikingjelly SeqToANNContainer", {"0.0": "Conv2d", "0.1": "Flatten", "1": "LIF"}),
        ("norse Lift", {"lifted_module.0": "Affine", "lifted_module.1": "LIF"}),
        ("rockpool Sequential in a Sequential", {"1_LinearTorch": "Linear", "2_ExpSynTorch": "LI"}),
    ],
)
def test_nodes_go_by_the_names_of_the_modules(name: str, expected: dict[str, str]) -> None:
    style = STYLES[name]
    graph = to_nir(
        style.make(), style.framework, dt=DT, sample=as_called(style, sequence(style)), reset="subtract"
    )
    assert expected.items() <= kinds(graph).items()


def test_what_comes_back_through_a_container_is_a_recurrent_edge() -> None:
    style = STYLES["norse RecurrentSequential"]
    assert ("module.1", "module.0") in edges(to_nir(style.make(), "norse", dt=DT))


@pytest.mark.parametrize(
    "style",
    [
        pytest.param(style, id=name)
        for name, style in STYLES.items()
        if isinstance(style.called, int) and style.shape == (WIDTH,) and "loop" not in name
    ],
)
def test_a_sample_of_one_step_serves_where_a_layer_says_so(style: Style) -> None:
    """A sample (batch, neurons) has no axis of time, and is that of a single step."""
    graph = to_nir(style.make(), style.framework, dt=DT, sample=torch.zeros(BATCH, WIDTH), reset=style.reset)
    assert tuple(graph.nodes[next(iter(graph.inputs))].input_type["input"]) == (WIDTH,)


def test_a_sample_that_is_neither_a_sequence_nor_a_step_is_refused() -> None:
    model = multi_step(SJ.Linear(WIDTH, 2), lif_of_spikingjelly())
    with pytest.raises(GraphError, match=r"\(7,\)"):
        to_nir(model, "spikingjelly", sample=torch.zeros(STEPS, BATCH, 7))


class FedBack(torch.nn.Module):
    """A whole sequence comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.neuron = linear(), lif_of_spikingjelly(step_mode="m")

    def forward(self, xs: Tensor, last: Any = None) -> Any:
        if last is not None:
            xs = xs + last
        out = self.neuron(self.layer(xs))
        return out, out


class LastStep(torch.nn.Module):
    """Only the last step is returned."""

    def __init__(self, written: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.neuron, self.written = lif_of_spikingjelly(step_mode="m"), written

    def forward(self, xs: Tensor) -> Any:
        return self.written(self.neuron(xs))


REFUSED: dict[str, tuple[str, Callable[[], torch.nn.Module], str]] = {
    "a convolution in a sequence": (
        "norse",
        lambda: torch.nn.Sequential(norse.Lift(torch.nn.Conv2d(1, 2, 3)), torch.nn.Conv2d(2, 2, 3)),
        r"module '1' .*: a sequence of time steps, time being axis 0; expected a single time step.*norse.torch.Lift",
    ),
    "a cell in a sequence": (
        "spikingjelly",
        lambda: torch.nn.Sequential(lif_of_spikingjelly(step_mode="m"), lif_of_spikingjelly()),
        r"module '1' .*: a sequence of time steps",
    ),
    "a sequence behind a single step": (
        "sinabs",
        lambda: torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), sl.LIF(5.0, **SINGLE)),
        r"module '1' .*: a single time step; expected a sequence of time steps, time being axis 1",
    ),
    "another axis of time": (
        "norse",
        lambda: norse.Lift(torch.nn.Sequential(norse.Lift(torch.nn.Linear(3, 3)))),
        r"module 'lifted_module.0': a single time step; expected a sequence",
    ),
    "a sequence that is fed back": (
        "spikingjelly",
        FedBack,
        "a sequence of time steps with a value of a single one",
    ),
    "the last step": ("spikingjelly", lambda: LastStep(lambda xs: xs[-1]), "-1 of a signal"),
    "the mean over time": (
        "spikingjelly",
        lambda: LastStep(lambda xs: xs.mean(0)),
        "the mean of a signal over",
    ),
    "time taken away": (
        "spikingjelly",
        lambda: LastStep(lambda xs: xs.squeeze(0)),
        "an axis 0 that is taken away",
    ),
    "a view of a sequence": (
        "spikingjelly",
        lambda: LastStep(lambda xs: torch.flatten(xs, 1)),
        "a sequence of time steps",
    ),
}


@pytest.mark.parametrize(("framework", "make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_graph_of_one_step_is_refused(
    framework: str, make: Callable[[], torch.nn.Module], message: str
) -> None:
    with pytest.raises(NirmapError, match=message):
        to_nir(make(), framework, dt=DT)

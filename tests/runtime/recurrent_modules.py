"""Modules that are small graphs, with drawn parameters, and how they run by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import norse.torch as norse
import sinabs.activation as sa
import sinabs.layers as sl
import snntorch as snn
import torch
from rockpool.nn.modules.torch import LIFTorch
from torch import Tensor, nn

DT = 1e-3
STEPS, BATCH, INPUTS, NEURONS = 60, 3, 4, 6
IMAGE = (2, 5, 4)


def seed(number: int) -> None:
    """Begins torch's random numbers anew."""
    torch.manual_seed(number)  # pyright: ignore[reportUnknownMemberType]


def drawn(low: float, high: float, *shape: int) -> Tensor:
    """Numbers between two bounds, one for each neuron by default."""
    return torch.rand(*(shape or (NEURONS,))) * (high - low) + low


def step_by_step(module: nn.Module, xs: Tensor, state: Any) -> Tensor:
    """The outputs of a module that returns its output and its state; snnTorch's spikes are always float32."""
    outputs: list[Tensor] = []
    for x in xs:
        returned = module(x, *state) if isinstance(state, list) else module(x, state)
        outputs.append(returned[0])
        state = [entry.to(x.dtype) for entry in returned] if isinstance(state, list) else returned[1]
    return torch.stack(outputs)


def whole_sequence(module: nn.Module, xs: Tensor, state: Any) -> Tensor:
    """The outputs of a module that takes (batch, time, neurons)."""
    outputs: Tensor = module(xs.transpose(0, 1)).transpose(0, 1)
    return outputs


class OfSnntorch(nn.Module):
    """A model with one such layer and a readout, in snnTorch's style."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, spk: Any = None, mem: Any = None) -> Any:
        spk, mem = self.layer(x, spk, mem)
        return spk, mem


class WithCurrent(nn.Module):
    """The same for a layer with a synaptic current."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, spk: Any = None, syn: Any = None, mem: Any = None) -> Any:
        spk, syn, mem = self.layer(x, spk, syn, mem)
        return spk, syn, mem


class OfNorse(nn.Module):
    """A model with one such cell, in norse's style."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, state: Any = None) -> Any:
        return self.layer(x, state)


@dataclass(frozen=True)
class Case:
    """A module that is a graph.

    Attributes:
        framework: its framework.
        make: draws one.
        nodes: the graph's nodes, of which the last one is reset where ``reset`` says how.
        model: the user's model around it.
        run: how it runs by itself.
        state: its initial state.
        shape: shape of its input.
        reset: what the caller says of its reset.
    """

    framework: str
    make: Callable[[], nn.Module]
    nodes: str
    model: Callable[[nn.Module], nn.Module] = nn.Sequential
    run: Callable[[nn.Module, Tensor, Any], Tensor] = whole_sequence
    state: Any = None
    shape: tuple[int, ...] = (NEURONS,)
    reset: Literal["value", "subtract"] = "value"


def _snn(kind: Any, layer: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        conv = layer == "conv2d"
        options_of: dict[str, dict[str, Any]] = {
            "linear": {"linear_features": NEURONS},
            "conv2d": {"conv2d_channels": IMAGE[0], "kernel_size": 3},
            "one to one": {"all_to_all": False, "V": drawn(-1, 1)},
        }
        sizes = options_of[layer]
        decays = {"beta": drawn(0.3, 0.95), "threshold": drawn(0.4, 1)}
        if kind is snn.RSynaptic:
            decays["alpha"] = drawn(0.3, 0.9)
        decays = {name: value[0] if conv else value for name, value in decays.items()}
        module: nn.Module = kind(**decays, **sizes, **options).double()
        return module

    return make


def _of_snntorch() -> dict[str, Case]:
    zero = {"reset_mechanism": "zero", "reset_delay": False}
    none = {"reset_mechanism": "none"}
    extra = {"linear": "Affine", "conv2d": "Conv2d", "one to one": "Scale"}
    found: dict[str, Case] = {}
    for layer, node in extra.items():
        shape = IMAGE if layer == "conv2d" else (NEURONS,)
        if layer != "one to one":
            found[f"RLeaky {layer}"] = Case(
                "snntorch",
                _snn(snn.RLeaky, layer, **zero),
                f"{node} LIF",
                OfSnntorch,
                step_by_step,
                [],
                shape,
            )
        found[f"RLeaky without reset {layer}"] = Case(
            "snntorch",
            _snn(snn.RLeaky, layer, **none),
            f"{node} LI Threshold Threshold",
            OfSnntorch,
            step_by_step,
            [],
            shape,
        )
        found[f"RSynaptic {layer}"] = Case(
            "snntorch",
            _snn(snn.RSynaptic, layer, **none),
            f"{node} CubaLI Threshold Threshold",
            WithCurrent,
            step_by_step,
            [],
            shape,
        )
        # As their constructors make them: a spike subtracts the threshold, in the next step.
        found[f"RLeaky by subtraction {layer}"] = Case(
            "snntorch",
            _snn(snn.RLeaky, layer),
            f"{node} LIF",
            OfSnntorch,
            step_by_step,
            [],
            shape,
            "subtract",
        )
        found[f"RSynaptic by subtraction {layer}"] = Case(
            "snntorch",
            _snn(snn.RSynaptic, layer),
            f"{node} CubaLIF",
            WithCurrent,
            step_by_step,
            [],
            shape,
            "subtract",
        )
    return found


def norse_parameters() -> Any:
    """Drawn parameters of a norse LIF."""
    return norse.LIFParameters(
        tau_syn_inv=drawn(100, 400),
        tau_mem_inv=drawn(100, 400),
        v_leak=drawn(-0.1, 0.2),
        v_th=drawn(0.2, 0.6),
        v_reset=drawn(-0.3, 0),
    )


def _norse_recurrent(kind: Any) -> Callable[[], nn.Module]:
    # With autapses as well: without them, norse sets the diagonal of the weights to zero.
    return lambda: kind(INPUTS, NEURONS, p=norse_parameters(), autapses=bool(torch.rand(()) > 0.5), dt=DT)


def _norse_linear() -> nn.Module:
    p = norse_parameters()
    li: Any = norse.LIParameters(p.tau_syn_inv, p.tau_mem_inv, p.v_leak)
    cell: nn.Module = norse.LILinearCell(INPUTS, NEURONS, p=li, dt=DT)
    return cell


def _at_once(module: nn.Module, xs: Tensor, state: Any) -> Tensor:
    outputs: Tensor = module(xs, state)[0]
    return outputs


def _of_norse() -> dict[str, Case]:
    zeros = torch.zeros(BATCH, NEURONS, dtype=torch.float64)
    lif, li = norse.LIFState(zeros, zeros, zeros), norse.LIState(zeros, zeros)
    nodes, shape = "CubaLIF Linear Linear", (INPUTS,)
    return {
        "LIFRecurrentCell": Case(
            "norse", _norse_recurrent(norse.LIFRecurrentCell), nodes, OfNorse, step_by_step, lif, shape
        ),
        "LIFRecurrent": Case(
            "norse", _norse_recurrent(norse.LIFRecurrent), nodes, OfNorse, _at_once, lif, shape
        ),
        "LILinearCell": Case("norse", _norse_linear, "CubaLI Linear", OfNorse, step_by_step, li, shape),
    }


# sinabs annotates it with a number, and takes one for each neuron as well.
subtracting: Callable[..., Any] = sa.MembraneSubtract


def sinabs_options(bias: bool = False, reset: Any = None) -> dict[str, Any]:
    """What makes a sinabs layer one that NIR can express."""
    return {
        "rec_connect": nn.Linear(NEURONS, NEURONS, bias=bias),
        "spike_threshold": drawn(0.3, 0.7),
        "spike_fn": sa.SingleSpike,
        "reset_fn": reset or sa.MembraneReset(),
    }


def _of_sinabs() -> dict[str, Case]:
    def lif(**options: Any) -> Callable[[], nn.Module]:
        return lambda: sl.LIFRecurrent(
            tau_mem=drawn(2, 8),
            tau_syn=drawn(2, 8) if options["synapse"] else None,
            norm_input=options["norm_input"],
            train_alphas=options["train_alphas"],
            **sinabs_options(reset=options.get("reset")),
        )

    return {
        "LIFRecurrent (sinabs)": Case(
            "sinabs", lif(synapse=False, norm_input=True, train_alphas=False), "LIF Linear"
        ),
        "LIFRecurrent, decays": Case(
            "sinabs", lif(synapse=False, norm_input=False, train_alphas=True), "LIF Linear"
        ),
        "LIFRecurrent, synapse": Case(
            "sinabs", lif(synapse=True, norm_input=False, train_alphas=False), "CubaLIF Linear"
        ),
        "LIFRecurrent, synapse, decays": Case(
            "sinabs", lif(synapse=True, norm_input=True, train_alphas=True), "CubaLIF Linear"
        ),
        "IAFRecurrent": Case("sinabs", lambda: sl.IAFRecurrent(**sinabs_options()), "IF Linear"),
        "LIFRecurrent by subtraction": Case(
            "sinabs",
            lif(synapse=False, norm_input=True, train_alphas=True, reset=sa.MembraneSubtract()),
            "Linear LIF",
            reset="subtract",
        ),
        "LIFRecurrent by subtraction, synapse": Case(
            "sinabs",
            lif(
                synapse=True,
                norm_input=False,
                train_alphas=False,
                reset=subtracting(subtract_value=torch.linspace(0.2, 0.5, NEURONS)),
            ),
            "Linear CubaLIF",
            reset="subtract",
        ),
        "IAFRecurrent by subtraction": Case(
            "sinabs",
            lambda: sl.IAFRecurrent(**sinabs_options(reset=sa.MembraneSubtract())),
            "Linear IF",
            reset="subtract",
        ),
    }


def rockpool_neuron(recurrent: bool, **options: Any) -> nn.Module:
    """A LIFTorch that spikes at most once in a step, unless told otherwise."""
    settings: dict[str, Any] = {
        "tau_mem": drawn(2 * DT, 8 * DT),
        "tau_syn": drawn(2 * DT, 8 * DT, NEURONS, 1),
        "bias": drawn(-0.1, 0.1),
        "threshold": drawn(0.4, 1),
        "max_spikes_per_dt": torch.tensor(1.0),
        **options,
    }
    module: Any = LIFTorch((NEURONS, NEURONS), has_rec=recurrent, dt=DT, **settings)
    whole: nn.Module = module.to_torch()
    return whole


def _itself(module: nn.Module) -> nn.Module:
    return module


CASES: dict[str, Case] = {
    **_of_snntorch(),
    **_of_norse(),
    **_of_sinabs(),
    "LIFTorch, recurrent": Case(
        "rockpool",
        lambda: rockpool_neuron(True),
        "LI LI Linear Scale Threshold Threshold",
        _itself,
    ),
    "LIFTorch": Case("rockpool", lambda: rockpool_neuron(False), "LI LI Scale Threshold Threshold", _itself),
}

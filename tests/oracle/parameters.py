"""Drawn nodes: heterogeneous parameters, scaled so that a neuron fires under an input of the size it is told.

The structure of an example is drawn value by value, so that it shrinks; numbers come from a drawn seed. Values drawn
one by one would gather at round numbers, where potentials meet thresholds exactly and most examples would be discarded.

"Level" is the typical size of a signal: about 1 for the drawn inputs, less for spike trains. Weights and resistances
are scaled by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import nir
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Array = npt.NDArray[Any]
Fixed = Mapping[str, "float | Callable[[Mapping[str, Array]], Array]"]

TIME_STEP = 1e-4
"""The time step in seconds that the drawn time constants suit by default."""

SPIKING = frozenset({"IF", "LIF", "CubaLIF"})
NEURONS = SPIKING | {"I", "LI", "CubaLI"}
ELEMENTWISE = NEURONS | {"Scale", "Threshold", "Delay"}
DENSE = ELEMENTWISE | {"Linear", "Affine"}
"""The primitives on vectors, as the names of their classes in `nir`."""

_OUTPUT_LEVEL = {"Linear": 1.0, "Affine": 1.0, "Threshold": 0.5} | {
    kind: 0.3 if kind in SPIKING else 2.0 for kind in NEURONS
}


@dataclass(frozen=True)
class Settings:
    """What all nodes of a graph share.

    Attributes:
        dt: time step in seconds; time constants are 5 to 15 of it, delays 0 to 3 of it.
        fixed: parameter values by name, instead of drawn ones: a number for every neuron, or a function of the
            drawn parameters (``{"v_reset": lambda drawn: drawn["v_leak"]}``), for what a framework cannot express.
        uniform: whether all neurons of one node have equal parameters.
        dtype: of the parameters.
    """

    dt: float = TIME_STEP
    fixed: Fixed = field(default_factory=dict[str, Any])
    uniform: bool = False
    dtype: type[np.floating[Any]] = np.float64


DEFAULTS = Settings()


def generators() -> st.SearchStrategy[np.random.Generator]:
    """Random generators with a drawn seed."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


def parameters(
    primitive: str, shape: tuple[int, ...] = (3,), *, level: float = 1.0, settings: Settings = DEFAULTS
) -> st.SearchStrategy[dict[str, Array]]:
    """The constructor arguments of a primitive on vectors.

    Args:
        primitive: the name of its class in `nir`, one of DENSE.
        shape: of the node; of the weight, (..., out, in), for Linear and Affine.
        level: the typical size of what the node will receive.
        settings: what is drawn, and what is not.
    """
    if primitive not in DENSE:
        raise ValueError(f"{primitive!r} is not one of {sorted(DENSE)}")
    return generators().map(lambda random: _parameters(primitive, shape, level, settings, random))


def node(
    primitive: str, shape: tuple[int, ...] = (3,), *, level: float = 1.0, settings: Settings = DEFAULTS
) -> st.SearchStrategy[Any]:
    """A node with drawn `parameters`."""
    return parameters(primitive, shape, level=level, settings=settings).map(
        lambda arguments: getattr(nir, primitive)(**arguments)
    )


def neuron(
    kind: str, shape: tuple[int, ...] = (3,), *, level: float = 1.0, settings: Settings = DEFAULTS
) -> st.SearchStrategy[Any]:
    """A neuron, ``kind`` one of NEURONS, every parameter per neuron and none at a value that makes it vanish."""
    if kind not in NEURONS:
        raise ValueError(f"{kind!r} is not one of {sorted(NEURONS)}")
    return node(kind, shape, level=level, settings=settings)


def output_level(primitive: str, level: float) -> float:
    """The typical size of what a drawn node gives when it receives signals of size ``level``."""
    return _OUTPUT_LEVEL.get(primitive, level)


def weights(random: np.random.Generator, shape: tuple[int, ...], level: float) -> Array:
    """Weights of both signs whose rows (the last axis) sum to about ``1 / level``, so that no neuron is shut off."""
    drawn: Array = random.uniform(-0.4, 1.0, shape)
    sums = drawn.sum(axis=-1, keepdims=True)
    drawn = np.where(sums < 0.25 * shape[-1], np.abs(drawn), drawn)
    gains = random.uniform(0.7, 1.4, (*shape[:-1], 1)) / level
    scaled: Array = drawn / drawn.sum(axis=-1, keepdims=True) * gains
    return scaled


def _parameters(
    primitive: str, shape: tuple[int, ...], level: float, settings: Settings, random: np.random.Generator
) -> dict[str, Array]:
    if primitive in ELEMENTWISE:
        drawn = _elementwise(primitive, () if settings.uniform else shape, level, settings.dt, random)
        drawn = {name: np.broadcast_to(value, shape) for name, value in drawn.items()}
    else:
        drawn = {"weight": weights(random, shape, level)}
        if primitive == "Affine":
            drawn["bias"] = random.uniform(-0.2, 0.4, shape[:-1])
    for name, value in settings.fixed.items():
        if name in drawn:
            wanted = value(drawn) if callable(value) else value
            drawn[name] = np.broadcast_to(wanted, drawn[name].shape)
    return {name: np.array(value, dtype=settings.dtype) for name, value in drawn.items()}


def _elementwise(
    primitive: str, shape: tuple[int, ...], level: float, dt: float, random: np.random.Generator
) -> dict[str, Array]:
    """Parameters with which a constant input of size ``level`` drives the potential to two to four thresholds."""

    def between(low: float, high: float) -> Array:
        return np.asarray(random.uniform(low, high, shape))

    if primitive == "Scale":
        return {"scale": between(0.5, 1.5)}
    if primitive == "Threshold":
        return {"threshold": level * between(0.3, 1.2)}
    if primitive == "Delay":
        return {"delay": dt * random.integers(0, 4, shape)}
    drawn: dict[str, Array] = {}
    if primitive in ("I", "IF"):
        drawn["r"] = between(0.2, 0.6) / (dt * level)
    elif primitive in ("LI", "LIF"):
        drawn |= {"tau": dt * between(5, 15), "r": between(2, 3.5) / level, "v_leak": between(-0.3, 0.3)}
    else:
        drawn |= {"tau_syn": dt * between(5, 15), "tau_mem": dt * between(5, 15)}
        drawn |= {"r": between(2, 3.5), "v_leak": between(-0.3, 0.3), "w_in": between(1, 1.8) / level}
    if primitive == "I":
        drawn["r"] = drawn["r"] / 4
    if primitive in SPIKING:
        drawn |= {"v_threshold": between(0.5, 1.0), "v_reset": between(-0.3, 0.3)}
    return drawn

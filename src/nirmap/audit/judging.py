"""Holds what a network or a module did against the oracle: spikes exactly, values within rounding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import nir
import numpy as np
import torch

from nirmap.audit.drawing import OUTPUT, Draw
from nirmap.audit.sketches import Array
from nirmap.oracle.interpreter import Trace

# Names of nodes from the top graph down to a node.
Path = tuple[str, ...]
TOLERANCES: Mapping[str, float] = {"float32": 1e-4, "float64": 1e-5}
"""Largest deviation, relative to the largest magnitude; some frameworks keep numbers in float32 whatever the dtype."""
DTYPES: Mapping[str, torch.dtype] = {"float32": torch.float32, "float64": torch.float64}
# Both dtypes, in the words of torch and of frameworks: "expected scalar type Float but found Double".
_SINGLE, _DOUBLE = (
    re.compile(r"\b(float|float32)\b", re.IGNORECASE),
    re.compile(r"\b(double|float64)\b", re.IGNORECASE),
)
# Every draw is executed in float32, which is what users compute in, and so many of a row in float64 as well.
IN_FLOAT64 = 3


def dtypes_of(number: int, draw: Draw) -> tuple[str, ...]:
    """The dtypes that a draw is executed in: float32, and the first draws of a row, and ties, in float64 too."""
    return ("float32", "float64") if number < IN_FLOAT64 or draw.ties else ("float32",)


def computes_in_float32_only(error: Exception, verdict: Verdict, dtype: str) -> bool:
    """Whether a framework refused float64 as such, after float32 had been right: that is no fault of a mapping.

    Torch has no class of its own for that error. What names both dtypes is taken for it, and nothing else.
    """
    text = str(error)
    return (
        dtype == "float64"
        and "float32" in verdict.errors
        and not verdict.wrong
        and isinstance(error, RuntimeError | TypeError)
        and bool(_SINGLE.search(text) and _DOUBLE.search(text))
    )


@dataclass
class Verdict:
    """What comparing found.

    Attributes:
        errors: by dtype the largest relative deviation.
        wrong: what is not what the oracle says; empty where all is right.
    """

    errors: dict[str, float] = field(default_factory=dict[str, float])
    wrong: str = ""

    def hold(self, what: str, found: Array, expected: Array, dtype: str, *, exactly: bool) -> None:
        """Compares two arrays; the first thing that is wrong is kept.

        Args:
            what: what they are, for the message.
            found: what was computed.
            expected: what is right.
            dtype: name of the dtype it was computed in.
            exactly: whether they are spikes.
        """
        if found.shape != expected.shape:
            self._say(f"{what} has shape {found.shape}, expected {expected.shape}", dtype)
            return
        scale = float(np.abs(expected).max(initial=0.0)) or 1.0
        deviation = np.abs(found - expected) / scale
        is_wrong = found != expected if exactly else ~(deviation <= TOLERANCES[dtype])
        if is_wrong.any():
            step, *place = (int(index) for index in np.argwhere(is_wrong)[0])
            at = (step, *place)
            self._say(
                f"{what} at step {step}, {tuple(place)} is {found[at]:g}, expected {expected[at]:g} "
                f"({int(is_wrong.sum())} of {found.size} differ)",
                dtype,
            )
        elif not exactly:
            self.errors[dtype] = max(self.errors.get(dtype, 0.0), float(deviation.max(initial=0.0)))
        else:
            self.errors.setdefault(dtype, 0.0)

    def _say(self, message: str, dtype: str) -> None:
        if not self.wrong:
            self.wrong = f"in {dtype}: {message}"


def fires(graph: nir.NIRGraph, trace: Trace) -> bool:
    """Whether what reaches the Output is spikes."""
    return _fires(graph, trace, ())


def _fires(graph: nir.NIRGraph, trace: Trace, path: Path) -> bool:
    sources = [source for source, target in graph.edges if isinstance(graph.nodes[target], nir.Output)]
    inner = {source: node for source in sources if isinstance(node := graph.nodes[source], nir.NIRGraph)}
    return all(
        _fires(inner[source], trace, (*path, source))
        if source in inner
        else (*path, source) in trace.thresholds
        for source in sources
    )


def output_of(trace: Trace) -> Array:
    """What left the one Output, whatever its name."""
    (output,) = trace.outputs.values()
    return output


def stepped(network: Any, draw: Draw, dtype: str) -> tuple[Array, dict[Path, dict[str, Array]]]:
    """Output (T, B, *shape) and state variables by node, of a network stepped over the input of a draw."""
    outputs: list[Array] = []
    kept: dict[Path, dict[str, list[Array]]] = {}
    state: Any = None
    with torch.no_grad():
        for x in torch.tensor(draw.inputs, dtype=DTYPES[dtype]):
            output, state = network(x, state)
            outputs.append(numbers(output))
            for path, value in _leaves(state, ()):
                kept.setdefault(path[:-1], {}).setdefault(path[-1], []).append(numbers(value))
    states = {
        node: {name: np.stack(values) for name, values in variables.items()}
        for node, variables in kept.items()
    }
    return np.stack(outputs), states


def _leaves(state: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, torch.Tensor]]:
    """The tensors of a state, those of sub-graphs among them."""
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            yield (*path, name), value
        elif isinstance(value, Mapping):
            yield from _leaves(cast("Mapping[str, Any]", value), (*path, name))


def numbers(value: torch.Tensor) -> Array:
    """A tensor as float64."""
    array: Array = value.detach().to("cpu", torch.float64).numpy()
    return array


def hold_network(verdict: Verdict, network: Any, draw: Draw, dtype: str) -> None:
    """Output and state of a rebuilt network against the oracle's, at every step."""
    output, states = stepped(network, draw, dtype)
    exactly = fires(draw.graph, draw.trace)
    verdict.hold("the output", output, draw.trace.outputs[OUTPUT], dtype, exactly=exactly)
    for path, expected in draw.trace.states.items():
        name = " / ".join(path)
        for variable, values in expected.items():
            found = states.get(path, {}).get(variable)
            if found is None:
                verdict.wrong = verdict.wrong or f"the state of {name} has no variable {variable}"
            else:
                verdict.hold(f"{variable} of {name}", found, values, dtype, exactly=False)

"""The step of one node in plain NumPy float64, its state, and what was compared with a threshold.

For ``x`` the sum of its incoming edges and ``dt`` in seconds (forward Euler):

=========  ====================================================================================================
I          ``v += dt r x``; output v
IF         as I, then ``z = v > v_threshold`` (strict) and ``v = v_reset`` where z; output z
LI         ``v += dt / tau (v_leak - v + r x)``; output v
LIF        as LI, then spike and reset as IF; output z
CubaLI     ``i += dt / tau_syn (w_in x - i)``, then v as in LI with tau_mem and the new i for x; output v
CubaLIF    as CubaLI, then spike and reset as IF; output z
Threshold  ``x > threshold``
Delay      the x of ``delay / dt`` steps ago, 0 before the first
=========  ====================================================================================================

A node that has ``equations`` with it is stepped by these (`nirmap.oracle.equations`).
Where the metadata of a node, or of a graph around it, have ``reset: subtract``, a spike lowers v by
``v_threshold - v_reset``.
With ``method="exponential"`` i and v are what the equations give after dt of a constant input
(`nirmap.oracle.exponential`); spike and reset come after that, as above.
All state is 0 before the first step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

import nir
import numpy as np

from nirmap.oracle import spatial
from nirmap.oracle.equations import before, compared, computed
from nirmap.oracle.exponential import propagator
from nirmap.oracle.inputs import float64
from nirmap.oracle.spatial import Array

Path = tuple[str, ...]
Method = Literal["forward_euler", "exponential"]

_WITH_POTENTIAL = (nir.I, nir.IF, nir.LI, nir.LIF, nir.CubaLI, nir.CubaLIF)
_CURRENT_BASED = (nir.CubaLI, nir.CubaLIF)
_WITH_RESET = (nir.IF, nir.LIF, nir.CubaLIF)


@dataclass
class Node:
    """One node that is not a graph: its equations and its state.

    Attributes:
        node: the NIR node; it is only read.
        path: names from the top graph down.
        dt: time step in s.
        method: how its equations are discretised.
        reset: what the graphs around it say of resets; its own metadata come first.
        state: its state variables after the last step, each (B, *shape).
        history: the inputs of a Delay, the newest first.
        compared: what the last step compared with ``threshold``; None where nothing is.
        threshold: what it was compared with.
        propagator: the matrix of an exact step, once there was one.
    """

    node: nir.NIRNode
    path: Path
    dt: float
    method: Method
    reset: str = "value"
    state: dict[str, Array] = field(default_factory=dict[str, Array])
    history: deque[Array] = field(default_factory=deque[Array])
    compared: Array | None = None
    threshold: Array | None = None
    propagator: Array | None = None

    def step(self, x: Array) -> Array:
        """The output (B, *shape) for this step's summed input (B, *shape); moves the state on.

        Raises:
            ValueError: a parameter does not fit the input, a delay is not a multiple of dt, or no exact step is known.
            TypeError: a node is of a type that has no equations here.
        """
        node = self.node
        if isinstance(node, nir.Output):
            return x
        if isinstance(node, _WITH_POTENTIAL):
            return self._neuron(x)
        if isinstance(node, nir.Threshold):
            return self._fire(x, self._elementwise("threshold", x))
        if isinstance(node, nir.Delay):
            return self._delay(x)
        if isinstance(node, nir.Scale):
            return x * self._elementwise("scale", x)
        if isinstance(node, (nir.Linear, nir.Affine)):
            y = (float64(node.weight) @ x[..., np.newaxis])[..., 0]
            return y + float64(node.bias) if isinstance(node, nir.Affine) else y
        if isinstance(node, (nir.Conv1d, nir.Conv2d)):
            weight, bias = float64(node.weight), float64(node.bias)
            return spatial.convolve(
                x, weight, bias, node.stride, node.padding, node.dilation, int(node.groups)
            )
        if isinstance(node, nir.SumPool2d):
            return spatial.sum_pool(x, node.kernel_size, node.stride, node.padding)
        if isinstance(node, nir.AvgPool2d):
            return spatial.average_pool(x, node.kernel_size, node.stride, node.padding)
        if isinstance(node, nir.Flatten):
            return spatial.flatten(x, int(node.start_dim), int(node.end_dim))
        if getattr(node, "equations", None) is not None:
            return self._by_equations(x)
        raise TypeError(f"node {self.path}: no equations for {type(node).__name__}")

    def _by_equations(self, x: Array) -> Array:
        """A step of a node that has its equations with it, each of which sees what was computed before it."""
        given: Any = self.node
        if self.method != "forward_euler":
            raise ValueError(f"node {self.path}: no exact step is known here for its equations")
        names = {name: self._elementwise(name, x) for name in given.defaults} | {"input": x}
        state = {
            name: self.state[name]
            if name in self.state
            else np.broadcast_to(computed(initial, names), x.shape)
            for name, initial in given.equations.state.items()
        }
        names |= state | {before(name): value for name, value in state.items()}
        for name, text in given.equations.dynamics.items():
            names[name] = names[name] + self.dt * computed(text, names)
        if given.equations.spike:
            left, right = compared(given.equations.spike, names)
            # A threshold may move: what is compared is the distance to it.
            distance = np.broadcast_to(left - right, x.shape)
            names["spike"] = self._fire(distance, np.zeros(x.shape[1:]))
            subtracts = self.node.metadata.get("reset", self.reset) == "subtract"
            by = given.equations.reset_by_subtraction
            resets: dict[str, str] = dict(given.equations.reset)
            if subtracts:
                resets.update(by)
            for name, text in resets.items():
                names[name] = np.where(names["spike"] > 0, computed(text, names), names[name])
        self.state = {name: names[name] for name in given.equations.state}
        return np.broadcast_to(computed(given.equations.output, names), x.shape).copy()

    def _elementwise(self, name: str, x: Array) -> Array:
        """A parameter that belongs to the elements of ``x`` (B, *shape): 0-d, or broadcast to *shape exactly."""
        value = float64(getattr(self.node, name))
        try:
            return np.broadcast_to(value, x.shape[1:])
        except ValueError:
            raise ValueError(
                f"node {self.path}: {name} {value.shape} does not fit input {x.shape[1:]}"
            ) from None

    def _neuron(self, x: Array) -> Array:
        v = self._exact(x) if self.method == "exponential" else self._forward_euler(x)
        if not isinstance(self.node, _WITH_RESET):
            self.state["v"] = v
            return v
        spikes = self._fire(v, self._elementwise("v_threshold", x))
        after = self._elementwise("v_reset", x)
        if self.node.metadata.get("reset", self.reset) == "subtract":
            after = v - (self._elementwise("v_threshold", x) - after)
        self.state["v"] = np.where(spikes > 0, after, v)
        return spikes

    def _forward_euler(self, x: Array) -> Array:
        before = self.state.get("v", np.zeros_like(x))
        r = self._elementwise("r", x)
        if isinstance(self.node, (nir.I, nir.IF)):
            return before + self.dt * r * x
        drive = x
        if isinstance(self.node, _CURRENT_BASED):
            current = self.state.get("i", np.zeros_like(x))
            drive = self._approach(current, self._elementwise("w_in", x) * x, "tau_syn")
            self.state["i"] = drive
        tau = "tau_mem" if isinstance(self.node, _CURRENT_BASED) else "tau"
        return self._approach(before, self._elementwise("v_leak", x) + r * drive, tau)

    def _approach(self, value: Array, target: Array, time_constant: str) -> Array:
        """One step of ``tau dy/dt = target - y`` from ``y = value``."""
        return value + self.dt / self._elementwise(time_constant, value) * (target - value)

    def _exact(self, x: Array) -> Array:
        if self.propagator is None:
            self.propagator = propagator(self.node, lambda name: self._elementwise(name, x), self.dt)
        zero = np.zeros_like(x)
        variables = (self.state.get("i", zero), self.state.get("v", zero), x, np.ones_like(x))
        after = (self.propagator @ np.stack(variables, axis=-1)[..., np.newaxis])[..., 0]
        if isinstance(self.node, _CURRENT_BASED):
            self.state["i"] = after[..., 0]
        return after[..., 1]

    def _fire(self, compared: Array, threshold: Array) -> Array:
        self.compared, self.threshold = compared, threshold
        return (compared > threshold).astype(np.float64)

    def _delay(self, x: Array) -> Array:
        late = self._elementwise("delay", x) / self.dt
        steps = np.rint(late).astype(np.int64)
        # A delay that was stored in float32 misses its multiple of dt by a relative 6e-8.
        if np.any(steps < 0) or np.any(np.abs(late - steps) > 1e-6 * np.maximum(steps, 1)):
            raise ValueError(
                f"node {self.path}: delay must be a multiple of dt = {self.dt}, it is {late} steps"
            )
        self.history.appendleft(x)
        while len(self.history) > int(steps.max(initial=0)) + 1:
            self.history.pop()
        y = np.zeros_like(x)
        for age, earlier in enumerate(self.history):
            y = np.where(steps == age, earlier, y)
        return y

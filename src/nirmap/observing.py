"""Runs a rebuilt network and keeps what every node in it does: its output and its state after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from nirmap.errors import GraphError
from nirmap.graph_cells import GraphCell
from nirmap.network import OUTPUT, Network
from nirmap.report import Report

Array = npt.NDArray[np.float64]
# Names of nodes from the top graph down to a node.
Path = tuple[str, ...]


@dataclass(frozen=True)
class Traces:
    r"""What nodes did over T steps with batch size B, in float64.

    Attributes:
        values: by node, each node's output, of shape (T, B, \*shape); of the nodes in sub-graphs too.
        states: by node and state variable, the state after each step, of shape (T, B, \*shape), in the node's units.
    """

    values: dict[Path, Array]
    states: dict[Path, dict[str, Array]]


def observe(
    network: Network, inputs: Mapping[str, Array], progress: Callable[[int], None] | None = None
) -> Traces:
    r"""Runs a network from its initial state, without gradients.

    Args:
        network: a network from :func:`nirmap.from_nir`.
        inputs: by Input node, an array of shape (T, B, \*shape). It is converted to the network's dtype.
        progress: called after each step with the number of steps done.

    Raises:
        GraphError: a module returns something else than a tensor.
    """
    report: Report = network.meta["nirmap"]
    held = next((tensor for tensor in _tensors(network) if tensor.is_floating_point()), torch.empty(0))
    streams = [torch.tensor(inputs[name], dtype=held.dtype, device=held.device) for name in report.inputs]
    kept = _Kept()
    watch = _Watch(network, (), kept)
    state: Any = None
    with torch.no_grad():
        for step, values in enumerate(zip(*streams, strict=True)):
            _, state = watch.run(*values, state)
            if progress is not None:
                progress(step + 1)
    return kept.traces()


def _tensors(network: Network) -> list[torch.Tensor]:
    return [*network.parameters(), *network.buffers()]


@dataclass
class _Kept:
    """What was seen so far, step by step."""

    values: dict[Path, list[Array]] = field(default_factory=dict[Path, list[Array]])
    states: dict[Path, dict[str, list[Array]]] = field(default_factory=dict[Path, dict[str, list[Array]]])

    def value(self, path: Path, value: object) -> None:
        """Keeps an output."""
        if not isinstance(value, torch.Tensor):
            raise GraphError(place(path), f"its module returned a {type(value).__name__}", "a tensor")
        self.values.setdefault(path, []).append(_array(value))

    def state(self, path: Path, state: object) -> None:
        """Keeps the tensors of a state that is a dictionary; what a module of the caller's keeps may be anything."""
        if isinstance(state, Mapping):
            for variable, content in cast("Mapping[object, object]", state).items():
                if isinstance(content, torch.Tensor):
                    of_node = self.states.setdefault(path, {})
                    of_node.setdefault(str(variable), []).append(_array(content))

    def traces(self) -> Traces:
        """All steps in one array each."""
        return Traces(
            {path: np.stack(steps) for path, steps in self.values.items()},
            {
                path: {variable: np.stack(steps) for variable, steps in variables.items()}
                for path, variables in self.states.items()
            },
        )


def _array(value: torch.Tensor) -> Array:
    # A copy: a module may go on to write to its tensor.
    copied: Array = value.detach().to("cpu", torch.float64, copy=True).numpy()
    return copied


def place(path: Path) -> str:
    """How an error names a node: ``node 'encoder' / node 'lif'``."""
    return " / ".join(f"node {name!r}" for name in path)


class _Watch(torch.fx.Interpreter):
    """Runs a network call by call, that of a sub-graph too, and keeps what every node returns.

    An interpreter, not forward hooks: a module that stands for two nodes has two calls, and one hook.
    """

    def __init__(self, network: Network, path: Path, kept: _Kept) -> None:
        super().__init__(network)
        self.extra_traceback = False  # an error is the module's own, without the source of the graph
        report: Report = network.meta["nirmap"]
        self.path, self.kept = path, kept
        self.outputs = report.outputs
        self.nodes = {identifier: name for name, identifier in report.identifiers.items()}
        self.inner = {
            name: _Watch(
                cast("Network", network.get_submodule(report.identifiers[name])), (*path, name), kept
            )
            for name in report.graphs
        }

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An argument: the value of an Input node, or the state."""
        value = super().placeholder(target, args, kwargs)
        if target in self.nodes:
            self.kept.value((*self.path, self.nodes[target]), value)
        return value

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A node's module, or one of those that handle the state."""
        name = self.nodes.get(target)
        if name is None:
            result: Any = super().call_module(target, args, kwargs)
            if isinstance(self.fetch_attr(target), GraphCell):
                self._inside(cast("Mapping[str, Any]", result[1]))
            return result
        path = (*self.path, name)
        if name in self.inner:
            nested: Any = self.inner[name].run(*args)
            self.kept.value(path, nested[0])
            return nested
        returned: object = super().call_module(target, args, kwargs)
        pair = cast("tuple[Any, Any]", returned if isinstance(returned, tuple) else (returned, None))
        self.kept.value(path, pair[0])
        self.kept.state(path, pair[1])
        return cast("Any", returned)

    def _inside(self, state: Mapping[str, Any]) -> None:
        """What is known of the nodes of a sub-graph that is one module: their state, and outputs that are fed back."""
        for name, kept in state.items():
            path = (*self.path, name)
            own = {variable: value for variable, value in kept.items() if variable != OUTPUT}
            self.kept.state(path, own)
            if OUTPUT in kept:
                self.kept.value(path, kept[OUTPUT])

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result: the value of each Output node, and the state."""
        result: Any = super().output(target, args, kwargs)
        values = {self.outputs[0]: result[0]} if len(self.outputs) == 1 else result[0]
        for name in self.outputs:
            self.kept.value((*self.path, name), values[name])
        return result

"""Runs a graph in a framework with an eye on every layer, for comparison with the oracle."""

from __future__ import annotations

from typing import Any, Literal

import nir
import numpy as np
import numpy.typing as npt
import torch

import nirmap
from nirmap.oracle.interpreter import Trace

Array = npt.NDArray[Any]
Streams = dict[str, Array]

UNKNOWN: Any = None
SPIKING = (nir.IF, nir.LIF, nir.CubaLIF)
# Potentials of float64 that are further than this from their threshold, relative to the potential's size, give the same
# spikes however the sums are ordered.
MARGIN = 1e-10


def spiking_nodes(graph: nir.NIRGraph) -> list[str]:
    """The names of the nodes that fire, sorted."""
    return sorted(name for name, node in graph.nodes.items() if isinstance(node, SPIKING))


def watched(graph: nir.NIRGraph) -> tuple[nir.NIRGraph, dict[str, str]]:
    """The graph with a further Output at every node that fires, and the names of these Outputs by node."""
    outputs = {name: f"watched {name}" for name in spiking_nodes(graph)}
    nodes = {**graph.nodes, **{output: nir.Output(UNKNOWN) for output in outputs.values()}}
    return nir.NIRGraph(nodes, [*graph.edges, *outputs.items()], type_check=False), outputs


# Rockpool's spiking neurons subtract their threshold: they cannot be reset to a value.
CANNOT_SPIKE = frozenset({"rockpool"})


def fallback_of(framework: str) -> Literal["torch"] | None:
    """What a framework takes for neurons that it does not have."""
    return "torch" if framework in CANNOT_SPIKE else None


def layer_spikes(graph: nir.NIRGraph, inputs: Streams, framework: str, dt: float) -> Streams:
    """The spikes of every node that fires in the rebuilt network, (T, B, *shape), in float64."""
    extended, outputs = watched(graph)
    net = nirmap.from_nir(extended, framework, dt=dt, dtype=torch.float64, fallback=fallback_of(framework))
    values, _ = run(net, inputs)
    return {name: values[output] for name, output in outputs.items()}


def run(net: nirmap.Network, inputs: Streams) -> tuple[Streams, Any]:
    """The outputs of a network by name, (T, B, *shape), and its last state."""
    report: nirmap.Report = net.meta["nirmap"]
    dtype = next(net.buffers()).dtype
    xs = tuple(torch.tensor(inputs[name], dtype=dtype) for name in report.inputs)
    with torch.no_grad():
        values, state = nirmap.run(net, xs)
    if isinstance(values, torch.Tensor):
        values = {report.outputs[0]: values}
    return {name: value.numpy() for name, value in values.items()}, state


def assert_fires(trace: Trace, least: int) -> None:
    """Every layer fires often, and is silent often: a layer that always does the same proves nothing."""
    for path, count in trace.spike_counts().items():
        assert least <= count <= trace.values[path].size - least, f"{path}: {count} spikes"


def assert_same_spikes(spikes: Streams, trace: Trace) -> None:
    """Every layer fires where the oracle's does."""
    for name, found in spikes.items():
        expected = trace.values[(name,)]
        different = np.argwhere(found != expected)
        assert len(different) == 0, f"{name}: {len(different)} differences, the first at {different[0]}"

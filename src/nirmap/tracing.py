"""From torch to NIR: a module becomes a graph.

One step of the module is recorded with ``torch.fx``; the modules of the framework's table are leaves. The recording is
then read once, in order. What NIR cannot say is refused, never dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import nir
import torch

from nirmap.assembling import GraphUnderConstruction
from nirmap.entries import Shape
from nirmap.errors import GraphError, TraceError
from nirmap.first_step import FirstStepReader, check_first_step
from nirmap.garbage import collecting_later
from nirmap.leaves import Leaves, ModuleMap
from nirmap.modelling import RecordingReader
from nirmap.network import Network
from nirmap.reading import NetworkReader
from nirmap.rebuilding import DT_KEY
from nirmap.recording import record
from nirmap.registry import load_registry
from nirmap.report import Report
from nirmap.resets import Reset, check_reset


def to_nir(
    module: torch.nn.Module,
    framework: str | None = None,
    *,
    dt: float | None = None,
    sample: torch.Tensor | tuple[torch.Tensor, ...] | None = None,
    module_map: ModuleMap | None = None,
    path: str | Path | None = None,
    reset: Reset = "value",
) -> nir.NIRGraph:
    """Writes a torch module as a NIR graph. The module is not changed, and its layers are not run.

    ``forward`` is one time step. Its arguments are inputs, but for those that default to None or are used as only state
    can be; what it returns are outputs, but for state, which comes last or under the name of its argument. State may
    have any structure, and may be kept in attributes. An output that comes back as state is a recurrent edge. A neuron
    keeps its state in the graph whether or not the model hands it on from step to step. A module of the table that is
    given alone is written as its node, although it may return something else first, such as the spikes of an integrator
    whose node gives its membrane potential.

    Args:
        module: the network: a module whose ``forward`` is one time step, or a network from :func:`nirmap.from_nir`.
        framework: the framework of its neurons; None for that of a rebuilt network, else ``torch``.
        dt: time step in s; None for that of a rebuilt network, else the framework's declared default.
        sample: what ``forward`` takes (a tuple of several inputs), with its axis of a batch, of which only the shape is
            used. Where forward loops over time steps, or its modules take sequences of them, it has the axis of time
            too.
        module_map: functions that make the node for a module class; they take precedence over the table.
        path: where to write the graph as a ``.nir`` file as well.
        reset: ``subtract`` if neurons that subtract their threshold are to be written: NIR has no word for them, so
            that the node's metadata say it (:mod:`nirmap.resets`). Those of a rebuilt network are written in any case.

    Returns:
        The graph, with every node's type, and dt in its metadata.

    Raises:
        TraceError: the module does something that NIR cannot say, or that is not known.
        ConstraintError: a module is set to something that NIR cannot express.
        GraphError: shapes contradict one another or are not known.

    Warns:
        ReadBackWarning: nir can read the graph from a file only without its type check, which is wrong about it.
    """
    graph = write(module, leaves_of(module, framework, dt, module_map or {}, reset), sample)
    if path is not None:
        from nirmap.files import write_graph

        write_graph(path, graph)
    return graph


def leaves_of(
    module: torch.nn.Module,
    framework: str | None,
    dt: float | None,
    module_map: ModuleMap,
    reset: Reset = "value",
    stateful: Collection[type[torch.nn.Module]] = (),
) -> Leaves:
    """The leaf modules of a conversion.

    Args:
        module: the network.
        framework: the framework of its neurons; None for that of a rebuilt network, else ``torch``.
        dt: time step in s; None for that of a rebuilt network, else the framework's declared default.
        module_map: functions that make the node for a module class.
        reset: ``subtract`` if neurons that subtract their threshold are to be written.
        stateful: classes in ``module_map`` whose modules return their output and their state.

    Raises:
        TraceError: dt is not above 0.
        MappingError: the framework is not installed or differs from its mappings.
    """
    report = _report_of(module)
    registry = load_registry(framework or (report.framework if report else "torch"))
    step = dt if dt is not None else report.dt if report else registry.time_step
    if step is None or not step > 0:
        raise TraceError("dt", f"{dt!r}", "a time step above 0 in seconds")
    return Leaves(registry, dict(module_map), step, check_reset(reset, "reset"), frozenset(stateful))


def write(
    module: torch.nn.Module,
    leaves: Leaves,
    sample: torch.Tensor | tuple[torch.Tensor, ...] | None,
    *,
    typed: bool = True,
    concrete: Mapping[str, Any] = MappingProxyType({}),
) -> nir.NIRGraph:
    """Writes a torch module as a NIR graph, as :func:`to_nir` does.

    Args:
        module: the network.
        leaves: its leaf modules.
        sample: what forward takes (a tuple of several inputs), of which only the shape is used.
        typed: False to leave out the types that are not known, and nir's check of them.
        concrete: values of arguments of ``forward``, which are then no inputs; None for one that is state.
    """
    with collecting_later():
        samples = _shapes(sample)
        if isinstance(module, Network):
            reader: NetworkReader | RecordingReader = NetworkReader(module, leaves)
        else:
            recording = record(module, leaves, concrete, samples)
            reader = RecordingReader(recording, leaves)
            samples = recording.of_one_step(samples)
        shapes = [shape[1:] for shape in samples]
        report = _report_of(module)
        if report is not None and not shapes and len(report.shapes) == len(report.inputs):
            shapes = [report.shapes[name] for name in report.inputs]
        written = reader.read()
        axis = reader.time_axis if isinstance(reader, RecordingReader) else None
        graph = _finished(written, shapes, axis, typed)
        if isinstance(reader, RecordingReader) and reader.recording.first is not None:
            first = FirstStepReader(reader.recording.first, leaves, reader.outputs)
            check_first_step(first.read(), written)
    graph.metadata[DT_KEY] = float(leaves.dt)
    return graph


def _finished(
    written: GraphUnderConstruction, shapes: list[Shape], time_axis: int | None, typed: bool
) -> nir.NIRGraph:
    """The graph, with its types, from samples of sequences, or, where these cannot be meant, of single steps."""
    if time_axis is None or any(len(shape) < len(("time", "neurons")) for shape in shapes):
        return written.finish(shapes, typed=typed)
    # The batch is taken away already: with time in front of it, what is left of it is the batch.
    steps = [shape[1:] for shape in shapes]
    try:
        return written.finish(steps, typed=typed)
    except GraphError as error:
        if not shapes:
            raise
        try:
            return written.finish(shapes, typed=typed)
        except GraphError:
            raise error from None


def _report_of(module: torch.nn.Module) -> Report | None:
    """The report of a network that :func:`nirmap.from_nir` rebuilt; None for any other module."""
    return cast("Report", module.meta["nirmap"]) if isinstance(module, Network) else None


def _shapes(sample: torch.Tensor | tuple[torch.Tensor, ...] | None) -> list[tuple[int, ...]]:
    """The shapes of the samples, all axes included."""
    samples = (sample,) if isinstance(sample, torch.Tensor) else sample or ()
    for entry in samples:
        if entry.dim() == 0:
            raise TraceError("sample", "a tensor without axes", "one leading batch axis", "pass sample[None]")
    return [tuple(entry.shape) for entry in samples]

"""Runs a graph in several frameworks over the same input, and finds where each first leaves the reference.

The reference is :mod:`nirmap.oracle`, the graph's equations in NumPy and float64, which shares no code with the
mappings. Every node is compared, those in sub-graphs too: its output, and its state in the node's own units.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, Literal, cast

import nir
import numpy as np
import torch

from nirmap.comparison import OUTPUT, Comparison, Difference, NodeResult, Reference, Result
from nirmap.discretisation import Method, check_method
from nirmap.errors import DelayWarning, NirmapError
from nirmap.files import read_graph
from nirmap.given import NodeMap
from nirmap.network import Network
from nirmap.observing import Array, Path, Traces, observe, place
from nirmap.rebuilding import from_nir, time_step
from nirmap.registry import frameworks as known_frameworks
from nirmap.registry import load_registry
from nirmap.resets import Reset, check_reset, stating
from nirmap.shapes import Shapes, infer_shapes
from nirmap.structure import check_structure
from nirmap.structure import inputs as input_names

REFERENCE = "reference"
TOLERANCE = 1e-4
# Called with what runs, the number of steps done, and their total.
Progress = Callable[[str, int, int], None]


def compare(
    graph: nir.NIRGraph | str | FilePath,
    inputs: Any,
    frameworks: Iterable[str] | Mapping[str, str | Network] | None = None,
    *,
    dt: float | None = None,
    dtype: torch.dtype = torch.float32,
    node_map: NodeMap | None = None,
    fallback: Literal["torch"] | None = None,
    reset: Reset | None = None,
    override_dt: bool = False,
    method: Method = "forward_euler",
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> Comparison:
    r"""Runs a graph in several frameworks and in the reference, and says where they first differ.

    The reference computes the graph's equations in float64, by ``method``. Spikes are compared exactly; any other
    value may be off by ``tolerance`` times the largest magnitude of its variable in the reference. A framework that
    cannot run the graph becomes a result with its error, and the others go on.

    Args:
        graph: a NIR graph, or the path of a ``.nir`` file.
        inputs: an array of shape (T,), (T, \*shape) or (T, B, \*shape) for every Input node, or a dictionary of them
            by name. An array of shape (T,) is fed to every element. T is at least 1; B is the batch size. Where the
            graph does not state the shape of an Input, only (T, B, \*shape) can be told from the others.
        frameworks: names of frameworks, or a dictionary from a name of your own to a framework's name or to a network
            from :func:`nirmap.from_nir`. None for every known framework.
        dt: time step in s; None for the one in the graph's metadata, else the default of the framework ``torch``.
        dtype: floating dtype of the networks; the input is rounded to it, for the reference too.
        node_map: as in :func:`nirmap.from_nir`, for all frameworks.
        fallback: as in :func:`nirmap.from_nir`, for all frameworks.
        reset: as in :func:`nirmap.from_nir`, for all frameworks and the reference.
        override_dt: as in :func:`nirmap.from_nir`.
        method: as in :func:`nirmap.from_nir`, for all frameworks and the reference.
        tolerance: see above.
        progress: called after each step with what runs (``reference``, then each framework), the steps done and their
            total.

    Raises:
        GraphError: the graph or file is malformed.
        NirmapError: the inputs do not fit the graph, dt is not positive or not the graph's own, a name is that of no
            framework, or the reference cannot run the graph.

    Warns:
        DelayWarning: as in :func:`nirmap.from_nir`, once for all frameworks.
    """
    graph = read_graph(graph) if not isinstance(graph, nir.NIRGraph) else graph
    check_structure(graph)
    graph = stating(graph, None if reset is None else check_reset(reset, "reset"))
    streams = {
        # As the networks see it, so that no difference comes from the input.
        name: torch.tensor(stream, dtype=dtype).to(torch.float64).numpy()
        for name, stream in _streams(graph, inputs, infer_shapes(graph)).items()
    }
    step = time_step(graph, load_registry("torch"), dt, override=override_dt)
    wanted = _wanted(frameworks)
    steps = len(next(iter(streams.values())))
    report: Progress = progress or (lambda name, done, total: None)
    report(REFERENCE, 0, steps)
    reference = simulate_reference(graph, streams, step, check_method(method, "method"))
    options: dict[str, Any] = {"dt": step, "override_dt": True, "dtype": dtype, "node_map": node_map}
    options["method"] = method
    options |= {} if fallback is None else {"fallback": fallback}
    results: list[Result] = []
    for name, source in wanted.items():
        report(name, 0, steps)

        def after(done: int, name: str = name) -> None:
            report(name, done, steps)

        with warnings.catch_warnings():
            if results:  # every framework would say the same of the graph
                warnings.simplefilter("ignore", DelayWarning)
            results.append(_run(name, source, graph, streams, reference, options, tolerance, after))
    return Comparison(graph, step, streams, tolerance, reference, tuple(results))


def _wanted(frameworks: Iterable[str] | Mapping[str, str | Network] | None) -> dict[str, str | Network]:
    """What to run, by the name it is called."""
    known = known_frameworks()
    if frameworks is None:
        return {name: name for name in sorted(known)}
    if isinstance(frameworks, str):
        raise NirmapError("frameworks", repr(frameworks), "a list of names", f"write [{frameworks!r}]")
    wanted: dict[str, str | Network] = {}
    if isinstance(frameworks, Mapping):
        wanted.update(cast("Mapping[str, str | Network]", frameworks))
    else:
        wanted.update((name, name) for name in frameworks)
    for source in wanted.values():
        if isinstance(source, str) and source not in known:
            raise NirmapError("frameworks", repr(source), "one of " + ", ".join(sorted(known)))
    if REFERENCE in wanted:
        raise NirmapError("frameworks", repr(REFERENCE), "another name: the reference has this one")
    if not wanted:
        raise NirmapError("frameworks", "no name", "one of " + ", ".join(sorted(known)))
    return wanted


def _streams(graph: nir.NIRGraph, inputs: Any, shapes: Shapes) -> dict[str, Array]:
    """The inputs by name, each of shape (T, B, *shape)."""
    names = input_names(graph)
    given: dict[str, Any] = dict.fromkeys(names, inputs)
    if isinstance(inputs, Mapping):
        given = dict(cast("Mapping[str, Any]", inputs))
    if set(given) != set(names):
        found, expected = (", ".join(map(repr, sorted(entry))) or "(none)" for entry in (given, names))
        raise NirmapError("inputs", f"names {found}", f"those of the graph's Input nodes: {expected}")
    streams = {name: _stream(given[name], shapes.outputs.get(name), name) for name in names}
    sizes = {stream.shape[:2] for stream in streams.values()}
    if len(sizes) != 1:
        raise NirmapError(
            "inputs", f"(steps, batch size) of {sorted(sizes)}", "the same for every Input node"
        )
    return streams


def _stream(values: Any, shape: tuple[int, ...] | None, name: str) -> Array:
    where = f"input {name!r}"
    if isinstance(values, torch.Tensor):
        values = values.detach().to("cpu", torch.float64).numpy()
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise NirmapError(where, f"a {type(values).__name__} ({error})", "an array of numbers") from error
    given = array.shape
    if shape is not None and array.ndim == 1:
        array = np.broadcast_to(array.reshape(-1, *[1] * (1 + len(shape))), (len(array), 1, *shape))
    elif shape is not None and array.ndim == 1 + len(shape):
        array = array[:, np.newaxis]
    if array.ndim < 2 or 0 in array.shape or (shape is not None and array.shape[2:] != shape):
        one = "*shape" if shape is None else ", ".join(map(str, shape))
        kinds = [f"(T, {one})", f"(T, B, {one})"] if shape is not None else [f"(T, B, {one})"]
        raise NirmapError(
            where,
            f"an array of shape {given}",
            f"{' or '.join(kinds)} with at least one step".replace(", )", ")"),
        )
    if not np.isfinite(array).all():
        raise NirmapError(where, "a number that is not finite", "finite numbers", "correct the input")
    return np.array(array)


def simulate_reference(
    graph: nir.NIRGraph, streams: Mapping[str, Array], dt: float, method: Method = "forward_euler"
) -> Reference:
    r"""The graph's equations in float64.

    Args:
        graph: the graph.
        streams: by Input node, an array (T, B, \*shape).
        dt: time step in s.
        method: how the equations become steps.

    Raises:
        NirmapError: the reference cannot run the graph.
    """
    from nirmap.oracle.interpreter import simulate

    try:
        trace = simulate(graph, streams, dt, method=method)
    except (TypeError, ValueError) as error:
        do = "" if method == "forward_euler" else "compare with method='forward_euler'"
        expected = "a graph that the equations of NIR can be stepped for"
        raise NirmapError(REFERENCE, str(error), expected, do) from error
    order = tuple(_in_order(list(trace.values)))
    traces = Traces(trace.values, trace.states)
    return Reference(traces, order, trace.before_reset, trace.thresholds, trace.delayed)


def _in_order(paths: list[Path]) -> list[Path]:
    """The paths with every sub-graph behind the nodes in it, where its output comes from."""
    ordered: list[Path] = []
    open_graphs: list[Path] = []
    parents = {path[:-1] for path in paths}
    for path in paths:
        while open_graphs and path[: len(open_graphs[-1])] != open_graphs[-1]:
            ordered.append(open_graphs.pop())
        if path in parents:
            open_graphs.append(path)
        else:
            ordered.append(path)
    return [*ordered, *reversed(open_graphs)]


def _run(
    name: str,
    source: str | Network,
    graph: nir.NIRGraph,
    streams: Mapping[str, Array],
    reference: Reference,
    options: dict[str, Any],
    tolerance: float,
    progress: Callable[[int], None],
) -> Result:
    """One framework, or why it cannot."""
    dt: float = options["dt"]
    try:
        network = from_nir(graph, source, **options) if isinstance(source, str) else source
        _check_network(network, name, dt)
        traces = observe(network, streams, progress)
        result = hold_against(name, traces, reference, dt, tolerance)
        return replace(result, report=network.meta["nirmap"])
    except NirmapError as error:
        return Result(name, error=error)
    except Exception as error:  # noqa: BLE001  what a framework's code raises is shown, and the others still run
        found = f"{type(error).__name__}: {error}"
        return Result(
            name,
            error=NirmapError(
                f"framework {name!r}", found, "modules that run", "run it alone to see where: nirmap.from_nir"
            ),
        )


def _check_network(network: Network, name: str, dt: float) -> None:
    report = network.meta["nirmap"]
    if not np.isclose(report.dt, dt, rtol=1e-6, atol=0):
        raise NirmapError(
            f"network {name!r}",
            f"its dt is {report.dt:g} s, that of the comparison {dt:g} s",
            "the same dt",
            f"build it with from_nir(..., dt={dt:g})",
        )


def hold_against(name: str, traces: Traces, reference: Reference, dt: float, tolerance: float) -> Result:
    """Compares traces, which may be those of some nodes only, with the reference.

    Args:
        name: what the result is called.
        traces: what the nodes did.
        reference: what they should have done.
        dt: time step in s.
        tolerance: as in :func:`compare`.

    Raises:
        NirmapError: a trace has another shape than in the reference.
    """
    largest: dict[Path, dict[str, float]] = {}
    unseen: dict[Path, list[str]] = {}
    first: Difference | None = None
    for path, variable, expected in reference.variables():
        if path not in traces.values and path not in traces.states:
            continue
        found = traces.values.get(path) if variable == OUTPUT else traces.states.get(path, {}).get(variable)
        if found is None:
            unseen.setdefault(path, []).append(variable)
            continue
        if found.shape != expected.shape:
            raise NirmapError(f"{place(path)}, {variable}", f"shape {found.shape}", f"{expected.shape}")
        exact = variable == OUTPUT and path in reference.thresholds
        allowed = 0.0 if exact else tolerance * reference.scale(path, expected)
        with np.errstate(invalid="ignore"):  # infinite where the reference is: no difference
            apart = np.where(found == expected, 0.0, np.abs(found - expected))
        largest.setdefault(path, {})[variable] = float(apart.max(initial=0))
        wrong = ~(apart <= allowed)
        # Of two in one step the earlier node is the first, since it may be the cause of the other.
        if wrong.any():
            step = int(wrong.reshape(len(wrong), -1).any(axis=1).argmax())
            if first is None or step < first.step:
                index = tuple(map(int, np.argwhere(wrong[step])[0]))
                first = _difference(path, variable, (step, *index), found, reference, expected, dt)
    nodes = {
        path: NodeResult(
            largest.get(path, {}),
            _spikes(traces.values[path]) if path in reference.thresholds and path in traces.values else None,
            tuple(unseen.get(path, ())),
        )
        for path in reference.order
        if path in largest or path in unseen
    }
    return Result(name, nodes, first, traces=traces)


def _spikes(values: Array) -> int:
    return int(values[np.isfinite(values)].sum())


def _difference(
    path: Path,
    variable: str,
    index: tuple[int, ...],
    found: Array,
    reference: Reference,
    expected: Array,
    dt: float,
) -> Difference:
    step, row, *neuron = index
    potential = threshold = None
    if path in reference.thresholds:
        potential = float(reference.potentials[path][index])
        threshold = float(reference.thresholds[path][tuple(neuron)])
    return Difference(
        path,
        variable,
        step,
        step * dt,
        row,
        tuple(neuron),
        float(found[index]),
        float(expected[index]),
        potential,
        threshold,
    )

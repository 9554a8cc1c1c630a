"""From NIR to torch: a graph becomes a ``torch.fx.GraphModule``.

One pass over the nodes in topological order, with the edges that carry the value of the previous step taken out. Cost
grows linearly with the graph.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import nir
import torch

from nirmap.building import Builder, Built, check_trainable, is_stateful
from nirmap.delays import Delays, delayed_edges
from nirmap.discretisation import Method, check_method
from nirmap.errors import ConstraintError, DelayWarning
from nirmap.files import read_graph
from nirmap.garbage import collecting_later
from nirmap.given import NodeMap, build_given
from nirmap.graph_cells import WHOLE, BuiltGraph, build_graph
from nirmap.names import RESERVED, safe_identifiers
from nirmap.network import NameOutputs, Network, PackState, StateEntry, UnpackState
from nirmap.registry import load_registry
from nirmap.report import NodeReport, Report
from nirmap.resets import Reset, check_reset, reset_of, wanted_reset
from nirmap.shapes import Shapes, infer_shapes
from nirmap.structure import check_structure, inputs, outputs, predecessors
from nirmap.surrogate import SURROGATES
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Placement, Registry

# Key of the time step, in s, in a graph's metadata.
DT_KEY = "dt"
UNPACK, PACK, NAME_OUTPUTS, STATE = "unpack_state", "pack_state", "name_outputs", "state"


def from_nir(
    graph: nir.NIRGraph | str | Path,
    framework: str = "torch",
    *,
    dt: float | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    trainable: Collection[str] = (),
    surrogate: str = "fast_sigmoid",
    node_map: NodeMap | None = None,
    fallback: Literal["torch"] | None = None,
    reset: Reset | None = None,
    override_dt: bool = False,
    method: Method = "forward_euler",
) -> Network:
    r"""Rebuilds a NIR graph with the modules of a framework.

    The result is a pure function: ``net(input, ..., state=None)`` returns the output and the new state. Inputs are
    arguments in the order of their names, of shape (\*batch, \*shape). Several outputs come back as a dictionary.

    Args:
        graph: a NIR graph, or the path of a ``.nir`` file. It is not changed, and no memory is shared with it.
        framework: name of the framework whose modules are used.
        dt: time step in s; None for the one in the graph's metadata, else the framework's declared default.
        dtype: floating dtype of all parameters and buffers.
        device: their device.
        trainable: names of neuron parameters (``tau``, ``v_threshold``, ...) that become trainable parameters instead
            of buffers, in every node that has them.
        surrogate: surrogate gradient of the reference modules, a key of ``nirmap.surrogate.SURROGATES``.
        node_map: functions that build the module for a node type; they take precedence over the framework's table. A
            module whose ``forward`` has an argument ``state`` is stateful and returns (output, state); it is moved to
            ``dtype`` and ``device`` as all others are. A function that returns None for a sub-graph leaves it to be
            rebuilt node by node.
        fallback: ``torch`` for the built-in reference module of every node that the framework cannot express; None for
            an error. ``net.meta["nirmap"]`` says which nodes these were, and why.
        reset: ``subtract`` for neurons whose potential a spike lowers by ``v_threshold - v_reset``, ``value`` for those
            that it sets to ``v_reset``; None for what the metadata of the node, or of the graph around it, say, else
            ``value`` (:mod:`nirmap.resets`).
        override_dt: take ``dt`` although the graph's metadata state another one, for which it was trained.
        method: how the equations of neurons become steps: ``forward_euler``, or ``exponential``, which is exact for an
            input that is held during dt. Spikes and resets come after it, at the end of the step. The framework
            ``torch`` has both.

    Raises:
        GraphError: the graph or file is malformed.
        UnsupportedNodeError: the framework has no module for a node.
        ConstraintError: no module of the framework can express a node's parameters, or integrates by ``method``.
        MappingError: the framework is not installed or differs from its mappings.

    Warns:
        DelayWarning: a cycle has no stateful node, so the edge that leads back is delayed.
    """
    if not isinstance(graph, nir.NIRGraph):
        graph = read_graph(graph)
    check_structure(graph)
    registry = load_registry(framework)
    if fallback not in (None, "torch"):
        raise ConstraintError("fallback", repr(fallback), "'torch' or None")
    step = time_step(graph, registry, dt, override=override_dt)
    if surrogate not in SURROGATES:
        raise ConstraintError("surrogate", repr(surrogate), "one of " + ", ".join(sorted(SURROGATES)))
    to = Placement(dtype, torch.device(device), surrogate, check_method(method, "method"))
    check_trainable(trainable)
    builder = Builder(registry, step, to, frozenset(trainable), load_registry(fallback) if fallback else None)
    asked = None if reset is None else check_reset(reset, "reset")
    context = _Context(builder, dict(node_map or {}), asked)
    with collecting_later():
        network = _rebuild(graph, infer_shapes(graph), context, "", None)
    for edge in context.stateless_cycles:
        warnings.warn(
            f"{edge}: no node of this cycle is stateful, so the edge that leads back carries the value of the step "
            "before",
            DelayWarning,
            stacklevel=2,
        )
    return network


def time_step(graph: nir.NIRGraph, registry: Registry, dt: float | None, *, override: bool = False) -> float:
    """The time step in s: the caller's, else that of the graph's metadata, else the framework's default.

    Raises:
        ConstraintError: it is not a finite number above 0; or the caller's differs from the graph's, and he does not
            insist on it with ``override``.
    """
    stated = graph.metadata.get(DT_KEY)
    wanted = dt if dt is not None else registry.time_step if stated is None else stated
    if not isinstance(wanted, int | float) or not 0 < wanted < math.inf:
        raise ConstraintError("dt", repr(wanted), "a time step above 0 in seconds")
    if stated is not None and not override and not math.isclose(wanted, float(stated), rel_tol=1e-6):
        raise ConstraintError(
            "dt",
            f"{wanted:g} s, while the graph was written for {float(stated):g} s",
            "the graph's own time step",
            "leave dt out, or insist with override_dt=True, which runs the same equations in other steps",
        )
    return float(wanted)


@dataclass(frozen=True)
class _Context:
    """What stays the same through a conversion."""

    builder: Builder
    node_map: NodeMap
    asked: Reset | None = None
    stateless_cycles: list[str] = field(default_factory=list[str])


@dataclass
class _Assembly:
    """The fx graph under construction and the modules that it calls."""

    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    modules: dict[str, torch.nn.Module] = field(default_factory=dict[str, torch.nn.Module])
    values: dict[str, torch.fx.Node] = field(default_factory=dict[str, torch.fx.Node])
    states: dict[str, torch.fx.Node] = field(default_factory=dict[str, torch.fx.Node])

    def arguments(self, graph: nir.NIRGraph, names: dict[str, str]) -> torch.fx.Node:
        """The network's arguments, the inputs in name order and then the state, which is returned.

        fx gives each value a name of its own, made of the argument's (``A`` and ``a`` become ``a`` and ``a_1``), and
        copies one to the other in turn. So each argument is called as its value is, and ``names`` says so.
        """
        state = self.graph.placeholder(STATE, default_value=None)
        with self.graph.inserting_before(state):
            for name in inputs(graph):
                value = self.graph.placeholder(names[name])
                value.target = names[name] = value.name
                self.values[name] = value
        return state

    def call(
        self,
        target: str,
        module: torch.nn.Module,
        arguments: tuple[torch.fx.Node, ...],
        named: dict[str, Any] | None = None,
    ) -> torch.fx.Node:
        """A call of a submodule under a safe identifier."""
        self.modules[target] = module
        return self.graph.call_module(target, arguments, named)

    def item(self, value: torch.fx.Node, index: int) -> torch.fx.Node:
        """One entry of a tuple."""
        return self.graph.call_function(operator.getitem, (value, index))

    def sum(self, terms: list[torch.fx.Node]) -> torch.fx.Node:
        """The sum of the values on a node's incoming edges."""
        total = terms[0]
        for term in terms[1:]:
            total = self.graph.call_function(operator.add, (total, term))
        return total


def _rebuild(
    graph: nir.NIRGraph, shapes: Shapes, context: _Context, path: str, around: Reset | None
) -> Network:
    """One graph, in another one that states a reset; sub-graphs become submodules of their own."""
    reports: dict[str, Report] = {}
    stated = reset_of(graph.metadata, around, path.removesuffix(" / ") or "the graph")
    built = {
        name: _node(graph, name, shapes, context, f"{path}node {name!r}", reports, stated)
        for name in sorted(graph.nodes)
        if not isinstance(graph.nodes[name], nir.Input | nir.Output)
    }
    delays = delayed_edges(
        graph, lambda name: name in built and is_stateful(graph.nodes[name], built[name].stateful)
    )
    context.stateless_cycles.extend(
        f"{path}edge {source!r} -> {target!r}" for source, target in delays.stateless_cycles
    )
    names = safe_identifiers(graph.nodes, RESERVED | {UNPACK, PACK, NAME_OUTPUTS, STATE})
    entries = _entries(built, delays, shapes)
    assembly = _assemble(graph, built, delays, names, entries, shapes)
    network = Network(assembly.modules, assembly.graph, "Network")
    nodes = {name: entry.report for name, entry in built.items()}
    network.meta["nirmap"] = _report(graph, shapes, context, nodes, delays.edges, names, reports)
    return network


def _report(
    graph: nir.NIRGraph,
    shapes: Shapes,
    context: _Context,
    nodes: Mapping[str, NodeReport],
    delayed: Collection[tuple[str, str]],
    names: Mapping[str, str],
    reports: Mapping[str, Report],
) -> Report:
    """What was done for one graph."""
    return Report(
        framework=context.builder.registry.framework,
        dt=context.builder.dt,
        nodes=nodes,
        delayed=tuple(sorted(delayed)),
        identifiers=names,
        inputs=tuple(inputs(graph)),
        outputs=tuple(outputs(graph)),
        shapes={name: shape for name in inputs(graph) if (shape := shapes.outputs.get(name)) is not None},
        graphs=reports,
    )


def _node(
    graph: nir.NIRGraph,
    name: str,
    shapes: Shapes,
    context: _Context,
    where: str,
    reports: dict[str, Report],
    stated: Reset | None,
) -> Built:
    """The module for one node: the caller's, a sub-graph, or a row of the table."""
    node = graph.nodes[name]
    given = build_given(node, context.node_map, context.builder.to, where)
    if given is not None:
        return given
    if isinstance(node, nir.NIRGraph):
        whole = _whole(node, shapes.subgraphs[name], context, where, stated)
        if whole is not None:
            network, entire = whole
            reports[name] = network.meta["nirmap"]
            return Built(network, True, entire.report, entire.cell.unpack.names)
        network = _rebuild(node, shapes.subgraphs[name], context, where + " / ", stated)
        report: Report = network.meta["nirmap"]
        reports[name] = report
        pack = getattr(network, PACK, None)
        kept = (
            frozenset(entry.name for entry in pack.entries)
            if isinstance(pack, PackState)
            else frozenset[str]()
        )
        return Built(network, bool(kept), NodeReport("NIRGraph", "torch.fx.GraphModule", "graph"), kept)
    builder = context.builder
    if not _is_reset(node):
        return builder.build(node, where)
    reset = wanted_reset(reset_of(node.metadata, stated, where), context.asked, where)
    return (builder if reset == builder.reset else replace(builder, reset=reset)).build(node, where)


def _is_reset(node: nir.NIRNode) -> bool:
    """Whether a spike resets something in a node."""
    primitive = PRIMITIVES.get(type(node).__name__)
    return primitive is not None and primitive.subtracts


def _whole(
    graph: nir.NIRGraph, shapes: Shapes, context: _Context, where: str, around: Reset | None
) -> tuple[Network, BuiltGraph] | None:
    """A sub-graph as one module of the framework; None where its nodes have modules of their own."""
    builder = context.builder
    if builder.trainable or any(type(node) in context.node_map for node in graph.nodes.values()):
        return None
    stated = reset_of(graph.metadata, around, where)
    places = {name: f"{where} / node {name!r}" for name, node in graph.nodes.items() if _is_reset(node)}
    resets: set[Reset] = {
        wanted_reset(reset_of(graph.nodes[name].metadata, stated, place), context.asked, place)
        for name, place in places.items()
    }
    if len(resets) > 1:
        return None
    built = build_graph(graph, shapes, builder, where, resets.pop() if resets else "value")
    if built is None:
        return None
    names = safe_identifiers(graph.nodes, RESERVED | {WHOLE, STATE})
    assembly = _Assembly()
    state = assembly.arguments(graph, names)
    (name,) = inputs(graph)
    result = assembly.call(WHOLE, built.cell, (assembly.values[name], state))
    assembly.graph.output((assembly.item(result, 0), assembly.item(result, 1)))
    network = Network(assembly.modules, assembly.graph, "Network")
    network.meta["nirmap"] = _report(graph, shapes, context, built.nodes, built.delayed, names, {})
    return network, built


def _entries(built: Mapping[str, Built], delays: Delays, shapes: Shapes) -> list[StateEntry]:
    """What the network keeps from one step to the next, in name order."""
    fed_back = {source for source, _ in delays.edges}
    return [
        StateEntry(name, entry.stateful, name in fed_back, shapes.outputs.get(name), entry.variables)
        for name, entry in sorted(built.items())
        if entry.stateful or name in fed_back
    ]


def _assemble(
    graph: nir.NIRGraph,
    built: Mapping[str, Built],
    delays: Delays,
    names: dict[str, str],
    entries: list[StateEntry],
    shapes: Shapes,
) -> _Assembly:
    """Writes the fx graph: inputs and state, the nodes in order, the outputs and the new state."""
    assembly = _Assembly()
    state = assembly.arguments(graph, names)
    before: dict[str, torch.fx.Node] = {}
    if entries:
        ranks = [
            None if shapes.outputs.get(name) is None else len(shapes.outputs[name] or ())
            for name in inputs(graph)
        ]
        arguments = (state, *(assembly.values[name] for name in inputs(graph)))
        parts = assembly.call(UNPACK, UnpackState(entries, ranks), arguments)
        for index, entry in enumerate(entries):
            if entry.stateful:
                assembly.states[entry.name] = assembly.item(parts, 2 * index)
            if entry.fed_back:
                before[entry.name] = assembly.item(parts, 2 * index + 1)
    incoming = predecessors(graph)
    for name in delays.order:
        if isinstance(graph.nodes[name], nir.Input):
            continue
        terms = [
            before[source] if (source, name) in delays.edges else assembly.values[source]
            for source in incoming[name]
        ]
        total = assembly.sum(terms)
        assembly.values[name] = (
            total if name not in built else _call(assembly, names[name], name, built[name], total)
        )
    _return(assembly, outputs(graph), entries)
    return assembly


def _call(assembly: _Assembly, target: str, name: str, built: Built, value: torch.fx.Node) -> torch.fx.Node:
    """Calls a node's module, keeps what it returned (output and new state), and returns its output."""
    if built.stateful:
        state = assembly.states[name]
        result = (
            assembly.call(target, built.module, (value, state))
            if built.state_argument is None
            else assembly.call(target, built.module, (value,), {built.state_argument: state})
        )
        assembly.states[name] = result
        return assembly.item(result, 0)
    result = assembly.call(target, built.module, (value,))
    return assembly.item(result, 0) if isinstance(built.module, Network) else result


def _return(assembly: _Assembly, names: list[str], entries: list[StateEntry]) -> None:
    """The network's result: its output, or its outputs by name, and the new state."""
    results = tuple(assembly.values[name] for name in names)
    result = results[0] if len(names) == 1 else assembly.call(NAME_OUTPUTS, NameOutputs(names), results)
    parts: list[torch.fx.Node | None] = []
    for entry in entries:
        parts.append(assembly.states[entry.name] if entry.stateful else None)
        parts.append(assembly.values[entry.name] if entry.fed_back else None)
    if entries:
        assembly.modules[PACK] = PackState(entries)
        state: Any = assembly.graph.call_module(PACK, tuple(parts))
    else:
        state = {}
    assembly.graph.output((result, state))

"""From NIR, executed: a drawn graph is built in a framework, stepped, held against the oracle, and written back."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import nir
import numpy as np

import nirmap
from nirmap.audit.cells import Case, Condition, How
from nirmap.audit.drawing import Draw
from nirmap.audit.judging import (
    DTYPES,
    Verdict,
    computes_in_float32_only,
    dtypes_of,
    fires,
    hold_network,
    output_of,
)
from nirmap.audit.obstacles import obstacles
from nirmap.audit.sketches import Array
from nirmap.building import Builder, node_values, primitive_of
from nirmap.errors import ConstraintError, UnsupportedNodeError
from nirmap.network import Network
from nirmap.oracle.interpreter import simulate
from nirmap.registry import load_registry
from nirmap.report import Report
from nirmap.resets import reset_of
from nirmap_registry.rows import Placement

# From the one that does least to the one that does most.
_ORDER: tuple[How, ...] = ("native", "normal form", "rewritten", "fallback")


def cases_from_nir(framework: str, draws: list[Draw]) -> tuple[Case, ...]:
    """Executes every draw of a row."""
    return tuple(case_from_nir(framework, draw, dtypes_of(number, draw)) for number, draw in enumerate(draws))


def case_from_nir(framework: str, draw: Draw, dtypes: Iterable[str] = tuple(DTYPES)) -> Case:
    """Executes one draw in a framework, in those of the dtypes that it computes in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            network = nirmap.from_nir(draw.graph, framework, dt=draw.dt)
        except (UnsupportedNodeError, ConstraintError) as error:
            return _refused(framework, draw, dtypes, error)
        except Exception as error:  # noqa: BLE001  whatever a mapping raises is the finding
            return Case(draw.name, "wrong", because=_said(error))
        return _executed(framework, draw, dtypes, network, None)


def _refused(
    framework: str, draw: Draw, dtypes: Iterable[str], refusal: UnsupportedNodeError | ConstraintError
) -> Case:
    """What keeps it from being built, and whether the fallback serves."""
    framework_builder = Builder(load_registry(framework), draw.dt, Placement())
    found: list[Condition] = []
    for name, node in draw.graph.nodes.items():
        if not isinstance(node, (nir.Input, nir.Output)):
            primitive = primitive_of(node, name)
            builder = replace(framework_builder, reset=reset_of(node.metadata, None, name) or "value")
            found += _conditions(builder, primitive, node_values(node, primitive, name), name)
    conditions = [entry for entry in found if entry.that]
    lacking = dict.fromkeys(entry.because for entry in found if not entry.that and not entry.module)
    because = "; ".join(lacking) or f"{refusal.found}; expected {refusal.expected}"
    try:
        network = nirmap.from_nir(draw.graph, framework, dt=draw.dt, fallback="torch")
    except (UnsupportedNodeError, ConstraintError):
        return Case(draw.name, "refused", because=because, conditions=tuple(dict.fromkeys(conditions)))
    case = _executed(framework, draw, dtypes, network, "torch")
    return Case(
        case.name,
        case.how,
        case.modules,
        case.rules,
        case.because or because,
        tuple(dict.fromkeys(conditions)),
        case.errors,
    )


def _conditions(builder: Builder, primitive: Any, values: Any, where: str) -> list[Condition]:
    """What keeps a node from being built, modules that are lacking among it; nothing for one that can be built."""
    try:
        builder.build_values(primitive, values, where)
    except (UnsupportedNodeError, ConstraintError):
        found = obstacles(builder, primitive, values)
        return [
            Condition(entry.condition.that, entry.condition.because, entry.condition.do, _owner(entry))
            for entry in found
        ]
    return []


def _owner(obstacle: Any) -> str:
    return ": ".join(filter(None, (obstacle.rule, obstacle.condition.module)))


def _executed(framework: str, draw: Draw, dtypes: Iterable[str], in_float32: Network, fallback: Any) -> Case:
    """Executes a network, which was built in float32, and built anew for any other dtype."""
    verdict = Verdict()
    for dtype in dtypes:
        try:
            network = in_float32
            if dtype != "float32":
                kind = DTYPES[dtype]
                network = nirmap.from_nir(draw.graph, framework, dt=draw.dt, dtype=kind, fallback=fallback)
            hold_network(verdict, network, draw, dtype)
            hold_written(verdict, network, draw, dtype)
        except Exception as error:  # noqa: BLE001  whatever a mapping raises is the finding
            if not computes_in_float32_only(error, verdict, dtype):
                verdict.wrong = verdict.wrong or f"in {dtype}: {_said(error)}"
    how, modules, rules = _summary(in_float32.meta["nirmap"])
    if verdict.wrong:
        return Case(draw.name, "wrong", modules, rules, verdict.wrong)
    return Case(draw.name, how, modules, rules, errors=verdict.errors)


def _summary(report: Report) -> tuple[How, tuple[str, ...], tuple[str, ...]]:
    """How a network was built: that of the node for which most was done, all modules, all rewrites."""
    entries = list(_reports(report))
    hows = {entry.how for entry in entries}
    done: list[How] = [entry for entry in _ORDER if entry in hows]
    modules = dict.fromkeys(
        module for entry in entries if entry.how in _ORDER for module in entry.module.split(" -> ")
    )
    rules = dict.fromkeys(rule for entry in entries for rule in entry.rules)
    return done[-1] if done else "native", tuple(modules), tuple(rules)


def _reports(report: Report) -> Iterable[Any]:
    yield from report.nodes.values()
    for inner in report.graphs.values():
        yield from _reports(inner)


def hold_written(verdict: Verdict, network: Any, draw: Draw, dtype: str) -> None:
    """What the network is written as: the same graph with the same parameters, or one that does the same."""
    written = nirmap.to_nir(network)
    if not _alike(draw.graph, written):
        output = output_of(simulate(written, draw.inputs, draw.dt))
        exactly = fires(draw.graph, draw.trace)
        verdict.hold("the output, written back,", output, output_of(draw.trace), dtype, exactly=exactly)
        return
    _hold_parameters(verdict, draw.graph, written, dtype)


def _hold_parameters(verdict: Verdict, graph: nir.NIRGraph, written: nir.NIRGraph, dtype: str) -> None:
    """Two graphs with the same nodes have the same parameters."""
    for name, node in graph.nodes.items():
        if isinstance(node, (nir.Input, nir.Output)):
            continue
        if isinstance(node, nir.NIRGraph):
            _hold_parameters(verdict, node, cast("nir.NIRGraph", written.nodes[name]), dtype)
            continue
        primitive = primitive_of(node, name)
        resets = [reset_of(entry.metadata, None, name) for entry in (node, written.nodes[name])]
        if resets[0] != resets[1]:
            verdict.wrong = (
                verdict.wrong or f"the reset of {name}, written back, is {resets[1]}, expected {resets[0]}"
            )
        expected, found = (node_values(entry, primitive, name) for entry in (node, written.nodes[name]))
        for parameter in primitive.declared:
            if not _same(expected[parameter.name], found[parameter.name]):
                verdict.wrong = verdict.wrong or (
                    f"in {dtype}: {parameter.name} of {name}, written back, is {found[parameter.name]!r}, "
                    f"expected {expected[parameter.name]!r}"
                )


def _alike(graph: nir.NIRGraph, written: nir.NIRGraph) -> bool:
    """Whether two graphs have the same nodes and edges, but for parameters."""
    kinds = [{name: type(node) for name, node in entry.nodes.items()} for entry in (graph, written)]
    if kinds[0] != kinds[1] or set(map(tuple, graph.edges)) != set(map(tuple, written.edges)):
        return False
    inner = {name: node for name, node in graph.nodes.items() if isinstance(node, nir.NIRGraph)}
    return all(_alike(node, cast("nir.NIRGraph", written.nodes[name])) for name, node in inner.items())


def _same(expected: Any, found: Any) -> bool:
    """Equal, but for what float32 rounds off."""
    if isinstance(expected, np.ndarray):
        expected = cast("Array", expected)
        scale = float(np.abs(expected).max(initial=0.0)) or 1.0
        return bool(
            np.allclose(found, np.broadcast_to(expected, np.shape(found)), rtol=1e-4, atol=1e-5 * scale)
        )
    return bool(expected == found)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

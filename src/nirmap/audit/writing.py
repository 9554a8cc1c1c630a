"""To NIR, executed: a framework's module is made, run by itself, written, and the written graph held against it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import nir
import numpy as np
import torch

import nirmap
from nirmap.audit.cells import Case
from nirmap.audit.drawing import MARGIN, Draw
from nirmap.audit.judging import (
    DTYPES,
    Verdict,
    computes_in_float32_only,
    dtypes_of,
    fires,
    numbers,
    output_of,
    stepped,
)
from nirmap.audit.own_calls import own_outputs, sample_of
from nirmap.audit.rebuilding import hold_written
from nirmap.building import node_values
from nirmap.errors import ConstraintError, NirmapError, TraceError, UnsupportedNodeError
from nirmap.oracle.interpreter import margin, simulate
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import NormalForm, Placement, Row

# What is particular to a draw matters to the node more than to the module: a few of them serve.
_MOST = 4


def cases_to_nir(framework: str, row: Row, draws: list[Draw]) -> Iterator[Case]:
    """Executes the module of a row, made from each draw that the row can express.

    The module is made in the node's normal form, so that nothing stands around it.
    """
    primitive = PRIMITIVES[row.node]
    executed = 0
    for draw in draws:
        if executed == _MOST and not draw.ties:
            continue
        (node,) = [entry for entry in draw.graph.nodes.values() if type(entry) is primitive.node]
        values = node_values(node, primitive, row.node)
        if row.build is not None and all(entry.holds(values, draw.dt) for entry in row.requires):
            with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
                warnings.simplefilter("ignore")
                normal = row.normal_form(values, draw.dt) if row.normal_form else NormalForm(values)
                if np.isfinite(normal.gain).all() and np.all(normal.gain):
                    scaled = replace(draw, inputs=_scaled(draw, normal))
                    yield _case(framework, row, scaled, normal, dtypes_of(executed, draw))
                    executed += 1


def _scaled(draw: Draw, normal: NormalForm) -> Any:
    """The input as it arrives at the module, in float32, so that the module sees what the oracle sees."""
    return (draw.inputs * normal.gain).astype(np.float32).astype(np.float64)


def _case(framework: str, row: Row, draw: Draw, normal: NormalForm, dtypes: Iterable[str]) -> Case:
    verdict = Verdict()
    name = f"{row.path}: {draw.name}"
    for dtype in dtypes:
        try:
            _hold_module(verdict, framework, row, draw, normal, dtype)
        except ConstraintError as error:
            return Case(name, "refused", (row.path,), because=f"{error.found}; expected {error.expected}")
        except Exception as error:  # noqa: BLE001  whatever a mapping raises is the finding
            if not computes_in_float32_only(error, verdict, dtype):
                verdict.wrong = verdict.wrong or f"in {dtype}: {type(error).__name__}: {error}"
    if verdict.wrong:
        return Case(name, "wrong", (row.path,), because=verdict.wrong)
    if not verdict.errors:  # nothing was compared, so nothing is known
        return Case(name, "refused", (row.path,), because="its spikes hang on rounding")
    return Case(name, "native", (row.path,), errors=verdict.errors)


def _hold_module(
    verdict: Verdict, framework: str, row: Row, draw: Draw, normal: NormalForm, dtype: str
) -> None:
    """The module's own outputs against the written node's, and against the module that the node becomes again."""
    xs = torch.tensor(draw.inputs, dtype=DTYPES[dtype])
    found = numbers(own_outputs(_module(row, draw, normal, dtype), row, xs, draw.dt))
    sample = sample_of(row, xs[0])
    written = nirmap.to_nir(
        _module(row, draw, normal, dtype), framework, dt=draw.dt, sample=sample, reset=row.reset
    )
    kinds = [
        type(node).__name__
        for node in written.nodes.values()
        if not isinstance(node, (nir.Input, nir.Output))
    ]
    if kinds != [row.node]:
        raise TraceError(row.path, f"it is written as {', '.join(kinds)}", f"a {row.node}")
    trace = simulate(written, draw.inputs, draw.dt, method=row.discretisation)
    if not draw.ties and margin(trace) < MARGIN / 10:
        return
    exactly = fires(written, trace)
    verdict.hold("the output", found, output_of(trace), dtype, exactly=exactly)
    if row.discretisation != "forward_euler":
        return
    try:
        network = nirmap.from_nir(written, framework, dt=draw.dt, dtype=DTYPES[dtype])
    except (UnsupportedNodeError, ConstraintError):
        return  # what the framework cannot build is the other direction's finding
    again, _ = stepped(network, draw, dtype)
    verdict.hold("the output of the module built again", again, found, dtype, exactly=exactly)
    # Spikes tell little of a parameter that is a little off.
    hold_written(verdict, network, replace(draw, graph=written, trace=trace), dtype)


def _module(row: Row, draw: Draw, normal: NormalForm, dtype: str) -> torch.nn.Module:
    if row.build is None:
        raise NirmapError(row.path, f"it is never built: {row.not_built}", "a row with build")
    module = row.build(normal.parameters, draw.dt, Placement(DTYPES[dtype]))
    return module.to(dtype=DTYPES[dtype])

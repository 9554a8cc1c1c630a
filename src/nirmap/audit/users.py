"""To NIR, as users make a module: read and held against the oracle, and refused where a condition is broken."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

import nir
import numpy as np
import torch

import nirmap
from nirmap.audit.cells import Case, Condition
from nirmap.audit.drawing import BATCH, MARGIN, STEPS
from nirmap.audit.judging import Verdict, fires, numbers, output_of
from nirmap.audit.own_calls import own_outputs, sample_of
from nirmap.audit.settings import Setting, Settings, input_shape
from nirmap.audit.sketches import DT, Array
from nirmap.errors import NirmapError
from nirmap.leaves import Leaves
from nirmap.oracle.interpreter import margin, simulate
from nirmap.registry import load_registry
from nirmap_registry.rows import ModuleConstraint, Row

# So many modules are drawn of a class of which nirmap builds none, and so many inputs, until one meets no threshold.
_DRAWN = 2
_INPUTS = 8


class UsersModules:
    """The modules of one row's class, as their constructor makes them.

    Args:
        framework: name of the framework.
        row: the row.
    """

    def __init__(self, framework: str, row: Row) -> None:
        self.framework = framework
        self.row = row
        self.leaves = Leaves(load_registry(framework), {}, DT, reset=row.reset)
        self.settings = Settings(self.leaves, row)

    @cached_property
    def broken(self) -> list[tuple[ModuleConstraint, Setting | None]]:
        """Each condition with a module that does not fulfil it, where one was found."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [(condition, self.settings.breaking(condition)) for condition in self.row.reads_only_if]

    def conditions(self) -> list[Condition]:
        """The conditions, and which of them were executed."""
        return [
            Condition(entry.that, entry.because, entry.do, self.row.path, executed=setting is not None)
            for entry, setting in self.broken
        ]

    def as_they_are_read(self) -> Iterator[Case]:
        """Modules with drawn arguments, for a row that is never built; the others are made by their build.

        For a graph too that is built: it is built in one place only, and read wherever it is.
        """
        if self.row.build is None or self.row.graph is not None:
            random = np.random.default_rng(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for number, setting in enumerate(islice(self._telling(random), _DRAWN), start=1):
                    yield self.case(f"{self.row.path}: drawn arguments, {number}", setting)

    def with_broken_conditions(self) -> Iterator[Case]:
        """A module for each condition, which is refused, or read as another node and then right."""
        for condition, setting in self.broken:
            if setting is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield self.case(f"{self.row.path} that breaks {condition.that}", setting)

    def _telling(self, random: np.random.Generator) -> Iterator[Setting]:
        """Drawn settings whose output is not the same throughout; the first one, where there is no such one."""
        first: Setting | None = None
        found = False
        for setting in islice(self.settings.drawn(random), 20):
            first = first or setting
            if self._varies(setting):
                found = True
                yield setting
        if first is not None and not found:
            yield first

    def _varies(self, setting: Setting) -> bool:
        try:
            output = self._own_output(setting, self.row, _inputs(self.row, 0))
        except Exception:  # noqa: BLE001  it is executed again, and then it is the finding
            return True
        return bool(output.std() > 0)

    def _own_output(self, setting: Setting, row: Row, xs: Array) -> Array:
        return numbers(
            own_outputs(setting.make(), row, torch.tensor(xs, dtype=torch.float32), DT, begins_anew=True)
        )

    def case(self, name: str, setting: Setting) -> Case:
        """Writes a module, and holds what it does against what the written node does."""
        verdict = Verdict()
        path = (self.row.path,)
        sample = sample_of(self.row, torch.zeros(BATCH, *input_shape(self.row)))
        try:
            reset = self.row.reset
            written = nirmap.to_nir(setting.make(), self.framework, dt=DT, sample=sample, reset=reset)
            row = self.leaves.row_for(setting.make(), "module")
            if row.graph is not None and row.graph is not self.row.graph:
                name += f", so it is {row.graph.name}"
            elif (row.node, row.reset) != (self.row.node, self.row.reset):
                reset_of_it = " that is reset to a value" if row.reset != self.row.reset else ""
                name += f", so it is a {row.node}{reset_of_it}"
            self._hold(verdict, setting, written, row)
        except NirmapError as error:
            return Case(name, "refused", path, because=f"{error.found}; expected {error.expected}")
        except Exception as error:  # noqa: BLE001  whatever else is raised is the finding
            verdict.wrong = f"{type(error).__name__}: {error}"
        if verdict.wrong:
            return Case(name, "wrong", path, because=verdict.wrong)
        return Case(name, "native", path, errors=verdict.errors)

    def _hold(self, verdict: Verdict, setting: Setting, written: nir.NIRGraph, row: Row) -> None:
        """Compares over the first input that meets no threshold."""
        sequences = (_inputs(self.row, seed) for seed in range(_INPUTS))
        simulated = [
            (xs, simulate(written, xs, DT, method=row.discretisation)) for xs in islice(sequences, 1)
        ]
        while margin(simulated[-1][1]) < MARGIN / 10 and (xs := next(sequences, None)) is not None:
            simulated.append((xs, simulate(written, xs, DT, method=row.discretisation)))
        xs, trace = simulated[-1]
        found = self._own_output(setting, row, xs)
        verdict.hold("the output", found, output_of(trace), "float32", exactly=fires(written, trace))


def _inputs(row: Row, seed: int) -> Array:
    """An input (T, B, *shape) of numbers of both signs, so that a threshold at 0 is passed both ways."""
    size = (STEPS, BATCH, *input_shape(row))
    return np.random.default_rng(seed).uniform(-0.7, 2.0, size).astype(np.float32).astype(np.float64)

"""Which modules a tracer does not enter, and what each of them stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import nir
import numpy as np
import torch

from nirmap.cells import Cell
from nirmap.errors import ConstraintError, TraceError
from nirmap.network import NameOutputs, Network, PackState, UnpackState
from nirmap.registry import rows_for_module
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Bypassed, ModuleConstraint, Primitive, Registry, Row, Values

ModuleMap = Mapping[type[torch.nn.Module], Callable[[torch.nn.Module], nir.NIRNode]]
OWN = (Cell, UnpackState, PackState, NameOutputs, Network)


@dataclass(frozen=True)
class Leaves:
    """The leaf modules of one conversion.

    Attributes:
        registry: the framework's table.
        module_map: the caller's functions, which take precedence over the table.
        dt: time step in s.
    """

    registry: Registry
    module_map: ModuleMap
    dt: float
    rows: dict[type[torch.nn.Module], list[Row]] = field(
        default_factory=dict[type[torch.nn.Module], list[Row]]
    )

    def __post_init__(self) -> None:
        for row in self.registry.rows:
            self.rows.setdefault(row.module, rows_for_module(self.registry, row.module))

    def is_leaf(self, module: torch.nn.Module) -> bool:
        """Whether a module is one node, or one of the project's own, or cannot be entered at all."""
        kind = type(module)
        if isinstance(module, OWN) or kind in self.module_map or self.bypass(module) is not None:
            return True
        if any(base in self.rows for base in kind.__mro__):
            return True
        containers = torch.nn.Sequential | torch.nn.ModuleList | torch.nn.ModuleDict
        return kind.__module__.startswith("torch.nn") and not isinstance(module, containers)

    def bypass(self, module: torch.nn.Module) -> Bypassed | None:
        """The entry for a module that only hands its input on."""
        return next((entry for entry in self.registry.bypassed if type(module) is entry.module), None)

    def candidates(self, module: torch.nn.Module, where: str) -> list[Row]:
        """The rows of a module's class, or of a base class that it does not change in what the rows rely on.

        Raises:
            TraceError: no row is there, or a subclass overrides ``forward`` or an attribute that is read.
        """
        kind = type(module)
        base = next((entry for entry in kind.__mro__ if entry in self.rows), None)
        if base is None:
            raise TraceError(
                where,
                f"a {kind.__module__}.{kind.__qualname__}",
                f"a module that the table of {self.registry.framework!r} knows",
                "add it to the mappings, pass a function for it in module_map, or name its framework with framework=",
            )
        rows = self.rows[base]
        relied = {"forward"} | {name.split(".")[0] for row in rows for name in row.accounted}
        overridden = relied & {
            name for entry in kind.__mro__[: kind.__mro__.index(base)] for name in vars(entry)
        }
        if overridden:
            raise TraceError(
                where,
                f"{kind.__qualname__} overrides {', '.join(sorted(overridden))} of {rows[0].path}",
                f"a {rows[0].path} itself, since the mapping relies on it",
                f"pass a function for {kind.__qualname__} in module_map",
            )
        return rows

    def row_for(self, module: torch.nn.Module, where: str) -> Row:
        """The first row whose conditions the module fulfils.

        Raises:
            ConstraintError: NIR cannot express the module as it is set.
        """
        broken: list[tuple[Row, ModuleConstraint]] = []
        for row in self.candidates(module, where):
            failed = next((entry for entry in row.reads_only_if if not entry.holds(module, self.dt)), None)
            if failed is None:
                return row
            broken.append((row, failed))
        raise ConstraintError(
            where,
            f"{broken[0][0].path} with "
            + ", ".join(sorted({_setting(module, entry) for _, entry in broken})),
            "; or ".join(f"{entry.that} for a nir.{row.node} ({entry.because})" for row, entry in broken),
            next((entry.do for _, entry in broken if entry.do), ""),
        )

    def read(self, module: torch.nn.Module, row: Row) -> tuple[Primitive, Values]:
        """The primitive that a module stands for and its parameters."""
        primitive = PRIMITIVES[row.node]
        if not isinstance(module, Cell):
            return primitive, row.read(module, self.dt)
        values = row.read(module.module, self.dt)
        if primitive.equivalent is None or primitive.inverse is None or not module.free:
            return primitive, values
        # 1 / gain is infinite for r = 0, and r / infinity is 0 again.
        with np.errstate(divide="ignore", invalid="ignore"):
            back: Any = primitive.inverse(**module.free)
            return primitive, primitive.equivalent(values, **back).parameters

    def row_of_cell(self, cell: Cell, where: str) -> Row:
        """The row from which a cell was built.

        Raises:
            TraceError: the framework's table has no such row.
        """
        for row in self.registry.rows:
            if row.path == cell.path and row.node == cell.node:
                return row
        raise TraceError(
            where,
            f"a cell around {cell.path}",
            f"a module of {self.registry.framework!r}",
            "name the framework",
        )


def _setting(module: torch.nn.Module, constraint: ModuleConstraint) -> str:
    parts: list[str] = []
    for path in constraint.attributes:
        value: Any = module
        for name in path.split("."):
            value = getattr(value, name, None)
        if isinstance(value, torch.Tensor):
            numbers = value.detach().flatten().tolist()
            value = numbers[0] if len(set(numbers)) == 1 else numbers[:3]
        parts.append(f"{path} = {value}")
    return ", ".join(parts)

"""A result of an audit, made by hand, with every status and state."""

from __future__ import annotations

from dataclasses import replace

from nirmap.audit.cells import DIRECTIONS, Audit, Case, Cell, Column, Condition, Status

CONDITION = Condition("v_reset < v_leak", "it </script> rests <b>there", "use | another", "first.Module")
UNBROKEN = Condition("dt == 1", "it ticks", "", "first.Module", executed=False)
STATUSES: dict[str, Status] = {
    "Scale": "exact",
    "Delay": "by rewrite",
    "IF": "exact when",
    "LI": "fallback",
    "LIF": "no",
    "I": "wrong",
}


def cell(row: str, direction: str, status: Status) -> Cell:
    executed = status in ("exact", "by rewrite", "exact when")
    conditions = (CONDITION, UNBROKEN) if status == "exact when" else ()
    return Cell(
        row,
        "from NIR" if direction == "from NIR" else "to NIR",
        status,
        ("first.Module",) if executed else (),
        ("a_rule",) if status == "by rewrite" else (),
        conditions,
        () if executed else (f"a reason for {row}",),
        (),
        (
            Case("general", "native" if executed else "refused", errors={"float32": 3e-7, "float64": 2e-16}),
            Case("corner", "refused", because="it cannot", conditions=conditions),
        ),
    )


def audit() -> Audit:
    cells = tuple(
        cell(row, direction, status) for row, status in STATUSES.items() for direction in DIRECTIONS
    )
    return Audit(
        {"nirmap": "0.1", "nir": "1.0.8", "torch": "2.0", "numpy": "2.0", "python": "3.11"},
        ("Scale", "Delay", "IF", "LI", "LIF"),
        (),
        ("I",),
        (
            Column("first", "ran", "", "first-snn", ">=1,<2", "1.5", cells),
            Column("second", "absent", "No module named 'second'"),
            Column("third", "broken", "its process ended with signal 9"),
        ),
    )


def changed(before: Audit, row: str, **changes: object) -> Audit:
    """The audit with the cell of a row from NIR changed."""
    column = before.columns[0]
    cells = tuple(
        replace(entry, **changes) if (entry.row, entry.direction) == (row, "from NIR") else entry  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        for entry in column.cells
    )
    return replace(before, columns=(replace(column, cells=cells), *before.columns[1:]))

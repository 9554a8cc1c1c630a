"""What became worse between two audits."""

from __future__ import annotations

import numpy as np

from nirmap.audit.cells import DIRECTIONS, STATUSES, Audit, Cell, Column

_EXECUTED = ("native", "normal form", "rewritten")


def losses(old: Audit, new: Audit) -> list[str]:
    """A line for each cell of the old audit that is lost or worse in the new one; rows that are new are no loss.

    A cell is worse if its status is, if a draw that the framework could execute is refused now, or if its error in a
    dtype has grown to more than ten times what it was. An error of a few units in the last place depends on the machine
    and is none; so the least that counts is four times the machine epsilon.
    """
    found: list[str] = []
    for before in old.columns:
        if before.state != "ran":
            continue
        after = next((column for column in new.columns if column.framework == before.framework), None)
        if after is None:
            found.append(f"{before.framework}: it is not in the new audit")
        elif after.state != "ran":
            found.append(f"{before.framework}: {after.state}, {after.problem}")
        else:
            found += _lost_cells(before, after)
    return found


def _lost_cells(before: Column, after: Column) -> list[str]:
    found: list[str] = []
    for direction in DIRECTIONS:
        for cell in before.cells:
            if cell.direction == direction:
                now = after.cell(cell.row, direction)
                reason = "it is gone" if now is None else _worse(cell, now)
                if reason:
                    found.append(f"{before.framework} {cell.row} {direction}: {reason}")
    return found


def _worse(before: Cell, now: Cell) -> str:
    """How a cell became worse, if it did."""
    if STATUSES.index(now.status) > STATUSES.index(before.status):
        reasons = now.because or tuple(entry.that for entry in now.conditions)
        return f"{before.status} before, {now.status} now" + (f" ({'; '.join(reasons)})" if reasons else "")
    cases = {case.name: case for case in now.cases}
    lost = [
        case.name
        for case in before.cases
        if case.how in _EXECUTED and case.name in cases and cases[case.name].how not in _EXECUTED
    ]
    if lost:
        return f"refused now: {', '.join(lost)}"
    for dtype, error in before.errors.items():
        if dtype not in now.errors:
            return f"no longer executed in {dtype}"
        least = 4 * float(np.finfo(dtype).eps)
        if now.errors[dtype] > 10 * max(error, least):
            return f"its error in {dtype} was {error:.1e}, and is {now.errors[dtype]:.1e} now"
    gone = sorted(set(before.modules) - set(now.modules)) if now.direction == "to NIR" else []
    return f"no longer written: {', '.join(gone)}" if gone else ""

"""What became worse between two audits."""

from __future__ import annotations

from nirmap.audit.cells import DIRECTIONS, STATUSES, Audit, Cell, Column

_EXECUTED = ("native", "normal form", "rewritten")


def losses(old: Audit, new: Audit) -> list[str]:
    """A line for each cell of the old audit that is lost or worse in the new one; rows that are new are no loss.

    A cell is worse if its status is, or if a draw that the framework could execute is refused now. How large an error
    is depends on the machine, and is left to the audit itself, which calls a cell wrong when it is not rounding.
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
    gone = sorted(set(before.modules) - set(now.modules)) if now.direction == "to NIR" else []
    return f"no longer written: {', '.join(gone)}" if gone else ""

"""The audit in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nirmap.cli.options import as_options
from nirmap.cli.text import add_row, output, shown, table, write

if TYPE_CHECKING:
    from nirmap.audit.cells import Audit, Cell, Column
    from nirmap.audit.graphs import Answer, Offender

# How a cell of the table says its status, and its style.
MARKS: Mapping[str, tuple[str, str]] = {
    "exact": ("yes", "green"),
    "by rewrite": ("rewrite", "green"),
    "exact when": ("if", "yellow"),
    "fallback": ("fallback", "magenta"),
    "no": ("no", "dim"),
    "wrong": ("WRONG", "bold red"),
}
_STYLES = {
    "runs": "green",
    "runs with fallback": "yellow",
    "refused": "red",
    "absent": "dim",
    "broken": "bold red",
}


def show_audit(result: Audit, reasons: bool) -> None:
    """The table, a line for each framework, and, if asked for, every reason."""
    write("Executed, from NIR / to NIR", style="bold")
    made = table("", *(column.framework for column in result.columns))
    for row in result.rows:
        add_row(made, row, *(_pair(column, row) for column in result.columns))
    output().print(made)
    for line in result.summary():
        write(line)
    for column in result.columns:
        if column.state == "ran":
            write(f"{column.framework}: {column.distribution} {column.installed}", style="dim")
    write(", ".join(f"{name} {version}" for name, version in result.versions.items() if version), style="dim")
    write("")
    write("yes: exact   rewrite: exact, as other nodes   if: exact where conditions hold, else refused")
    write("fallback: refused, unless fallback='torch' is given   no: refused")
    write("(subtract): a spike lowers the potential by v_threshold - v_reset, and does not set it to v_reset")
    if not reasons:
        write("Conditions, reasons and errors: nirmap audit --reasons", style="dim")
        return
    for column in result.columns:
        for cell in column.cells:
            _show_cell(column.framework, cell)


def _pair(column: Column, row: str) -> tuple[str, str]:
    """Both directions, in the style of the weaker one."""
    from nirmap.audit.cells import DIRECTIONS, STATUSES

    cells = [column.cell(row, direction) for direction in DIRECTIONS]
    known = [cell.status for cell in cells if cell is not None]
    if len(known) < len(cells):
        return column.state, "red"
    return " / ".join(MARKS[name][0] for name in known), MARKS[max(known, key=STATUSES.index)][1]


def _show_cell(framework: str, cell: Cell) -> None:
    from nirmap.audit.markdown import as_line

    word, style = MARKS[cell.status]
    write("")
    write(f"{framework} {cell.row} {cell.direction}: {word}", style=style)
    if cell.modules:
        write(f"  {', '.join(cell.modules)}")
    if cell.rules:
        write(f"  rewritten by {', '.join(cell.rules)}")
    if cell.errors and cell.status not in ("no", "wrong"):
        write(
            "  largest error " + ", ".join(f"{error:.1e} in {dtype}" for dtype, error in cell.errors.items())
        )
    for line in (*cell.because, *(as_line(condition, str) for condition in cell.conditions)):
        write(f"  {line}")


def show_graph_audit(file: Path, answers: Iterable[Answer]) -> None:
    """Which frameworks can run a graph, and every node in the way of the others."""
    every = list(answers)
    write(str(file), style="bold")
    made = table("framework", "", "nodes", "dt")
    for answer in every:
        counts: dict[str, int] = {}
        for how in answer.how.values():
            counts[how] = counts.get(how, 0) + 1
        nodes = ", ".join(f"{count} {how}" for how, count in counts.items()) or answer.problem
        if answer.offenders:
            nodes = f"{len(answer.offenders)} in the way"
        step = "" if answer.dt is None else f"{answer.dt:g} s"
        add_row(made, (answer.framework, "bold"), (answer.state, _STYLES[answer.state]), nodes, step)
    output().print(made)
    for answer in every:
        if answer.rules:
            write(f"{answer.framework}: rewritten by {', '.join(answer.rules)}")
        for offender in answer.offenders:
            _show_offender(answer.framework, offender)


def _show_offender(framework: str, offender: Offender) -> None:
    place = " / ".join(map(shown, offender.node)) or "the graph"
    write("")
    write(f"{framework}: {place} ({offender.primitive})", style="bold")
    for problem in offender.problems:
        owner = f" ({problem.module})" if problem.module else ""
        values = ", ".join(f"{name} = {value}" for name, value in problem.parameters.items())
        reason = (
            f"not {problem.that}{owner}: {problem.because}" if problem.that else f"{problem.because}{owner}"
        )
        write(f"  {reason}" + (f"; here {values}" if values else ""))
    if offender.help:
        write(as_options(f"  what would help: {'; '.join(offender.help)}"))

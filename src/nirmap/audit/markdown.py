"""The audit as Markdown: what is the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from nirmap.audit.cells import DIRECTIONS, MEANINGS, Audit, Cell, Column, Condition, rounded_up

HEADER = "<!-- Written by nirmap audit --write; do not edit. -->"


def as_markdown(audit: Audit) -> str:
    """Rows by frameworks, and below it every module, condition, reason and error.

    Of the errors it shows what they stay below: 1e-12, 1e-5 (the rounding of float64 and of float32), or a power of
    ten. Versions are the ranges that are declared.
    """
    names = [column.framework for column in audit.columns]
    lines = [
        HEADER,
        "",
        "# Coverage",
        "",
        "What `nirmap audit` executed, from NIR / to NIR. Each cell was held against the equations, by a simulation in",
        "NumPy that shares no code with the mappings: spikes are equal, and values to rounding. A spike sets the",
        "potential to `v_reset`, as NIR says; in the rows (subtract) it lowers it by `v_threshold - v_reset`.",
        "",
        *(f"* `{status}`: {meaning}" for status, meaning in MEANINGS.items()),
        "",
        "```text",
        *audit.summary(),
        "```",
        "",
        f"| | {' | '.join(names)} |",
        f"| --- |{' --- |' * len(names)}",
        *(_row(audit, row) for row in audit.rows),
    ]
    for column in audit.columns:
        lines += ["", *_details(audit, column)]
    return "\n".join(lines) + "\n"


def _row(audit: Audit, row: str) -> str:
    cells = [[column.cell(row, direction) for direction in DIRECTIONS] for column in audit.columns]
    shown = [" / ".join(cell.status if cell else "?" for cell in pair) for pair in cells]
    return f"| {_text(row)} | {' | '.join(shown)} |"


def _details(audit: Audit, column: Column) -> Iterator[str]:
    yield f"## {column.framework}"
    yield ""
    if column.state != "ran":
        yield f"It is {column.state}: {_text(column.problem)}"
        return
    yield f"{column.distribution} {column.declared}"
    yield ""
    yield from _rows(column, audit.rows)
    modules = audit.modules(column)
    if modules:
        yield from ("", "Recurrent and other modules that are no primitive:", "")
        yield from _rows(column, modules)


def _rows(column: Column, rows: Iterable[str]) -> Iterator[str]:
    for row in rows:
        yield f"* {_text(row)}"
        for direction in DIRECTIONS:
            cell = column.cell(row, direction)
            if cell is not None:
                yield from _cell(cell)


def _cell(cell: Cell) -> Iterator[str]:
    parts: list[str] = [cell.status]
    if cell.modules:
        parts.append(", ".join(f"`{module}`" for module in cell.modules))
    if cell.rules:
        parts.append("rewritten by " + ", ".join(f"`{rule}`" for rule in cell.rules))
    errors = [f"{rounded_up(error):.0e} in {dtype}" for dtype, error in cell.errors.items()]
    if errors and cell.status not in ("no", "wrong"):
        parts.append("error at most " + ", ".join(errors))
    yield f"    * {cell.direction}: {'; '.join(parts)}"
    for reason in cell.because:
        yield f"        * {_text(reason)}"
    for condition in cell.conditions:
        yield f"        * {as_line(condition, _text)}"
    if cell.declared_only:
        yield f"        * declared too, and not executed: {', '.join(f'`{name}`' for name in cell.declared_only)}"


def as_line(condition: Condition, text: Callable[[str], str]) -> str:
    """A condition, which is code, with its reason, and whose it is.

    Args:
        condition: the condition.
        text: what a text goes through that is no code.
    """
    owner = f" ({condition.module})" if condition.module else ""
    unbroken = "" if condition.executed else "; declared, and broken by no draw"
    return f"`{' '.join(condition.that.split())}`{owner}: {text(condition.because)}{unbroken}"


def _text(text: str) -> str:
    """On one line, and without what Markdown would take for a tag."""
    return " ".join(text.split()).replace("<->", "\u2194").replace("<", "\\<")

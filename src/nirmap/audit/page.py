"""The audit as one HTML page that needs no network."""

from __future__ import annotations

from typing import Any

from nirmap.audit.cells import DIRECTIONS, MEANINGS, Audit, Cell, rounded_up


def as_html(audit: Audit) -> str:
    """The page: the table, filters by framework and status, and the reasons of each cell behind it."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nirmap.audit", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    cells = {
        f"{column.framework}|{cell.row}|{cell.direction}": _shown(cell)
        for column in audit.columns
        for cell in column.cells
    }
    return environment.get_template("page.html.jinja").render(
        audit=audit, directions=DIRECTIONS, meanings=MEANINGS, cells=cells
    )


def _shown(cell: Cell) -> dict[str, Any]:
    """What the page says of a cell."""
    return {
        "status": cell.status,
        "modules": cell.modules,
        "rules": cell.rules,
        "because": cell.because,
        "declared_only": cell.declared_only,
        "conditions": [
            {
                "that": entry.that,
                "because": entry.because,
                "do": entry.do,
                "module": entry.module,
                "executed": entry.executed,
            }
            for entry in cell.conditions
        ],
        "errors": {dtype: f"{error:.1e}" for dtype, error in cell.errors.items()},
        "bounds": {dtype: f"{rounded_up(error):.0e}" for dtype, error in cell.errors.items()},
        "cases": [
            {"name": case.name, "how": case.how, "because": case.because, "rules": case.rules}
            for case in cell.cases
        ],
    }

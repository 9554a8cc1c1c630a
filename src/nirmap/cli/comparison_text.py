"""A comparison of frameworks as text on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nirmap.cli.options import as_options
from nirmap.cli.text import (
    NAME_LIMIT,
    add_row,
    note,
    output,
    show_refusal,
    shown,
    table,
    write,
)

if TYPE_CHECKING:
    from nirmap.comparison import Comparison, Difference, Result


def show_comparison(comparison: Comparison, title: str, verbose: bool) -> None:
    """The table of all frameworks, and for each where it first differs; each node too, if that is asked for."""
    batch = f", batch of {comparison.batch}" if comparison.batch > 1 else ""
    write(f"{title}: {comparison.steps:,} steps of {comparison.dt:g} s{batch}", style="bold")
    made = table("framework", "spikes", "largest difference", "against the reference")
    add_row(made, "reference", f"{sum(comparison.reference.spikes.values()):,}", "", "")
    for result in comparison.results:
        add_row(
            made,
            (result.name, "bold"),
            "" if result.error else f"{result.spikes:,}",
            _largest(result),
            _verdict(result),
        )
    output().print(made)
    if verbose:
        _show_nodes(comparison)
    if comparison.reference.spikes and not any(comparison.reference.spikes.values()):
        note("No neuron fires: a stronger input, such as --input random:10, tells more.")
    for result in comparison.results:
        if result.first is not None:
            _show_difference(result.name, result.first, comparison.batch)
        if result.fallbacks:
            names = ", ".join(_node(path) for path in result.fallbacks)
            write(f"{result.name}: the built-in module took the place of its own for {names}")
        unseen = [f"{name} of {_node(path)}" for path, node in result.nodes.items() for name in node.unseen]
        if unseen:
            write(f"{result.name} does not show {', '.join(unseen)}; not compared")


def _largest(result: Result) -> str:
    found = result.largest()
    if found is None:
        return ""
    largest, path, variable = found
    return f"{largest:.1e} ({variable} of {_node(path)})" if largest else "0"


def _verdict(result: Result) -> tuple[str, str]:
    if result.error is not None:
        return "cannot run", "red"
    if result.first is None:
        return "equal", "green"
    return f"differs from step {result.first.step:,} on", "red"


def _node(path: tuple[str, ...]) -> str:
    return " / ".join(shown(name, NAME_LIMIT) for name in path)


def _show_nodes(comparison: Comparison) -> None:
    """Each node's spikes and largest difference, in every framework."""
    ran = [result for result in comparison.results if result.error is None]
    made = table("node", "reference", *(result.name for result in ran))
    for path in comparison.reference.order:
        spikes = comparison.reference.spikes.get(path)
        cells: list[str] = []
        for result in ran:
            node = result.nodes.get(path)
            lines = [] if node is None or node.spikes is None else [f"{node.spikes:,} spikes"]
            lines += [
                f"{variable} {largest:.1e}" if largest else f"{variable} 0"
                for variable, largest in (node.largest.items() if node else ())
                if node is not None and (node.spikes is None or variable != "output")
            ]
            cells.append("\n".join(lines))
        add_row(made, _node(path), "" if spikes is None else f"{spikes:,} spikes", *cells)
    output().print(made)
    write("Numbers are the largest differences from the reference.", style="dim")


def _show_difference(name: str, first: Difference, batch: int) -> None:
    what = "" if first.variable == "output" else f"{first.variable}, "
    row = f"row {first.row} of the batch, " if batch > 1 else ""
    neuron = ", ".join(map(str, first.neuron))
    write(
        f"{name} differs first in step {first.step:,} ({first.time:g} s): node {_node(first.node)}, {what}{row}"
        f"neuron ({neuron}): {first.value:.9g}, and {first.reference:.9g} in the reference"
    )
    if first.potential is not None and first.threshold is not None and first.variable == "output":
        write(f"  there {first.potential:.9g} met the threshold {first.threshold:.9g} in the reference")


def show_error(result: Result) -> None:
    """Why a framework cannot run the graph, and what would help."""
    error = result.error
    if error is not None:
        parts = (("found", error.found), ("expected", error.expected), ("do", as_options(error.do)))
        show_refusal(f"{result.name} cannot run the graph: {error.where}", parts)

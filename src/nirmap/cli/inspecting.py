"""The command ``inspect``: what is in a ``.nir`` file."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from nirmap.cli.text import (
    NAME_LIMIT,
    add_row,
    help_text,
    hidden,
    limited,
    output,
    shown,
    status,
    table,
    write,
)

if TYPE_CHECKING:
    import nir
    import numpy as np

    from nirmap.errors import NirmapError
    from nirmap.shapes import Shapes

# Graphs inside graphs that are shown, and entries of the metadata, unless all are asked for.
GRAPH_LIMIT = 8
METADATA_LIMIT = 10
# An array of integers (stride, padding, ...) of so many entries is shown entry by entry.
FEW_ENTRIES = 4

HELP = help_text(
    "Show what is in a .nir file: nodes, shapes, parameters, state.",
    "Of a parameter with different values the smallest and the largest are shown. A malformed graph is shown as far "
    "as it goes, followed by what is wrong with it, and the exit code is 1.",
    examples=("nirmap inspect model.nir", "nirmap inspect model.nir --all"),
)

ShowAll = Annotated[bool, typer.Option("--all", "-a", help="Hide nothing, however large the graph is.")]


@dataclass(frozen=True)
class _Facts:
    """What is known of a graph beyond its nodes and edges; little, where it is malformed.

    Attributes:
        shapes: the shapes at every node.
        order: the nodes, in the order of a step; of a malformed graph in name order.
        late: the edges that carry the value of the step before.
    """

    shapes: Shapes
    order: tuple[str, ...]
    late: frozenset[tuple[str, str]]


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE.nir", show_default=False, help="A .nir file.")],
    show_all: ShowAll = False,
) -> None:
    """Reads a file and shows it."""
    check_file(file)
    with status("Importing torch and nir"):
        importlib.import_module("nirmap.building")
        from nirmap.files import read_graph
    with status(f"Reading {file}"):
        graph = read_graph(file)
    show_graph(graph, str(file), show_all)


def check_file(file: Path) -> None:
    """A file that is not there is a mistake on the command line.

    Raises:
        typer.BadParameter: there is no such file.
    """
    if not file.is_file():
        found = "is a folder" if file.is_dir() else "does not exist"
        raise typer.BadParameter(
            f"{shown(str(file), None)} {found}; expected a .nir file", param_hint="FILE.nir"
        )


def show_graph(graph: nir.NIRGraph, title: str, show_all: bool) -> None:
    """A graph with the graphs in it, and in the end the error if it is malformed.

    Raises:
        GraphError: the graph is malformed.
    """
    from nirmap.errors import GraphError
    from nirmap.shapes import infer_shapes
    from nirmap.structure import check_structure

    error: NirmapError | None = None
    shapes: Shapes | None = None
    with status("Inferring shapes"):
        try:
            check_structure(graph)
            shapes = infer_shapes(graph)
        except GraphError as malformed:
            error = malformed
        graphs = list(_walk(graph, title, shapes))
    some, rest = limited(graphs, show_all, GRAPH_LIMIT)
    for inner, path, known in some:
        _show_one(inner, path, _facts(inner, known), show_all)
    hidden(rest, "sub-graphs")
    if error is not None:
        raise error


def _walk(
    graph: nir.NIRGraph, title: str, shapes: Shapes | None
) -> Iterator[tuple[nir.NIRGraph, str, Shapes | None]]:
    """A graph and all graphs in it, each before those in it."""
    import nir

    pending = [(graph, title, shapes)]
    while pending:
        one, path, known = pending.pop()
        yield one, path, known
        for name, node in sorted(one.nodes.items(), reverse=True):
            if isinstance(node, nir.NIRGraph):
                pending.append(
                    (node, f"{path} / {shown(name)}", known.subgraphs.get(name) if known else None)
                )


def _facts(graph: nir.NIRGraph, shapes: Shapes | None) -> _Facts:
    from nirmap.building import is_stateful
    from nirmap.delays import delayed_edges
    from nirmap.shapes import Shapes

    if shapes is None:
        return _Facts(Shapes({}, {}, {}), tuple(sorted(graph.nodes)), frozenset())
    delays = delayed_edges(graph, lambda name: is_stateful(graph.nodes[name]))
    return _Facts(shapes, delays.order, delays.edges)


def _show_one(graph: nir.NIRGraph, title: str, facts: _Facts, show_all: bool) -> None:
    from nirmap.building import is_stateful

    limit = None if show_all else NAME_LIMIT
    names, rest = limited(facts.order, show_all)
    write(title, style="bold")
    made = table("node", "type", "shape", "state", "parameters")
    for name in names:
        node = graph.nodes[name]
        add_row(
            made,
            shown(name, limit),
            type(node).__name__,
            _shapes(facts.shapes.inputs.get(name), facts.shapes.outputs.get(name)),
            (_state(node), "cyan"),
            "\n".join(_parameters(node, facts.shapes.outputs.get(name))),
        )
    output().print(made)
    hidden(rest, "nodes")
    place = {name: index for index, name in enumerate(facts.order)}
    ordered = sorted(graph.edges, key=lambda edge: (place.get(edge[0], len(place)), edge))
    edges, rest = limited(ordered, show_all)
    for source, target in edges:
        late = "   (one step late)" if (source, target) in facts.late else ""
        write(f"{shown(source, limit)} -> {shown(target, limit)}{late}")
    hidden(rest, "edges")
    stateful = sum(is_stateful(node) for node in graph.nodes.values())
    write(f"{len(graph.nodes):,} nodes, {stateful:,} of them stateful; {len(graph.edges):,} edges")
    entries, rest = limited(sorted(graph.metadata.items(), key=str), show_all, METADATA_LIMIT)
    for key, value in entries:
        write(f"metadata: {shown(str(key), limit)} = {shown(_value(value), limit)}")
    hidden(rest, "entries of metadata")
    write("")


def _shapes(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> str:
    """The shape of a node's output, and of its input where that is another one."""
    shapes = ["?" if shape is None else str(shape) for shape in (before, after)]
    return shapes[0] if shapes[0] == shapes[1] else "\n-> ".join(shapes)


def _state(node: nir.NIRNode) -> str:
    """The state variables of a node; of a sub-graph only whether it has any."""
    import nir

    from nirmap.building import is_stateful
    from nirmap_registry.catalogue import PRIMITIVES

    if isinstance(node, nir.NIRGraph):
        return "inside" if is_stateful(node) else ""
    primitive = PRIMITIVES.get(type(node).__name__)
    return ", ".join(variable.name for variable in primitive.state) if primitive else ""


def _parameters(node: nir.NIRNode, shape: tuple[int, ...] | None) -> list[str]:
    """A line for each parameter of a node whose output has the shape."""
    from nirmap_registry.catalogue import PRIMITIVES

    primitive = PRIMITIVES.get(type(node).__name__)
    names = [parameter.name for parameter in primitive.declared] if primitive else []
    return [f"{name} {summary(getattr(node, name), shape)}" for name in names]


def summary(value: Any, usual: tuple[int, ...] | None = None) -> str:
    """A parameter on one line: its shape, where that is not the usual one, and its values or their range."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.size == 0:
        return shown(str(value))
    if array.dtype.kind in "iu" and array.size <= FEW_ENTRIES:
        return ", ".join(map(str, array.ravel().tolist()))
    shape = "" if array.ndim == 0 or array.shape == usual else f"{array.shape} "
    return shape + _range(array)


def _range(array: np.ndarray[Any, Any]) -> str:
    low, high = array.min(), array.max()
    return f"{low:g}" if low == high else f"{low:.4g} ... {high:.4g}"


def _value(value: object) -> str:
    """An entry of the metadata: a number, a text, or an array."""
    import numpy as np

    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    if isinstance(value, Mapping):
        return f"{len(cast('Mapping[object, object]', value))} entries"
    size = int(getattr(value, "size", 1))
    return summary(value) if isinstance(value, np.ndarray) and size > 1 else f"{value}"

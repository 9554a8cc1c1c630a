"""Commands about networks: ``inspect`` and ``convert``."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import nir

    from nirmap.network import Network
    from nirmap.report import Report
    from nirmap.shapes import Shapes


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(inspect)
    app.command()(convert)


def inspect(file: Annotated[Path, typer.Argument(help="A .nir file.")]) -> None:
    """Show the nodes of a .nir file, their shapes and parameters, the edges, and what is stateful.

    Example: [bold]nirmap inspect model.nir[/bold]
    """
    from nirmap.files import read_graph
    from nirmap.shapes import infer_shapes
    from nirmap.structure import check_structure

    graph = read_graph(file)
    check_structure(graph)
    _show_graph(graph, infer_shapes(graph), str(file))


def _show_graph(graph: nir.NIRGraph, shapes: Shapes, title: str) -> None:
    import nir
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from nirmap_registry.catalogue import PRIMITIVES

    table = Table("node", "type", "input", "output", "state", "parameters", title=Text(title))
    for name, node in sorted(graph.nodes.items()):
        kind = type(node).__name__
        primitive = PRIMITIVES.get(kind)
        state = ", ".join(variable.name for variable in primitive.state) if primitive else ""
        parameters = [
            f"{p.name} {_summary(getattr(node, p.name))}" for p in (primitive.declared if primitive else ())
        ]
        cells = [name, kind, _shape(shapes.inputs.get(name)), _shape(shapes.outputs.get(name)), state]
        table.add_row(*(Text(cell) for cell in cells), Text("\n".join(parameters)))
    console = Console()
    console.print(table)
    console.print(Text("\n".join(f"{source} -> {target}" for source, target in sorted(graph.edges))))
    if graph.metadata:
        console.print(
            Text("metadata: " + ", ".join(f"{key} = {value}" for key, value in graph.metadata.items()))
        )
    for name, node in sorted(graph.nodes.items()):
        if isinstance(node, nir.NIRGraph):
            _show_graph(node, shapes.subgraphs[name], f"{title} / {name}")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "unknown" if shape is None else str(shape)


def _summary(value: Any) -> str:
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.size == 0:
        return str(value)
    low, high = array.min(), array.max()
    numbers = f"{low:g}" if low == high else f"{low:.4g} ... {high:.4g}"
    return f"{array.shape} {numbers}" if array.ndim else numbers


def convert(
    source: Annotated[str, typer.Argument(help="A .nir file, or a Python object: package.module:function.")],
    target: Annotated[
        Path | None, typer.Argument(help="The .nir file to write, for a Python object.")
    ] = None,
    framework: Annotated[str | None, typer.Option(help="Framework of the network.")] = None,
    dt: Annotated[float | None, typer.Option(help="Time step in seconds.")] = None,
    sample: Annotated[str | None, typer.Option(help="Shape of an input, without batch: 1,28,28.")] = None,
) -> None:
    """Rebuild a .nir file with a framework and show the network, or write a Python network to a .nir file.

    Examples: [bold]nirmap convert model.nir --framework norse[/bold], and
    [bold]nirmap convert my_package.models:make_net model.nir --framework snntorch --sample 784[/bold]
    """
    if ":" in source and not Path(source).exists():
        if target is None:
            raise typer.BadParameter("name the .nir file to write, after the Python object")
        _write(source, target, framework, dt, sample)
        return
    if target is not None:
        raise typer.BadParameter(f"{source!r} is read, so no file is written: leave {str(target)!r} out")
    import nirmap

    _show_network(nirmap.from_nir(source, framework or "torch", dt=dt))


def _show_network(net: Network) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    report: Report = net.meta["nirmap"]
    table = Table("node", "NIR", "module", "how", title=Text(f"{report.framework}, dt = {report.dt:g} s"))
    for name, entry in report.nodes.items():
        table.add_row(*(Text(cell) for cell in (name, entry.node, entry.module, entry.how)))
    console = Console()
    console.print(table)
    for edge in report.delayed:
        console.print(Text(f"one step late: {edge[0]} -> {edge[1]}"))
    count = sum(parameter.numel() for parameter in net.parameters())
    console.print(f"{count} trainable parameters", highlight=False)


def _write(source: str, target: Path, framework: str | None, dt: float | None, sample: str | None) -> None:
    import torch

    import nirmap

    made = _load_object(source)
    module = made if isinstance(made, torch.nn.Module) else made()
    if not isinstance(module, torch.nn.Module):
        raise typer.BadParameter(f"{source} gives a {type(module).__name__}; expected a torch.nn.Module")
    shape = None if sample is None else torch.empty(1, *(int(part) for part in sample.split(",")))
    graph = nirmap.to_nir(module, framework, dt=dt, sample=shape, path=target)
    typer.echo(f"{target}: {len(graph.nodes)} nodes, {len(graph.edges)} edges")


def _load_object(path: str) -> Any:
    """The object at ``package.module:name``; the current folder is searched first, as Python does for a script."""
    module, _, name = path.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"{path}: {error}") from error
    finally:
        sys.path.pop(0)
    return value

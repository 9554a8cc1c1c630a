"""The command ``convert``: a ``.nir`` file to a framework's network, or a Python network to a ``.nir`` file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nirmap.cli.inspecting import GRAPH_LIMIT, ShowAll, check_file, show_graph, summary
from nirmap.cli.options import FallbackOption, MethodOption, OverrideTimeStep, ResetOption, SteppedBy
from nirmap.cli.text import (
    NAME_LIMIT,
    add_row,
    help_text,
    hidden,
    limited,
    note,
    output,
    shown,
    status,
    table,
    write,
)
from nirmap.cli.user_code import load_object, run_user_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

    from nirmap.network import Network
    from nirmap.report import NodeReport, Report

HELP = help_text(
    "Rebuild a .nir file, or write a Python network to one.",
    "A .nir file is rebuilt with a framework, and the network shown: which module stands for which node.",
    "A Python object is named as package.module:name; it is a torch.nn.Module, or a function (or class) without "
    "arguments that makes one. It is looked for in the current folder too. Its code is run.",
    examples=(
        "nirmap convert model.nir --framework norse",
        "nirmap convert model.nir --framework snntorch --dt 0.001 --verbose",
        "nirmap convert model.nir --framework norse --fallback torch",
        "nirmap convert model.nir --method exponential",
        "nirmap convert my_models:make_net model.nir --framework snntorch",
        "nirmap convert my_models:make_net model.nir --sample 2,34,34",
    ),
)


def convert(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", show_default=False, help="A .nir file, or package.module:name.")
    ],
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="TARGET.nir", show_default=False, help="The file to write, for a Python object."
        ),
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option("--framework", "-f", metavar="NAME", help="Framework of the network; see: nirmap list."),
    ] = None,
    dt: Annotated[
        float | None,
        typer.Option("--dt", metavar="SECONDS", help="Time step; the framework's default if left out."),
    ] = None,
    sample: Annotated[
        list[str] | None,
        typer.Option(
            "--sample",
            metavar="SHAPE",
            help="Shape of an input without batch, such as 1,28,28; once for each input of a Python network.",
        ),
    ] = None,
    fallback: FallbackOption = None,
    reset: ResetOption = None,
    override_dt: OverrideTimeStep = False,
    method: MethodOption = SteppedBy.forward_euler,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show every parameter, and how each node was converted."),
    ] = False,
    show_all: ShowAll = False,
) -> None:
    """Decides on the direction and converts."""
    is_object = ":" in source and not source.endswith(".nir") and not Path(source).exists()
    if not is_object:
        check_file(Path(source))
        if target is not None:
            raise typer.BadParameter(
                f"{shown(source)} is rebuilt and shown, no file is written", param_hint="TARGET.nir"
            )
        if sample:
            raise typer.BadParameter("it is for a Python network only", param_hint="--sample")
    elif fallback is not None:
        raise typer.BadParameter("it is for a .nir file only", param_hint="--fallback")
    elif override_dt:
        raise typer.BadParameter("it is for a .nir file only", param_hint="--override-dt")
    elif method is not SteppedBy.forward_euler:
        raise typer.BadParameter("it is for a .nir file only", param_hint="--method")
    elif target is None:
        raise typer.BadParameter("name the file to write, after the Python object", param_hint="TARGET.nir")
    elif not target.parent.is_dir():
        raise typer.BadParameter(
            f"there is no folder {shown(str(target.parent), None)}", param_hint="TARGET.nir"
        )
    shapes = [_shape(text) for text in sample or ()]
    _check_framework(framework)
    if target is not None:
        way = {} if reset is None else {"reset": reset.value}
        _write(source, target, framework, dt, shapes, way, verbose=verbose, show_all=show_all)
    else:
        options = {
            "dt": dt,
            "fallback": fallback and fallback.value,
            "reset": reset and reset.value,
            "override_dt": override_dt or None,
            "method": None if method is SteppedBy.forward_euler else method.value,
        }
        given = {name: value for name, value in options.items() if value is not None}
        _rebuild(source, framework or "torch", given, verbose=verbose, show_all=show_all)


def _shape(text: str) -> tuple[int, ...]:
    """``1,28,28`` as a shape."""
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = (-1,)
    if min(shape) < 1:
        raise typer.BadParameter(
            f"{shown(text)}: expected sizes of at least 1 with commas between them, such as 1,28,28",
            param_hint="--sample",
        )
    return shape


def _check_framework(framework: str | None) -> None:
    with status("Importing torch"):
        from nirmap.registry import frameworks

        known = sorted(frameworks())
    if framework is not None and framework not in known:
        raise typer.BadParameter(
            f"{shown(framework)} is not one of {', '.join(known)}", param_hint="--framework"
        )


def _rebuild(
    source: str,
    framework: str,
    options: Mapping[str, Any],
    *,
    verbose: bool,
    show_all: bool,
) -> None:
    """From a file to a network, which is shown."""
    import nirmap

    with status(f"Importing {framework} and rebuilding {source}"):
        net = nirmap.from_nir(source, framework, **options)
    report: Report = net.meta["nirmap"]
    graphs = list(_walk(net, report, source))
    some, rest = limited(graphs, show_all, GRAPH_LIMIT)
    for one, path in some:
        _show_network(one, path, verbose, show_all)
    hidden(rest, "sub-graphs")
    trained = sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)
    write(f"{report.framework}, dt = {report.dt:g} s; {trained:,} trainable parameters")
    arguments = [repr(source), repr(framework), *(f"{name}={value!r}" for name, value in options.items())]
    note(f"In Python: net = nirmap.from_nir({', '.join(arguments)})")


def _changes(entry: NodeReport) -> list[str]:
    """How a node was converted: the reason, and the parameters before and after, where they are others."""
    lines = [f"{entry.how}: {shown(entry.because, None)}"] if entry.because else []
    before = {name: summary(value) for name, value in entry.before.items()}
    after = {name: summary(value) for name, value in entry.after.items()}
    if before != after:
        lines += [f"node {name} = {text}" for name, text in before.items()]
        lines += [f"built from {name} = {text}" for name, text in after.items()]
    return lines


def _walk(net: Network, report: Report, path: str) -> Iterator[tuple[Network, str]]:
    """A network and all networks in it."""
    yield net, path
    for name, inner in report.graphs.items():
        module: Any = net.get_submodule(report.identifiers[name])
        yield from _walk(module, inner, f"{path} / {shown(name)}")


def _show_network(net: Network, title: str, verbose: bool, show_all: bool) -> None:
    report: Report = net.meta["nirmap"]
    limit = None if show_all else NAME_LIMIT
    write(title, style="bold")
    made = table("node", "NIR", "module", "how")
    entries, rest = limited(report.nodes.items(), show_all)
    for name, entry in entries:
        rules = f" by {', '.join(entry.rules)}" if entry.rules else ""
        add_row(made, shown(name, limit), entry.node, entry.module, entry.how + rules)
    output().print(made)
    hidden(rest, "nodes")
    for name, entry in entries if verbose else ():
        lines = _tensors(net.get_submodule(report.identifiers[name]))
        write(f"{shown(name, limit)}: {entry.module}" + ("" if lines else ", without parameters"))
        for line in [*_changes(entry), *lines]:
            write(f"  {line}")
    for label, names in (("inputs", report.inputs), ("outputs", report.outputs)):
        some, rest = limited(names, show_all)
        write(f"{label}: " + ", ".join(shown(name, limit) for name in some))
        hidden(rest, label)
    edges, rest = limited(report.delayed, show_all)
    for before, after in edges:
        write(f"one step late: {shown(before, limit)} -> {shown(after, limit)}")
    hidden(rest, "edges that are one step late")


def _tensors(module: torch.nn.Module) -> list[str]:
    """A line for each parameter and buffer of a node's module; none for a network, which has a table of its own."""
    import torch.fx

    if isinstance(module, torch.fx.GraphModule):
        return []
    named = [*module.named_parameters(), *module.named_buffers()]
    lines: list[str] = []
    for name, value in named:
        if value.numel() == 0:  # where the module hides its last state
            continue
        numbers = value.detach().to("cpu", torch.float64).numpy()
        trained = ", trainable" if value.requires_grad else ""
        lines.append(f"{name} {summary(numbers)}{trained}")
    return lines


def _write(
    source: str,
    target: Path,
    framework: str | None,
    dt: float | None,
    shapes: list[tuple[int, ...]],
    way: Mapping[str, Any],
    *,
    verbose: bool,
    show_all: bool,
) -> None:
    """From a Python object to a file."""
    import torch

    import nirmap

    with status(f"Importing {source}"):
        made = load_object(source)
        if not isinstance(made, torch.nn.Module):
            if not callable(made):
                raise typer.BadParameter(
                    f"{shown(source, None)} is a {type(made).__name__}; expected a torch.nn.Module, or a function "
                    "that makes one",
                    param_hint="SOURCE",
                )
            made = run_user_code(made, f"calling {source}")
    if not isinstance(made, torch.nn.Module):
        raise typer.BadParameter(
            f"{shown(source, None)} makes a {type(made).__name__}; expected a torch.nn.Module",
            param_hint="SOURCE",
        )
    module: torch.nn.Module = made
    samples = tuple(torch.empty(1, *shape) for shape in shapes) or None
    with status(f"Importing {framework or 'torch'} and writing {target}"):
        graph = run_user_code(
            lambda: nirmap.to_nir(module, framework, dt=dt, sample=samples, path=target, **way),
            f"tracing {source}",
        )
    if verbose:
        show_graph(graph, str(target), show_all)
    write(
        f"{target}: {len(graph.nodes):,} nodes, {len(graph.edges):,} edges, dt = {graph.metadata['dt']:g} s"
    )
    note(f"To see what is in it: nirmap inspect {target}")

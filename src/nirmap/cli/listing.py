"""The command ``list``: which frameworks are known, whether they are installed, and what they have."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from nirmap.cli.text import add_row, help_text, output, shown, status, table, write

if TYPE_CHECKING:
    from collections.abc import Iterable

HELP = help_text(
    "List the known frameworks: installed or not, nodes, modules.",
    "An installed framework is imported, and its table is held against its classes. Frameworks that other packages "
    "register (entry point group nirmap.frameworks) are listed too.",
    examples=("nirmap list", "nirmap list norse", "nirmap list --modules", "nirmap list --format json"),
)


class Format(str, enum.Enum):
    """How the list is written."""

    table = "table"
    json = "json"


@dataclass
class Module:
    """One class of a framework.

    Attributes:
        path: the class.
        stateful: whether it keeps state.
        nodes: the primitives that it stands for.
        graphs: the small graphs that it is, depending on its settings: their nodes, by name.
    """

    path: str
    stateful: bool
    nodes: list[str] = field(default_factory=list[str])
    graphs: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@dataclass
class Entry:
    """One framework.

    Attributes:
        framework: its name.
        distribution: what pip installs.
        versions: the versions that its table holds for.
        installed: the installed version, or None.
        usable: whether its registry loads and fits the installed classes.
        problem: why it is not usable.
        time_step: the default dt in seconds.
        nodes: the primitives that have a module.
        modules: the leaf modules, the stateful ones among them marked.
        not_mapped: the primitives that have none, with the reason.
        refused: the modules that NIR cannot express, however they are set, with the reason.
    """

    framework: str
    distribution: str = ""
    versions: str = ""
    installed: str | None = None
    usable: bool = False
    problem: str = ""
    time_step: float | None = None
    nodes: list[str] = field(default_factory=list[str])
    modules: list[Module] = field(default_factory=list[Module])
    not_mapped: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, str] = field(default_factory=dict[str, str])

    def add_graph(self, path: str, name: str, nodes: list[str], stateful: bool) -> None:
        """Adds a small graph that a module is."""
        module = next((entry for entry in self.modules if entry.path == path), None)
        if module is None:
            module = Module(path, stateful)
            self.modules = sorted([*self.modules, module], key=lambda entry: entry.path)
        module.graphs[name] = nodes
        module.stateful = module.stateful or stateful


def list_frameworks(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="FRAMEWORK", show_default=False, help="Show the modules of these only."),
    ] = None,
    modules: Annotated[
        bool, typer.Option("--modules", "-m", help="Show the modules of all frameworks.")
    ] = False,
    show: Annotated[Format, typer.Option("--format", help="How the list is written.")] = Format.table,
) -> None:
    """Collects the entries and shows them."""
    with status("Importing torch"):
        from nirmap.registry import frameworks

        known = frameworks()
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(
                f"{shown(name)} is not one of {', '.join(sorted(known))}", param_hint="FRAMEWORK"
            )
    entries = _entries(sorted(set(names)) if names else sorted(known))
    if show is Format.json:
        typer.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
        return
    _show_overview(entries)
    if names or modules:
        for entry in entries:
            _show_modules(entry)
    else:
        write("Modules, and which of them are stateful: nirmap list --modules", style="dim")


def _entries(names: list[str]) -> list[Entry]:
    """What the declarations say of each framework, and, where it is installed, whether that is so."""
    from nirmap.errors import NirmapError
    from nirmap.registry import load_registry

    declared = _declared()
    entries: list[Entry] = []
    for name in names:
        entry = declared.get(name, Entry(name))
        if name not in declared or entry.installed is not None:
            try:
                with status(f"Importing {name}"):
                    registry = load_registry(name)
            except NirmapError as error:
                entry.problem = f"{error.where}: {error.found}"
            else:
                rows = [(row.node, row.path, row.state is not None) for row in registry.rows]
                entry = _entry(name, registry.distribution, registry.versions, registry.time_step, rows)
                entry.not_mapped = dict(registry.not_mapped)
                for graph in registry.graphs:
                    if graph.graph is None:
                        entry.refused[graph.path] = graph.not_read
                    else:
                        nodes = [node for _, node in graph.graph.nodes]
                        entry.add_graph(graph.path, graph.graph.name, nodes, graph.state is not None)
                entry.usable = True
        elif not entry.problem:
            entry.problem = f"{entry.distribution} is not installed"
        entries.append(entry)
    return entries


def _declared() -> dict[str, Entry]:
    """The frameworks of nirmap's own declarations, for which none of them has to be installed."""
    from nirmap.cli.places import mappings_folder
    from nirmap_generator.pipeline import read

    every = {framework.name: framework for framework in read(mappings_folder()).frameworks}
    entries: dict[str, Entry] = {}
    for name, framework in every.items():
        if framework.time_step is None:
            continue
        sources = [framework, *(every[include] for include in framework.includes)]
        rows = [(row.node, row.module, row.state is not None) for source in sources for row in source.rows]
        entries[name] = _entry(name, framework.distribution, framework.versions, framework.time_step, rows)
        entries[name].not_mapped = dict(framework.not_mapped)
        for row in (graph for source in sources for graph in source.graphs):
            if row.graph is None:
                entries[name].refused[row.module] = row.not_read
            else:
                nodes = [member.node for member in row.graph.members]
                entries[name].add_graph(row.module, row.graph.name, nodes, row.state is not None)
    return entries


def _entry(
    name: str,
    distribution: str,
    versions: str,
    time_step: float | None,
    rows: Iterable[tuple[str, str, bool]],
) -> Entry:
    """An entry from its rows: node, path of the module, whether that is stateful."""
    from importlib.metadata import PackageNotFoundError, version

    from nirmap_registry.catalogue import PRIMITIVES

    modules: dict[str, Module] = {}
    for node, path, stateful in rows:
        module = modules.setdefault(path, Module(path, stateful))
        module.nodes = sorted({*module.nodes, node}, key=list(PRIMITIVES).index)
        module.stateful = module.stateful or stateful
    nodes = {node for module in modules.values() for node in module.nodes}
    try:
        installed = version(distribution)
    except PackageNotFoundError:
        installed = None
    return Entry(
        name,
        distribution,
        versions,
        installed,
        time_step=time_step,
        nodes=[node for node in PRIMITIVES if node in nodes],
        modules=[modules[path] for path in sorted(modules)],
    )


def _show_overview(entries: list[Entry]) -> None:
    made = table("framework", "installed", "mappings for", "default dt", "NIR nodes", "modules (stateful)")
    for entry in entries:
        stateful = sum(module.stateful for module in entry.modules)
        add_row(
            made,
            (entry.framework, "bold"),
            _installed(entry),
            entry.versions,
            "" if entry.time_step is None else f"{entry.time_step:g} s",
            str(len(entry.nodes)),
            f"{len(entry.modules)} ({stateful})",
        )
    output().print(made)
    for entry in entries:
        if entry.installed is None and entry.distribution:
            write(f"{entry.framework}: {entry.problem}. {_how_to_install(entry)}")
        elif entry.problem:
            version = f" {entry.installed}" if entry.installed else ""
            write(f"{entry.framework}{version} is not usable: {entry.problem}")


def _installed(entry: Entry) -> tuple[str, str]:
    if entry.usable:
        return entry.installed or "yes", "green"
    return ("no", "yellow") if entry.installed is None else ("not usable", "red")


def _how_to_install(entry: Entry) -> str:
    """What makes an absent framework usable. sinabs asks for an old nir and needs only a part of what it asks for."""
    if entry.framework == "sinabs":
        return "pip install --no-deps sinabs pbr"
    return f"pip install '{entry.distribution}{entry.versions}'"


def _show_modules(entry: Entry) -> None:
    write(f"{entry.framework}: leaf modules", style="bold")
    made = table("module", "NIR nodes", "")
    for module in entry.modules:
        graphs = dict.fromkeys(" + ".join(nodes) for nodes in module.graphs.values())
        stands_for = ", ".join([*module.nodes, *graphs])
        add_row(made, module.path, stands_for, ("stateful" if module.stateful else "", "cyan"))
    output().print(made)
    for node, reason in entry.not_mapped.items():
        write(f"no module for {node}: {reason}")
    for path, reason in entry.refused.items():
        write(f"{path} is refused: {reason}")

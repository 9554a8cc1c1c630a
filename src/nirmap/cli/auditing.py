"""The command ``audit``: what each framework can express, executed; or which frameworks can run a graph."""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nirmap.cli.audit_text import show_audit, show_graph_audit
from nirmap.cli.inspecting import check_file
from nirmap.cli.options import OverrideTimeStep, ResetOption, ResetTo
from nirmap.cli.places import generated_folder, is_source_tree
from nirmap.cli.text import help_text, messages, note, shown, status, write

if TYPE_CHECKING:
    from nirmap.audit.cells import Audit
    from nirmap.audit.workers import Progress

COVERAGE = "COVERAGE.md"
HELP = help_text(
    "Execute every mapping and show what each framework can express.",
    "Each NIR primitive is drawn, built in each framework, stepped, and held against a simulation in NumPy that shares "
    "no code with the mappings; modules are written to NIR in the same way. A mapping that is declared and wrong is "
    "shown in red. Each framework runs in a process of its own.",
    "With a .nir file: which frameworks can run this graph, and for each that cannot, every node in its way, why, and "
    "what would help.",
    "Exit code 1: a cell is wrong, --fail-under or --diff is not met, or a framework named with --framework did not "
    "run, or cannot run the graph.",
    examples=(
        "nirmap audit",
        "nirmap audit --framework snntorch --reasons",
        "nirmap audit --format html --output coverage.html",
        "nirmap audit --diff last_week.json --fail-under 90",
        "nirmap audit model.nir",
        "nirmap audit model.nir --reset subtract --json",
    ),
)


class Format(str, enum.Enum):
    """How the audit is written."""

    table = "table"
    markdown = "markdown"
    json = "json"
    html = "html"


def audit(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.nir", show_default=False, help="A graph: which frameworks can run it?"),
    ] = None,
    framework: Annotated[
        list[str] | None,
        typer.Option(
            "--framework", "-f", metavar="NAME", help="Only this framework; can be given repeatedly."
        ),
    ] = None,
    show: Annotated[Format, typer.Option("--format", help="How the audit is written.")] = Format.table,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    target: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file, not to the terminal."),
    ] = None,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Show every condition, with its reason.")
    ] = False,
    dt: Annotated[
        float | None,
        typer.Option("--dt", metavar="SECONDS", help="Time step for a graph; as in convert if left out."),
    ] = None,
    reset: ResetOption = None,
    override_dt: OverrideTimeStep = False,
    fail_under: Annotated[
        float | None,
        typer.Option(
            "--fail-under", metavar="PERCENT", min=0, max=100, help="Exit code 1 if less of it is covered."
        ),
    ] = None,
    diff: Annotated[
        Path | None,
        typer.Option(
            "--diff", metavar="OLD.json", help="Exit code 1 if a cell of this audit is lost or worse."
        ),
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--write", help=f"Bring generated/{COVERAGE} up to date (in a source tree).")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help=f"Exit code 1 if generated/{COVERAGE} is not up to date.")
    ] = False,
) -> None:
    """Decides between the audit of everything and that of a graph."""
    show = Format.json if as_json else show
    _check_names(framework)
    if target is not None and not target.parent.is_dir():
        raise typer.BadParameter(
            f"there is no folder {shown(str(target.parent), None)}", param_hint="--output"
        )
    if file is not None:
        of_everything = {
            "--fail-under": fail_under is not None,
            "--diff": diff is not None,
            "--write": refresh,
            "--check": check,
            "--reasons": reasons,
        }
        _refuse(of_everything, "it is not for a graph")
        _audit_graph(file, framework, show, target, dt, reset, override_dt)
        return
    of_a_graph = {"--dt": dt is not None, "--reset": reset is not None, "--override-dt": override_dt}
    _refuse(of_a_graph, "it is for a graph only")
    if refresh or check:
        _check_refresh(framework)
    _audit_everything(framework, show, target, reasons, fail_under, diff, refresh, check)


def _refuse(options: Mapping[str, bool], because: str) -> None:
    """Refuses the first option that was given."""
    for option, is_given in options.items():
        if is_given:
            raise typer.BadParameter(because, param_hint=option)


def _check_names(framework: list[str] | None) -> None:
    with status("Looking for frameworks"):
        from nirmap.registry import frameworks

        known = sorted(frameworks())
    for name in framework or ():
        if name not in known:
            raise typer.BadParameter(
                f"{shown(name)} is not one of {', '.join(known)}", param_hint="--framework"
            )


def _check_refresh(framework: list[str] | None) -> None:
    if framework:
        raise typer.BadParameter(f"{COVERAGE} has every framework", param_hint="--framework")
    if not is_source_tree():
        raise typer.BadParameter("it is for the source tree of nirmap", param_hint="--write, --check")


@contextlib.contextmanager
def _progress(what: str) -> Generator[Progress]:
    """A bar for each framework on a terminal; nothing elsewhere."""
    import sys

    if not sys.stderr.isatty():
        yield lambda name, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=messages(), transient=True) as bars:
        tasks: dict[str, object] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(f"{what} {shown(name)}", total=total)
            bars.update(tasks[name], completed=done, total=total)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

        yield report


def _audit_everything(
    framework: list[str] | None,
    show: Format,
    target: Path | None,
    reasons: bool,
    fail_under: float | None,
    diff: Path | None,
    refresh: bool,
    check: bool,
) -> None:
    from nirmap.audit.changes import losses
    from nirmap.audit.running import run_audit

    old = _read(diff) if diff is not None else None
    with _progress("executing") as progress:
        result = run_audit(framework, progress)
    if show is Format.table and target is None:
        show_audit(result, reasons)
    else:
        _emit(_text(result, show), target)
    failures = [
        f"{column.framework} {cell.row} {cell.direction} is wrong: {'; '.join(cell.because)}"
        for column, cell in result.wrong()
    ]
    failures += [
        f"{column.framework} is {column.state}: {column.problem}"
        for column in result.columns
        if column.state != "ran" and (framework or refresh or check)
    ]
    failures += [f"worse than in {diff}: {line}" for line in (losses(old, result) if old else ())]
    if fail_under is not None and result.percent() < fail_under:
        failures.append(f"{result.percent():.1f} % of the primitives are covered, asked for {fail_under:g} %")
    if (refresh or check) and not failures:
        failures += _coverage_page(result, check)
    for failure in failures:
        note(failure)
    if failures:
        raise typer.Exit(1)


def _read(path: Path) -> Audit:
    from nirmap.audit.cells import audit_from_json
    from nirmap.audit.documents import AUDIT_SCHEMA, read_document

    if not path.is_file():
        raise typer.BadParameter(f"there is no file {shown(str(path), None)}", param_hint="--diff")
    return audit_from_json(read_document(path, AUDIT_SCHEMA))


def _coverage_page(result: Audit, check: bool) -> list[str]:
    """Writes the committed page, or compares it; what is stale."""
    from nirmap.audit.markdown import as_markdown
    from nirmap_generator.write import compare_files, write_files

    files = {COVERAGE: as_markdown(result)}
    if check:
        differences = compare_files(generated_folder(), files, lambda name: False)
        for difference in differences:
            for line in difference.splitlines():
                write(line)
        return (
            [f"generated/{COVERAGE} is stale: nirmap audit --write brings it up to date"]
            if differences
            else []
        )
    for name in write_files(generated_folder(), files, owned=lambda name: False).written:
        note(f"written   {name}")
    return []


def _text(result: Audit, show: Format) -> str:
    if show is Format.json:
        return json.dumps(result.to_json(), indent=1) + "\n"
    if show is Format.html:
        from nirmap.audit.page import as_html

        return as_html(result)
    from nirmap.audit.markdown import as_markdown

    return as_markdown(result)


def _emit(text: str, target: Path | None, what: Callable[[], None] | None = None) -> None:
    """To a file, whole or not at all, or to the terminal."""
    if target is None:
        typer.echo(text, nl=False)
        return
    from nirmap_generator.write import write_files

    write_files(target.parent, {target.name: text}, owned=lambda name: False)
    note(f"written   {target}")


def _audit_graph(
    file: Path,
    framework: list[str] | None,
    show: Format,
    target: Path | None,
    dt: float | None,
    reset: ResetTo | None,
    override_dt: bool,
) -> None:
    if show not in (Format.table, Format.json):
        raise typer.BadParameter("of a graph, there is a table or JSON", param_hint="--format")
    check_file(file)
    from nirmap.audit.graphs import as_json, audit_graph

    with _progress("asking") as progress:
        answers = audit_graph(
            file, framework, dt, progress, reset=reset.value if reset else None, override_dt=override_dt
        )
    if show is Format.json:
        _emit(json.dumps(as_json(file, answers), indent=1) + "\n", target)
    elif target is not None:
        raise typer.BadParameter("the table is for the terminal; add --json", param_hint="--output")
    else:
        show_graph_audit(file, answers)
    unable = [answer.framework for answer in answers if answer.state != "runs"]
    if framework and unable:
        note(f"not able to run {file}: {', '.join(unable)}")
        raise typer.Exit(1)

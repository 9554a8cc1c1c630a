"""The commands together, and what happens when one of them is refused."""

from __future__ import annotations

import errno
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nirmap.cli import auditing, comparing, converting, creating, declarations, inspecting, listing
from nirmap.cli.options import as_options
from nirmap.cli.text import help_text, show_refusal, show_warning
from nirmap.errors import NirmapError
from nirmap_generator.problems import DeclarationError

HELP = help_text(
    "Spiking networks between PyTorch frameworks and NIR, from one declared table.",
    "Exit codes: 0 done, 1 refused (with the reason), 2 called in a wrong way.",
    examples=(
        "nirmap inspect model.nir",
        "nirmap convert model.nir --framework norse",
        "nirmap convert my_models:make_net model.nir --framework snntorch",
    ),
)


class Commands(TyperGroup):
    """Ends a command that is refused with its reason and exit code 1, and without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        with warnings.catch_warnings():
            # norse compiles its functions with torch.jit.script when it is imported; its users cannot change that.
            warnings.filterwarnings("ignore", "`torch.jit.script", FutureWarning)
            warnings.filterwarnings("always", category=UserWarning)
            warnings.showwarning = show_warning
            try:
                return super().invoke(ctx)
            except NirmapError as error:
                parts = (("found", error.found), ("expected", error.expected), ("do", as_options(error.do)))
                show_refusal(error.where, parts)
                raise typer.Exit(1) from error
            except DeclarationError as error:
                for problem in error.problems:
                    show_refusal(str(problem))
                raise typer.Exit(1) from error
            except OSError as error:
                if error.errno == errno.EPIPE:  # the reader of a pipe has seen enough
                    raise
                name = error.filename
                found = error.strerror or str(error)
                show_refusal(str(name) if name else "operating system", (("found", found),))
                raise typer.Exit(1) from error


app = typer.Typer(
    name="nirmap",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from nirmap.cli.places import nirmap_version

        typer.echo(f"nirmap {nirmap_version()}")
        raise typer.Exit


@app.callback(help=HELP)
def everything(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """What stands before the name of a command."""


app.command("inspect", help=inspecting.HELP)(inspecting.inspect)
app.command("convert", help=converting.HELP)(converting.convert)
app.command("compare", help=comparing.HELP)(comparing.compare)
app.command("list", help=listing.HELP)(listing.list_frameworks)
app.command("audit", help=auditing.HELP)(auditing.audit)
app.add_typer(creating.app, name="new")
app.command("generate", help=declarations.GENERATE_HELP)(declarations.generate)
app.command("check", help=declarations.CHECK_HELP)(declarations.check)

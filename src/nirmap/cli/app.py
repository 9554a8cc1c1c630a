"""The commands, and what they share."""

from __future__ import annotations

import typer

from nirmap.cli import mappings, networks

app = typer.Typer(
    name="nirmap",
    help="Spiking networks between PyTorch frameworks and NIR, from one declared table.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
mappings.add_to(app)
networks.add_to(app)

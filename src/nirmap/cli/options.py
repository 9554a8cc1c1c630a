"""Options that several commands have, and how the messages of the library name them."""

from __future__ import annotations

import enum
import re
from typing import Annotated

import typer


class Fallback(str, enum.Enum):
    """Whose modules serve where a framework has none."""

    torch = "torch"


class ResetTo(str, enum.Enum):
    """What a spike does to the membrane potential."""

    to_value = "value"
    by_subtraction = "subtract"


class SteppedBy(str, enum.Enum):
    """How the equations of neurons become steps."""

    forward_euler = "forward_euler"
    exponential = "exponential"


FallbackOption = Annotated[
    Fallback | None,
    typer.Option(
        "--fallback", help="Take the built-in module for every node that the framework cannot express."
    ),
]
ResetOption = Annotated[
    ResetTo | None,
    typer.Option(
        "--reset",
        help="What a spike does: set the potential to v_reset, as NIR says, or subtract v_threshold - v_reset from it; "
        "what the graph's metadata say if left out.",
    ),
]
MethodOption = Annotated[
    SteppedBy,
    typer.Option(
        "--method",
        help="How equations become steps: exponential is exact between spikes, for an input held during a step; "
        "the framework torch has it.",
    ),
]
OverrideTimeStep = Annotated[
    bool,
    typer.Option(
        "--override-dt", help="Insist on --dt although the graph was written for another time step."
    ),
]


def as_options(text: str) -> str:
    """A message that names arguments of Python, with the options of the command line in their place."""
    text = text.replace("override_dt=True", "--override-dt")
    text = re.sub(r"\b(fallback|reset|framework|method)='(\w+)'", r"--\1 \2", text)
    return re.sub(r"\bdt=([\d.e-]+)", r"--dt \1", text)

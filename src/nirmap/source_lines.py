"""The lines of a user's source that a call or an error comes from."""

from __future__ import annotations

import functools
from pathlib import Path
from types import CodeType, FrameType

import torch

_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<eval_with_key")


def line_of_call(frame: FrameType | None, outermost: CodeType) -> str:
    """``file:line`` of the innermost frame outside of torch and nirmap, inside of the outermost; empty for none."""
    while frame is not None and frame.f_code is not outermost:
        file = _users_file(frame.f_code.co_filename)
        if file is not None:
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def line_of_error(error: Exception, outermost: CodeType) -> str:
    """``file:line`` of the innermost frame outside of torch and nirmap that an error passed; empty for none."""
    line, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        file = _users_file(code.co_filename)
        if code is outermost:
            line = ""
        elif file is not None:
            line = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


@functools.cache
def _users_file(filename: str) -> str | None:
    """The name of a file without its folder; None for a file of torch or nirmap."""
    return None if filename.startswith(_NOT_THE_USERS) else Path(filename).name

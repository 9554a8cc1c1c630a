"""The lines of a user's source that a call or an error comes from."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, FrameType

import torch

_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<eval_with_key")


def line_of_call(frame: FrameType | None, outermost: CodeType) -> str:
    """``file:line`` of the innermost frame outside of torch and nirmap, inside of the outermost; empty for none."""
    while frame is not None and frame.f_code is not outermost:
        if _is_the_users(frame.f_code):
            return _place(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return ""


def line_of_error(error: Exception, outermost: CodeType) -> str:
    """``file:line`` of the innermost frame outside of torch and nirmap that an error passed; empty for none."""
    line, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code is outermost:
            line = ""
        elif _is_the_users(code):
            line = _place(code, trace.tb_lineno)
        trace = trace.tb_next
    return line


def _is_the_users(code: CodeType) -> bool:
    return not code.co_filename.startswith(_NOT_THE_USERS)


def _place(code: CodeType, line: int | None) -> str:
    return f"{Path(code.co_filename).name}:{line}"

"""Python's search for garbage, which large networks would set off over and over."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collecting_later() -> Generator[None]:
    """Puts off the search for garbage cycles: everything that is made stays, and is else searched over and over."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

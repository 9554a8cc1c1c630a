"""What runs in a process of its own, in `test_workers`; it imports nothing large."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any


def task(name: str, progress: Callable[[int, int], None]) -> Any:
    if name == "sleeps":
        time.sleep(600)
    if name == "raises":
        raise ValueError("no good")
    sys.stdout.write("this is no part of the result\n")
    progress(1, 2)
    return name, os.environ["OMP_NUM_THREADS"]

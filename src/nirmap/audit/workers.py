"""One process for each framework: one that is broken, or ends its process, leaves the others alone.

A pool would not do: the death of one of its processes breaks the whole pool.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Called in the process with a name and a function that reports how much is done.
Task = Callable[[str, Callable[[int, int], None]], Any]
# Called in this process with a name, how much is done, and of how much.
Progress = Callable[[str, int, int], None]

SILENCE = 300.0
"""Seconds without any sign of life after which a process is ended."""


@dataclass(frozen=True)
class Died:
    """A process that ended, or had to be ended, without a result.

    Attributes:
        reason: how.
    """

    reason: str


def in_processes(
    task: Task, names: Iterable[str], progress: Progress, *, jobs: int | None = None, silence: float = SILENCE
) -> Mapping[str, Any]:
    """Calls a function for each name, each in a new process.

    Args:
        task: a function of a module, which can be imported; what it returns can be pickled.
        names: its arguments.
        progress: called, from several threads, whenever a process reports.
        jobs: how many processes run at a time; None for the number of processors.
        silence: seconds after which a process that reports nothing is ended.

    Returns:
        For each name the result, or a :class:`Died`. The order is that of the names.
    """
    wanted = list(names)
    with ThreadPoolExecutor(max_workers=max(1, jobs or os.cpu_count() or 1)) as threads:
        results = threads.map(partial(_in_process, task, progress, silence), wanted)
        return dict(zip(wanted, results, strict=True))


def _in_process(task: Task, progress: Progress, silence: float, name: str) -> Any:
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="nirmap") as folder:
        log = Path(folder) / "messages"
        process = context.Process(target=_serve, args=(sender, task, name, str(log)), daemon=True)
        process.start()
        sender.close()
        try:
            while True:
                if not receiver.poll(silence):
                    return Died(f"no answer for {silence:g} s")
                kind, content = receiver.recv()
                if kind == "result":
                    return content
                progress(name, *content)
        except EOFError:
            process.join(10)
            return Died(f"its process ended with {_exit(process.exitcode)}{_last_line(log)}")
        finally:
            process.kill()
            process.join()
            receiver.close()


def _context() -> Any:
    """How processes are started: as copies of one that has imported torch, and no framework; else from nothing.

    A copy of this process could have locks that nobody opens, and modules that should be imported anew.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.fx", "nir"])
    return context


def _serve(sender: Connection, task: Task, name: str, log: str) -> None:
    """What runs in the process. What frameworks print is no part of the result."""
    messages = os.open(log, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(messages, stream)
    # Each process has a processor of its own; the variables are for what is imported from now on.
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    result = task(name, lambda done, total: sender.send(("progress", (done, total))))
    sender.send(("result", result))
    sender.close()
    sys.stdout.flush()


def _exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit code {code}"


def _last_line(log: Path) -> str:
    """The last thing that was printed, such as the message of an exception."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return f" ({lines[-1].strip()[:200]})" if lines else ""

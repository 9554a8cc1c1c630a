"""The audit of several frameworks, each in a process of its own."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version

from nirmap.audit.cells import Audit, Column
from nirmap.audit.workers import Died, Progress, in_processes


def run_audit(
    frameworks: Iterable[str] | None = None, progress: Progress | None = None, *, jobs: int | None = None
) -> Audit:
    """Executes every row in every framework.

    Args:
        frameworks: their names; None for all that are known.
        progress: called, from several threads, with a framework, the rows that are done, and their total.
        jobs: how many processes run at a time; None for the number of processors.
    """
    from nirmap.registry import frameworks as known

    wanted = sorted(known()) if frameworks is None else list(frameworks)
    results = in_processes(_execute, wanted, progress or _unheard, jobs=jobs)
    columns = [
        Column(name, "broken", result.reason) if isinstance(result, Died) else result
        for name, result in results.items()
    ]
    return assembled(columns)


def assembled(columns: Iterable[Column]) -> Audit:
    """The audit of some columns."""
    from nirmap.audit.drawing import SUBTRACTING
    from nirmap.audit.networks import NETWORKS
    from nirmap_registry.catalogue import PRIMITIVES

    versions = {name: _version(name) for name in ("nirmap", "nir", "torch", "numpy")}
    versions["python"] = platform.python_version()
    return Audit(versions, tuple(PRIMITIVES), tuple(SUBTRACTING), NETWORKS, tuple(columns))


def _execute(framework: str, progress: Callable[[int, int], None]) -> Column:
    """Runs in the process of a framework, where torch is imported only now."""
    from nirmap.audit.executing import execute

    return execute(framework, progress)


def _unheard(name: str, done: int, total: int) -> None:
    """Nobody asked for the progress."""


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""

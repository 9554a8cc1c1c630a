"""What importing nirmap adds to importing torch and nir, and how long generating all tables takes.

Each figure is the shortest of some runs in processes of their own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[1]
RUNS = 5
IMPORT = """
import time, torch, nir
start = time.perf_counter()
import nirmap
imported = time.perf_counter() - start
nirmap.from_nir, nirmap.to_nir, nirmap.run
print(imported, time.perf_counter() - start)
"""


def imported() -> tuple[float, float]:
    """Time that importing nirmap adds to torch and nir, and the same with its functions used, in s."""
    command = [sys.executable, "-c", IMPORT]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(RUNS)
    ]
    return min(float(first) for first, _ in runs), min(float(second) for _, second in runs)


def generated(cold: bool) -> float:
    """Time of generating all tables, the start of Python included, in s."""
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "mappings", Path(folder) / "mappings")
        program = (
            "from pathlib import Path; from nirmap_generator.pipeline import generate; "
            f"generate(Path({folder!r}) / 'mappings', Path({folder!r}) / 'generated')"
        )
        for _ in range(RUNS):
            if cold:
                shutil.rmtree(Path(folder) / ".nirmap_cache", ignore_errors=True)
                shutil.rmtree(Path(folder) / "generated", ignore_errors=True)
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            times.append(time.perf_counter() - start)
    return min(times[1:])


def main() -> None:
    """Prints the figures."""
    console = Console()
    alone, used = imported()
    console.print(
        f"import nirmap adds {alone * 1e3:.0f} ms to torch and nir, {used * 1e3:.0f} ms with its functions"
    )
    console.print(f"generating all tables, proofs included: {generated(cold=True):.2f} s")
    console.print(f"generating all tables, no YAML changed: {generated(cold=False):.2f} s")


if __name__ == "__main__":
    main()

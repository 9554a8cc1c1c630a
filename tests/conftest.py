"""What all tests share: the option ``--fail-on-skip``, the folder of recorded data, the settings of hypothesis.

A skipped test is easily taken for a passed one. With ``--fail-on-skip`` (``make test`` and the CI give it) a skip is a
failure, and so is a test that is marked as an expected failure but not run. Two reasons are accepted, as long as they
are true. The recorded data is not part of the project, so a test whose reason names the "nir_paper folder" may be
skipped. A test whose reason names the "chromium browser" may be skipped as well, but not in the CI, which sets
NIRMAP_BROWSER. The hooks below change the report where it is made, which under pytest-xdist is in the worker; the
report then travels, is counted and is shown as any failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

_NIR_PAPER = Path(__file__).parents[2] / "shared" / "nir_paper"
_RECORDED = "nir_paper folder"
_BROWSER = "chromium browser"

# How long an example takes depends on the machine and on what else it does; nothing may fail because of that.
hypothesis.settings.register_profile(
    "nirmap",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.load_profile("nirmap")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fail-on-skip",
        action="store_true",
        help=f"a skipped test fails, unless its reason names the {_RECORDED!r} or the {_BROWSER!r}, and that is absent",
    )


@pytest.fixture(scope="session")
def nir_paper() -> Path:
    """The folder with the graphs and recorded traces of the NIR paper; skips the test where it is absent."""
    if not _NIR_PAPER.is_dir():
        pytest.skip(f"the {_RECORDED} is absent: {_NIR_PAPER}")
    return _NIR_PAPER


def has_browser() -> bool:
    """Whether Debian's chromium and its driver are there."""
    return all(shutil.which(program) for program in ("chromium", "chromedriver"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless chromium, driven by selenium; skips the test where there is none."""
    if not has_browser():
        pytest.skip(f"the {_BROWSER} is absent: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    # What it would otherwise ask the network for, at every start.
    quiet = ("background-networking", "component-update", "sync", "quic", "gpu", "dev-shm-usage")
    folder = tmp_path_factory.mktemp("chromium")
    switches = ["headless", "no-sandbox", "no-first-run", *(f"disable-{name}" for name in quiet)]
    for switch in [*switches, f"user-data-dir={folder}", "window-size=1300,1000"]:
        options.add_argument(f"--{switch}")  # pyright: ignore[reportUnknownMemberType]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})  # pyright: ignore[reportUnknownMemberType]
    service = webdriver.ChromeService(executable_path=str(shutil.which("chromedriver")))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.getoption("--fail-on-skip"):
        _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if collector.config.getoption("--fail-on-skip"):
        _fail_if_skipped(report)
    return report


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure, in place, unless its reason is the accepted one."""
    expected_failure: str | None = getattr(report, "wasxfail", None)
    if expected_failure is not None:
        if "[NOTRUN]" in expected_failure:
            vars(report).pop("wasxfail")  # else it is reported as an expected failure all the same
            _fail(report, f"expected to fail, and not run: {expected_failure}")
        return
    if not report.skipped:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not _is_accepted(reason):
        _fail(report, reason)


def _is_accepted(reason: str) -> bool:
    if _BROWSER in reason:
        return not has_browser() and "NIRMAP_BROWSER" not in os.environ
    return _RECORDED in reason and not _NIR_PAPER.is_dir()


def _fail(report: pytest.TestReport | pytest.CollectReport, reason: str) -> None:
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} was skipped, which --fail-on-skip does not allow. {reason}"

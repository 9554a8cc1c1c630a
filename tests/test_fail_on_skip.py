"""If these fail, a test that never ran counts as passed in ``make test``."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

_CONFTEST = Path(__file__).with_name("conftest.py")
_SKIPS = """
import pytest

def test_runs():
    pass

@pytest.mark.skip(reason="by its mark")
def test_marked():
    pass

def test_inside():
    pytest.skip("from inside")

@pytest.mark.xfail(run=False, reason="never run")
def test_not_run():
    pass

@pytest.mark.xfail(reason="a known defect", strict=True)
def test_expected_failure():
    assert False
"""
_RECORDED = """
def test_recorded(nir_paper):
    pass
"""
_IN_BROWSER = """
def test_in_browser(browser):
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of its own that has this project's conftest in its folder ``tests``, as here."""
    tests = pytester.mkdir("checkout") / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(_CONFTEST.read_text())
    return pytester


def _write(project: pytest.Pytester, text: str) -> Path:
    file = project.path / "checkout" / "tests" / "test_it.py"
    file.write_text(text)
    return file


@pytest.mark.parametrize("workers", ["0", "2"])
def test_every_kind_of_skip_fails(project: pytest.Pytester, workers: str) -> None:
    file = _write(project, _SKIPS)
    result = project.runpytest(file, "-n", workers, "--fail-on-skip")
    result.assert_outcomes(passed=1, failed=1, errors=2, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(["*by its mark*", "*from inside*", "*never run*"])


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_skipped_file_fails(project: pytest.Pytester, workers: str) -> None:
    file = _write(project, "import pytest\npytest.skip('the whole file', allow_module_level=True)\n")
    result = project.runpytest(file, "-n", workers, "--fail-on-skip")
    assert result.ret not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    result.stdout.fnmatch_lines(["*the whole file*"])


def test_without_the_option_a_skip_is_a_skip(project: pytest.Pytester) -> None:
    result = project.runpytest(_write(project, _SKIPS))
    result.assert_outcomes(passed=1, skipped=2, xfailed=2)
    assert result.ret == pytest.ExitCode.OK


def test_the_recorded_data_may_be_absent(project: pytest.Pytester) -> None:
    result = project.runpytest(_write(project, _RECORDED), "--fail-on-skip")
    result.assert_outcomes(skipped=1)
    assert result.ret == pytest.ExitCode.OK


def test_its_absence_is_no_excuse_where_it_is_present(project: pytest.Pytester) -> None:
    (project.path / "shared" / "nir_paper").mkdir(parents=True)
    file = _write(project, "import pytest\n\ndef test_it():\n    pytest.skip('the nir_paper folder')\n")
    result = project.runpytest(file, "--fail-on-skip")
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_the_recorded_data_is_used_where_it_is_present(project: pytest.Pytester) -> None:
    (project.path / "shared" / "nir_paper").mkdir(parents=True)
    project.runpytest(_write(project, _RECORDED), "--fail-on-skip").assert_outcomes(passed=1)


def test_a_browser_may_be_absent_but_not_in_the_ci(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("NIRMAP_BROWSER", raising=False)
    file = _write(project, _IN_BROWSER)
    project.runpytest(file, "--fail-on-skip").assert_outcomes(skipped=1)
    monkeypatch.setenv("NIRMAP_BROWSER", "required")
    assert project.runpytest(file, "--fail-on-skip").ret == pytest.ExitCode.TESTS_FAILED

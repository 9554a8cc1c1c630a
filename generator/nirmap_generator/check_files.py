"""Checks that concern a whole file, or several: their names, what they include, and the table of functions."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from nirmap_generator.check import RESERVED, did_you_mean
from nirmap_generator.model import Framework, Function, Place
from nirmap_generator.problems import Problems


def is_shared(framework: Framework) -> bool:
    """Whether the file is one of ``mappings/shared``."""
    return PurePosixPath(framework.document.file).parent.name == "shared"


def check_files(frameworks: Sequence[Framework], shared: Collection[str], problems: Problems) -> None:
    """Names and includes of all framework files.

    Args:
        frameworks: the files that are readable.
        shared: the names of all files in ``mappings/shared``, readable or not.
        problems: where problems are added.
    """
    names: dict[str, str] = {}
    for framework in frameworks:
        place = Place(framework.document, ("framework",))
        first = names.setdefault(framework.name, framework.document.file)
        if first != framework.document.file:
            problems.add(place.problem(f"the name {framework.name!r} again", f"another one than in {first}"))
        _check_name(framework, place, problems)
        _check_kind(framework, shared, problems)


def _check_name(framework: Framework, place: Place, problems: Problems) -> None:
    """The framework is called like its file, and like no other generated module."""
    stem = PurePosixPath(framework.document.file).stem
    if framework.name != stem:
        problems.add(
            place.problem(f"{framework.name!r}", f"{stem!r}, for the file is called like its framework")
        )
    if framework.name == "torch":
        return  # Its module is nirmap_registry.torch, which every registry tells from torch itself.
    if framework.name in RESERVED or keyword.iskeyword(framework.name):
        problems.add(
            place.problem(f"{framework.name!r}", "a name that means nothing else in generated modules")
        )


def _check_kind(framework: Framework, shared: Collection[str], problems: Problems) -> None:
    """A framework has a time step and may include shared files; a shared file does neither."""
    root = Place(framework.document, ())
    if is_shared(framework):
        if framework.time_step is not None:
            do = "a framework of its own belongs into frameworks/"
            problems.add((root / "time_step").problem("a time step", "none in a shared file", do))
        if framework.includes:
            problems.add(
                (root / "includes").problem("includes", "none in a shared file", "write the rows out")
            )
        return
    if framework.time_step is None:
        do = "a file without one belongs into shared/"
        problems.add(root.problem("no time_step", "the default dt of the framework in seconds", do))
    for index, name in enumerate(framework.includes):
        place = root / "includes" / index
        if name not in shared:
            expected = "a file of mappings/shared: " + (", ".join(sorted(shared)) or "there is none")
            problems.add(place.problem(f"{name!r}", expected, did_you_mean(name, shared)))
        elif name in framework.includes[:index]:
            problems.add(place.problem(f"{name!r} again", "each file once"))


def check_functions(functions: Sequence[Function], problems: Problems) -> None:
    """Each function and each method is declared once, and defaults are those of its parameters."""
    seen: set[tuple[str, str]] = set()
    for entry in functions:
        key = ("function", entry.function) if entry.function is not None else ("method", entry.method or "")
        if key in seen:
            problems.add((entry.place / key[0]).problem(f"the {key[0]} {key[1]!r} again", "each one once"))
        seen.add(key)
        for name in entry.defaults:
            if name not in entry.parameters:
                expected = "one of its parameters: " + (", ".join(entry.parameters) or "there is none")
                hint = did_you_mean(name, entry.parameters)
                problems.add((entry.place / "defaults" / name).problem(f"{name!r}", expected, hint))

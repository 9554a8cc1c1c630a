"""Checks that concern a whole file, or several: their names, what they include, and the table of functions."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from nirmap_generator.check import RESERVED, check_names, did_you_mean, module_paths, reading
from nirmap_generator.model import Folded, Framework, Function, Place
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


def check_functions(
    functions: Sequence[Function], frameworks: Sequence[Framework], problems: Problems
) -> None:
    """Each function and each method is declared once, with defaults of its own parameters, and as a whole module."""
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
        _check_module_of(entry, frameworks, problems)


def _check_module_of(entry: Function, frameworks: Sequence[Framework], problems: Problems) -> None:
    """What a function is as a module has every attribute that the mappings read of that module."""
    if (entry.means == "module") is not bool(entry.module):
        found = f"means: {entry.means} " + ("with a module" if entry.module else "without a module")
        problems.add(entry.place.problem(found, "a module for means: module, and for no other"))
    for located in entry.attributes.values():
        check_names(located, entry.parameters, problems)
    needed: set[str] = set()
    for framework in frameworks:
        for row in framework.rows:
            if row.module == entry.module:
                needed |= {path for located in reading(row) for path in module_paths(located)}
        for other in framework.without_node:
            if other.module == entry.module:
                expressions = [constraint.that for constraint in other.reads_only_if]
                expressions += [other.scale, other.shift] if isinstance(other, Folded) else []
                needed |= {path for located in expressions for path in module_paths(located)}
    missing = sorted(needed - {*entry.parameters, *entry.attributes})
    if missing:
        problems.add(
            entry.place.problem(
                f"no attribute {missing[0]!r}, which the mappings read of {entry.module}",
                "a parameter of that name, or an entry under attributes",
            )
        )

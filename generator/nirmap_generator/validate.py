"""Holds a document against a JSON Schema (draft 2020-12), and says in words what does not fit, and where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nirmap_generator.load import DataPath, Document, load
from nirmap_generator.problems import Problem, Problems, shortened, shown_path

if TYPE_CHECKING:
    from jsonschema import ValidationError

_TYPES = {
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
# What a keyword of a schema asks for, in words; {} is the keyword's value.
_LIMITS = {
    "minimum": "a number of at least {}",
    "maximum": "a number of at most {}",
    "exclusiveMinimum": "a number greater than {}",
    "exclusiveMaximum": "a number less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "a string of {} or more characters",
    "maxLength": "a string of {} or fewer characters",
    "minItems": "a list of {} or more entries",
    "maxItems": "a list of {} or fewer entries",
    "minProperties": "a mapping with {} or more keys",
    "maxProperties": "a mapping with {} or fewer keys",
    "format": "a string in the format {}",
}


def load_schema(path: Path | str, *, shown_as: str | None = None) -> Mapping[str, Any]:
    """Read a JSON Schema from a JSON or YAML file, and check that it is one.

    Raises:
        DeclarationError: the file cannot be read (see ``load``), or is not a schema of draft 2020-12.
    """
    from jsonschema import Draft202012Validator

    document = load(path, shown_as=shown_as)
    problems = Problems()
    # What Draft202012Validator.check_schema does, but for all errors and with their positions.
    checker = Draft202012Validator.FORMAT_CHECKER
    _validate(
        document, Draft202012Validator(Draft202012Validator.META_SCHEMA, format_checker=checker), problems
    )
    problems.raise_if_any()
    schema: Mapping[str, Any] = document.data
    return schema


def validate(document: Document, schema: Mapping[str, Any], *, problems: Problems) -> None:
    """Add a problem for everything in the document that does not fit the schema, in the order of the file.

    A problem stands at the value that does not fit; at the key, where the key is not allowed; at the mapping,
    where a key is missing. What is expected is the schema's demand in words, and what to do is the schema's
    description of the value. Where several alternatives are allowed (anyOf, oneOf), the problems are those of
    the alternative that was meant, if the value tells which. A schema's references are never fetched from
    anywhere.

    Args:
        document: what was loaded.
        schema: a schema that ``load_schema`` has checked.
        problems: where problems are added.

    Raises:
        referencing.exceptions.Unresolvable: the schema refers to something outside of itself.
    """
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # A registry that is given explicitly keeps jsonschema from looking for references on the network.
    registry: Registry[Any] = Registry()
    _validate(document, Draft202012Validator(schema, registry=registry), problems)


def _validate(document: Document, validator: Any, problems: Problems) -> None:
    found = {
        problem for error in validator.iter_errors(document.data) for problem in _problems(document, error)
    }
    problems.extend(sorted(found))


def _problems(document: Document, error: ValidationError) -> Iterator[Problem]:
    """What one error of jsonschema says, in our words and with positions."""
    path = tuple(error.absolute_path)
    if error.context:
        yield from _of_alternatives(document, error)
    elif error.validator == "additionalProperties":
        yield from _unexpected_keys(document, error, path)
    elif error.validator == "required":
        descriptions = _mapping(_mapping(error.schema).get("properties"))
        for key in _missing(error):
            do = _description(descriptions.get(key))
            yield _at(document, path, _shown(error.instance), f"key {key!r} (missing)", do)
    elif isinstance(error.instance, str) and isinstance(_at_path(document.data, path), dict):
        # propertyNames hands the key on as the value that does not fit.
        path = (*path, error.instance)
        location = document.key_position(path)
        found, do = f"the key {_shown(error.instance)}", _description(error.schema)
        yield Problem(document.file, *location, shown_path(path), found, _expected(error), do)
    else:
        yield _at(document, path, _shown(error.instance), _expected(error), _advice(error))


def _at(document: Document, path: DataPath, found: str, expected: str, do: str) -> Problem:
    return Problem(document.file, *document.position(path), shown_path(path), found, expected, do)


def _unexpected_keys(document: Document, error: ValidationError, path: DataPath) -> Iterator[Problem]:
    """One problem for each key that the schema does not know, at the key."""
    import re

    schema = _mapping(error.schema)
    allowed = list(_mapping(schema.get("properties")))
    patterns = list(_mapping(schema.get("patternProperties")))
    demands = [_one_of(allowed)] if allowed else []
    demands += [f"a key that matches {pattern}" for pattern in patterns]
    expected = " or ".join(demands) or "no keys"
    for key in _mapping(error.instance):
        if key in allowed or any(re.search(pattern, key) for pattern in patterns):
            continue
        here = (*path, key)
        location = document.key_position(here)
        found, do = f"the key {_shown(key)}", _closest(key, allowed)
        yield Problem(document.file, *location, shown_path(here), found, expected, do)


def _of_alternatives(document: Document, error: ValidationError) -> Iterator[Problem]:
    """The problems of the alternative that was meant; one that names them all where that is not clear."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    meant = [errors for errors in branches.values() if not any(map(_is_of_another_sort, errors))]
    # Of several, the one that fits furthest down was meant, unless all fail at the value itself.
    meant.sort(key=lambda errors: (-_shallowest(errors), len(errors)))
    if len(meant) == 1 or (meant and _shallowest(meant[0]) > 0):
        for inner in meant[0]:
            yield from _problems(document, inner)
        return
    firsts = [errors[0] for errors in meant or branches.values()]
    expected = " or ".join(dict.fromkeys(map(_expected, firsts)))
    do, first = _description(error.schema), firsts[0]
    if any(inner.absolute_path != first.absolute_path for inner in firsts):
        first = error
    yield _at(document, tuple(first.absolute_path), _shown(first.instance), expected, do)


def _is_of_another_sort(error: ValidationError) -> bool:
    """Whether the error says that its alternative is for values of another sort."""
    depth = len(error.relative_path)
    # A constant one level down is the usual way to name the sort of a mapping: {kind: ...}.
    return (error.validator in ("type", "enum") and depth == 0) or (error.validator == "const" and depth <= 1)


def _shallowest(errors: Iterable[ValidationError]) -> int:
    return min(len(error.relative_path) for error in errors)


def _expected(error: ValidationError) -> str:
    """What the violated keyword asks for, in words."""
    keyword, value = str(error.validator), _demand(error)
    if keyword == "type":
        return _types(value)
    if keyword == "enum":
        return _one_of(value)
    if keyword == "const":
        return _shown(value)
    if keyword == "required":
        return "key " + " and ".join(repr(key) for key in _missing(error))
    if keyword == "uniqueItems":
        return "a list without repetitions"
    if keyword == "oneOf" and not error.context:
        return "exactly one of: " + ", ".join(_sketch(schema) for schema in value)
    if keyword == "pattern" and "examples" in _mapping(error.schema):
        *others, last = map(_shown, _mapping(error.schema)["examples"])
        return (
            "a string such as " + ", ".join(others) + f" or {last}" if others else f"a string such as {last}"
        )
    if keyword == "pattern":
        # The end of the text, spelt so that Python allows no line end before it, is shown as people know it.
        return "a string that matches " + str(value).replace(r"(?![\s\S])", "$")
    if keyword in _LIMITS:
        return _LIMITS[keyword].format(value)
    if error.schema is False:
        return "nothing here"
    return f"a value that fits the schema's {keyword}: {_shown(value)}"


def _sketch(schema: Any) -> str:
    """A schema in a few words."""
    parts = _mapping(schema)
    if "title" in parts:
        return str(parts["title"])
    if "required" in parts:
        return "key " + " and ".join(repr(key) for key in parts["required"])
    return _types(parts["type"]) if "type" in parts else _shown(schema)


def _types(value: str | Sequence[str]) -> str:
    names = [value] if isinstance(value, str) else value
    return " or ".join(_TYPES[name] for name in names)


def _demand(error: ValidationError) -> Any:
    """The value of the violated keyword."""
    return error.validator_value


def _missing(error: ValidationError) -> list[str]:
    return [key for key in _demand(error) if key not in _mapping(error.instance)]


def _advice(error: ValidationError) -> str:
    """The closest allowed word, and the schema's description of the value."""
    closest = ""
    if error.validator == "enum" and isinstance(error.instance, str):
        closest = _closest(error.instance, [value for value in _demand(error) if isinstance(value, str)])
    return "; ".join(filter(None, (closest, _description(error.schema))))


def _closest(word: str, words: Sequence[str]) -> str:
    matches = difflib.get_close_matches(word, words, n=1)
    return f"did you mean {matches[0]!r}?" if matches else ""


def _description(schema: Any) -> str:
    return str(_mapping(schema).get("description", ""))


def _mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one: schemas may also be true or false."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _at_path(data: Any, path: DataPath) -> Any:
    for key in path:
        data = data[key]
    return data


def _one_of(values: Sequence[Any]) -> str:
    shown = ", ".join(_shown(value) for value in values)
    return shown if len(values) == 1 else f"one of {shown}"


def _shown(value: Any) -> str:
    """A value in a few words, as YAML would write it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        keys = ", ".join(map(repr, _mapping(value)))
        return shortened(f"a mapping with {keys}") if keys else "an empty mapping"
    if isinstance(value, list):
        entries = cast("Sequence[Any]", value)
        return f"a list of {len(entries)}" if entries else "an empty list"
    return shortened(repr(value))

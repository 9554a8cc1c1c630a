"""JSON documents of the audit, and the schemas that ship with the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nirmap.errors import NirmapError

SCHEMAS = Path(__file__).parent / "schema"
AUDIT_SCHEMA = "audit.schema.json"
GRAPH_SCHEMA = "graph_audit.schema.json"


def load_schema(name: str) -> dict[str, Any]:
    """A JSON Schema (2020-12) of this package."""
    schema: dict[str, Any] = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    return schema


def read_document(path: Path, schema: str) -> Mapping[str, Any]:
    """A JSON document that is valid against a schema.

    Raises:
        NirmapError: it is not JSON, or not such a document.
        OSError: it cannot be read.
    """
    import jsonschema

    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(document, load_schema(schema))
    except (ValueError, RecursionError) as error:
        raise NirmapError(
            str(path), f"not JSON ({error})", "what nirmap audit --format json writes"
        ) from error
    except jsonschema.ValidationError as error:
        place = "/".join(map(str, error.absolute_path)) or "the top"
        raise NirmapError(
            str(path),
            f"at {place}: {error.message[:200]}",
            "what nirmap audit --format json writes",
            "write it anew: a document of another version may have another form",
        ) from error
    valid: Mapping[str, Any] = document
    return valid

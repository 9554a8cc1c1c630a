"""The file that a new neuron begins with."""

from __future__ import annotations

from nirmap_generator.check_extensions import name_problem
from nirmap_generator.render import TEMPLATES

_TEMPLATE = "neuron.yaml.jinja"


def neuron_text(name: str, *, schema: str = "") -> str:
    """A commented YAML file with one neuron, which can be generated from as it is.

    Args:
        name: the name of the node class.
        schema: the path of the JSON Schema of the file, as seen from it, for editors; empty for none.

    Raises:
        ValueError: it is no such name.
    """
    import jinja2

    problem = name_problem(name)
    if problem:
        raise ValueError(f"{name!r}: {problem}")
    # Autoescaping is for HTML; the name has letters, digits and _ only.
    environment = jinja2.Environment(  # noqa: S701
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(_TEMPLATE).render(name=name, schema=schema)

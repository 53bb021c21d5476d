"""Sphinx settings. Nothing here needs the network."""

import re
from collections.abc import Iterable, Iterator

from sphinx.application import Sphinx

from fairlane import __version__

project = "Fairlane"
author = "The Fairlane developers"
copyright = "2026, The Fairlane developers"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "examples"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_mock_imports = ["aiohttp", "starlette"]  # the helpers for them are shown, not used
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Raises (when awaited)", "Raises")]
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"Fairlane {release}"
html_static_path = ["_static"]
html_show_sourcelink = False


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _from_markdown, priority=100)  # before napoleon


def _from_markdown(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Turn the docstrings' Markdown (code spans and fenced blocks) into reStructuredText."""
    lines[:] = _converted(lines)


def _converted(lines: Iterable[str]) -> Iterator[str]:
    is_code = False
    for line in lines:
        if line.strip().startswith("```"):
            is_code = not is_code
            yield from (["", ".. code-block:: python", ""] if is_code else [""])
        elif is_code:
            yield f"   {line}"
        elif not line.startswith("Source: "):  # for those who change the code
            yield from _separated(re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line))


def _separated(line: str) -> Iterator[str]:
    """Give each of the arguments or attributes that share a line its own."""
    shared = re.fullmatch(r"( +)(\w+(?:, \w+)+): (.*)", line)
    if shared is None:
        yield line
        return
    indent, names, text = shared.groups()
    for name in names.split(", "):
        yield f"{indent}{name}: {text}"

"""Sphinx settings. Nothing here needs the network."""

from fairlane import __version__

project = "Fairlane"
author = "The Fairlane developers"
copyright = "2026, The Fairlane developers"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "examples"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"Fairlane {release}"
html_static_path = ["_static"]
html_show_sourcelink = False

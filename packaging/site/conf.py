"""Configures Sphinx, which builds the site from the pages that packaging/pages has copied."""

import re
from pathlib import Path

_MODULE = Path(__file__).resolve().parents[2] / "agent/capacityd/__init__.py"

project = "capacityd"
version = release = "".join(re.findall(r'^__version__ = "(.*)"$', _MODULE.read_text(), re.MULTILINE))
html_title = f"capacityd {version}"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
nitpicky = True
myst_heading_anchors = 4
# Some examples are wrong on purpose, or contain placeholders.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}

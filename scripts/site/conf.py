"""Sphinx's settings for the documentation site; scripts/site.sh runs it on a copy of the pages.

The pages are Markdown as GitHub reads it, which is what MyST's parser (CommonMark) reads, too. Nothing in the site comes from
another host, and the search is a script beside the pages, so that it all works from a folder without network.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

project = "moh"
copyright = "The moh authors"  # noqa: A001 (Sphinx's name)
root_doc = "index"
extensions = ["myst_parser", "configuration_links"]
# What else lies in the copy is there to be linked to.
include_patterns = ["*.md", "docs/**.md", "commands/**.md"]

myst_heading_anchors = 4
myst_links_external_new_tab = False
# A block without a language is a command or its output.
highlight_language = "none"

html_theme = "furo"
html_title = "moh"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_permalinks_icon = "#"
html_theme_options = {"footer_icons": []}
# A site that was built of the same pages is the same.
html_last_updated_fmt = None

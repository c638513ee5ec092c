"""Links of the pages to files of configs/ lead to the site's page of configurations, which scripts/site/configurations.py makes."""

import pathlib
import posixpath
import re

from configurations import anchor_of

LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=\))")


def lead_to_page(folder, target):
    """What a link in a page of `folder` (from the root of the source tree) becomes."""
    path = posixpath.normpath(posixpath.join(folder, target))
    if path != "configs" and not path.startswith("configs/"):
        return target
    return f"{posixpath.relpath('configurations.md', folder)}#{anchor_of(path)}"


def rewrite(app, docname, source):
    folder = str(pathlib.PurePosixPath(docname).parent)
    source[0] = LINK.sub(lambda found: lead_to_page(folder, found.group(1)), source[0])


def setup(app):
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

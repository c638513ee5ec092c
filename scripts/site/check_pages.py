#!/usr/bin/env python3
"""Looks at the pages of a built site: every link leads to a file of the site, and to a place in it, and nothing is loaded from another
host, so that the site can be read from a folder without network.

    scripts/site/check_pages.py build/site/html
"""

import argparse
import html.parser
import pathlib
import re
import sys
import urllib.parse

# What a browser fetches by itself; a link in the text is followed by choice.
LOADED = {"link", "script", "img", "iframe", "source", "audio", "video", "embed", "object"}
FROM_ELSEWHERE = re.compile(r"""(?:url\(|@import)\s*['"]?\s*(?:https?:)?//""")


class Page(html.parser.HTMLParser):
    """The anchors of a page, and its references as (tag, target)."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.references = set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in ("href", "src", "data", "poster") and value is not None:
                self.references.append((tag, value))


def mistake_of(path, tag, target, pages):
    """What is wrong with a reference of the page at `path`; None if nothing."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return f"loads {target}" if tag in LOADED else None
    there = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if not there.is_file():
        return f"{target}: no such file"
    anchor = urllib.parse.unquote(parts.fragment)
    if anchor and there in pages and anchor not in pages[there].anchors:
        return f"{target}: no such place in the page"
    return None


def mistakes(folder):
    """Of all pages and style sheets below a folder, as lines."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    found = [] if pages else [f"{folder}: no pages"]
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        of_page = (mistake_of(path, tag, target, pages) for tag, target in page.references)
        found += sorted({f"{name}: {mistake}" for mistake in of_page if mistake})
    for sheet in sorted(folder.rglob("*.css")):
        if FROM_ELSEWHERE.search(sheet.read_text(encoding="utf-8")):
            found.append(f"{sheet.relative_to(folder)}: loads from another host")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    found = mistakes(parser.parse_args().folder)
    if found:
        print(*found, sep="\n", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

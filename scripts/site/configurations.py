"""Writes a page with every configuration that comes with moh.

    scripts/site/configurations.py configs > configurations.md
"""

import pathlib
import re
import sys


def anchor_of(path):
    """The anchor of a file or folder of configs/: that of its heading, which is its path, as MyST makes it."""
    return re.sub(r"[^\w-]", "", path.lower())


def page(root):
    lines = ["# Configurations", "", "The files of `configs`, one after the other. docs/README.md says [what each is for]"
             "(docs/README.md#configurations-that-come-with-it)."]
    folder = None
    for path in sorted(root.rglob("*.yaml"), key=lambda path: (path.parent, path.name)):
        if path.parent != folder:
            folder = path.parent
            lines += ["", f"## {root.name / folder.relative_to(root)}"]
        lines += ["", f"### {root.name / path.relative_to(root)}", "", "```yaml", path.read_text(encoding="utf-8").rstrip(), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(pathlib.Path(sys.argv[1])), end="")

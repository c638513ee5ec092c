"""The documentation agrees with the tree: links resolve, named paths exist, and quoted code is the code.

A fenced block whose info string ends with a path (```cpp ops/norm/rms_norm.cpp) must occur in that file word for word;
a line of three dots in it stands for lines left out.
"""

import os
import pathlib
import re
import unittest

SOURCE_DIR = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
FOLDERS = ("core", "autograd", "ops", "models", "train", "configs", "scripts", "tests", "docs", "cmake", "examples")

FENCE = re.compile(r"^( *)```\w+ (\S+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?:|#|mailto:)([^)#]+)(?:#[^)]*)?\)")
NAMED_PATH = re.compile(r"`((?:" + "|".join(FOLDERS) + r")/[\w./-]+)`")


def documents():
    return [SOURCE_DIR / "README.md", SOURCE_DIR / "CONTRIBUTING.md", *sorted((SOURCE_DIR / "docs").rglob("*.md"))]


def squeeze(text):
    """Words with single spaces between them: indentation and line breaks are the formatter's business."""
    return " ".join(text.split())


def mistakes(text, folder):
    """What a document in `folder` says that the tree does not bear out."""
    found = []
    for link in LINK.findall(FENCE.sub("", text)):
        if not (folder / link).exists():
            found.append(f"link to {link}, which does not exist")
    for path in NAMED_PATH.findall(text):
        # A stem stands for its files: `ops/norm/rms_norm`.
        if not (SOURCE_DIR / path).exists() and not any((SOURCE_DIR / path).parent.glob(pathlib.Path(path).name + ".*")):
            found.append(f"names {path}, which does not exist")
    for _, path, code in FENCE.findall(text):
        if not (SOURCE_DIR / path).is_file():
            found.append(f"quotes {path}, which does not exist")
            continue
        source = squeeze((SOURCE_DIR / path).read_text())
        for part in re.split(r"^ *\.\.\. *$", code, flags=re.MULTILINE):
            if squeeze(part) not in source:
                found.append(f"quotes {path}, which does not contain:\n{part}")
    return found


class Documentation(unittest.TestCase):
    def test_documents_agree_with_the_tree(self):
        for document in documents():
            with self.subTest(document=document.name):
                found = mistakes(document.read_text(), document.parent)
                self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_every_page_is_on_the_site_and_in_the_list_of_questions(self):
        lists = {"scripts/site/index.md": ("docs/", ""), "docs/README.md": ("", ".md")}
        for path, (folder, ending) in lists.items():
            text = (SOURCE_DIR / path).read_text()
            for page in sorted((SOURCE_DIR / "docs").rglob("*.md")):
                name = page.relative_to(SOURCE_DIR / "docs").with_suffix("").as_posix()
                if path == f"docs/{name}.md":
                    continue
                line = rf"^{folder}{name}$" if folder else rf"\]\({name}{ending}\)"
                self.assertRegex(text, re.compile(line, re.MULTILINE), f"docs/{name}.md has no line in {path}: add it where readers look for it")

    def test_the_check_sees_mistakes(self):
        for text in (
            "see [this](docs/nothing.md)",
            "in `core/nothing.h`",
            "```cpp core/nothing.h\nint x;\n```",
            "  ```cpp core/tensor.h\n  class Tensor : public Nothing {\n  ```",
        ):
            self.assertEqual(len(mistakes(text, SOURCE_DIR)), 1, text)
        for text in (
            "see [this](LICENSE), [that](https://example.org) and `core/tensor.h`, stem `ops/norm/rms_norm`",
            "```cpp core/tensor.h\nclass Tensor {\n...\nbool defined() const;\n```".replace(
                "bool defined() const;", "bool defined() const { return storage_ != nullptr; }"
            ),
        ):
            self.assertEqual(mistakes(text, SOURCE_DIR), [], text)


if __name__ == "__main__":
    unittest.main()

"""scripts/site.sh builds the documentation without a warning, every link of the pages leads somewhere, and nothing is loaded from elsewhere.

The packages that it takes are in the virtual environment MOH_SITE_VENV (build/site-venv); without it the test is skipped.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE_DIR = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
VENV = pathlib.Path(os.environ.get("MOH_SITE_VENV", SOURCE_DIR / "build/site-venv"))
SITE = SOURCE_DIR / "scripts/site"
sys.path.insert(0, str(SITE))

import check_pages
import configuration_links
import configurations


def build(out, source=SOURCE_DIR):
    """Builds the site of a source tree into a folder."""
    command = [str(source / "scripts/site.sh"), "--moh", os.environ["MOH_BINARY"], "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MOH_SITE_VENV": str(VENV)})


class Site(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    @unittest.skipUnless((VENV / "moh-packages").is_file(),
                         f"moh test skipped: no packages of the site in {VENV}; scripts/site.sh --packages gets them")
    def test_it_builds(self):
        result = build(self.folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        pages = {path.relative_to(self.folder / "html").as_posix() for path in (self.folder / "html").rglob("*.html")}
        for page in ("index.html", "README.html", "docs/config.html", "docs/benchmarks/cpu.html", "commands/train.html", "configurations.html"):
            self.assertIn(page, pages)
        # The search works without a server: its index is a script, not a request.
        self.assertIn("Search.setIndex", (self.folder / "html/searchindex.js").read_text()[:100])
        self.assertIn('"../configurations.html#configs-llm-moh-llama3-8b-yaml"',
                      re.findall(r'"[^"]*"', (self.folder / "html/docs/continue_tuning.html").read_text()))

    def test_links_that_lead_nowhere_are_seen(self):
        def write(name, text):
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

        write("a.html", '<h1 id="top">A</h1><a href="b/c.html#here">b</a><a href="#top">t</a><a href="https://example.org">e</a><img src="p.png">')
        write("b/c.html", '<p id="here"></p><a href="../a.html">a</a>')
        write("p.png", "")
        write("style.css", "a { background: url(p.png) }")
        self.assertEqual(check_pages.mistakes(self.folder), [])
        write("b/c.html", '<script src="https://example.org/x.js"></script><a href="../a.html#nowhere">a</a><a href="d.html">d</a>')
        write("style.css", "@import url('https://example.org/font.css');")
        self.assertEqual(check_pages.mistakes(self.folder), [
            "a.html: b/c.html#here: no such place in the page", "b/c.html: ../a.html#nowhere: no such place in the page",
            "b/c.html: d.html: no such file", "b/c.html: loads https://example.org/x.js", "style.css: loads from another host"])
        self.assertEqual(len(check_pages.mistakes(self.folder / "nothing")), 1)

    def test_links_to_configurations_lead_to_their_page(self):
        page = configurations.page(SOURCE_DIR / "configs")
        headings = {configurations.anchor_of(line.lstrip("# ")) for line in page.splitlines() if line.startswith("## ") or line.startswith("### ")}
        for path in [*(SOURCE_DIR / "configs").rglob("*.yaml"), SOURCE_DIR / "configs/llm"]:
            self.assertIn(configurations.anchor_of(path.relative_to(SOURCE_DIR).as_posix()), headings)
        lead = configuration_links.lead_to_page
        self.assertEqual(lead("docs", "../configs/llm/llm_s.yaml"), "../configurations.md#configsllmllm_syaml")
        self.assertEqual(lead(".", "configs/llm"), "configurations.md#configsllm")
        self.assertEqual(lead("docs", "config.md"), "config.md")


if __name__ == "__main__":
    program = unittest.main(exit=False)
    sys.exit(not program.result.wasSuccessful())

"""The commands in README.md, CONTRIBUTING.md and docs/ are ones that can be given: commands, options and keys exist, and configurations of
the tree take the settings written behind them. docs/faq.md, whose commands are refused, has a test of its own.

A command is a line of a code block that begins with moh or scripts/, or with `$`. Where a page has one block of YAML, that is the configuration
that its commands name, if it is none of the tree.
"""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys

import support

ROOT = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "scripts"))

import command_pages

FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^ {4,}.*\n?)+", re.MULTILINE)
BEFORE = re.compile(r"^(?:[A-Z_]+=\S+ +|mpirun (?:-\S+ \S+ )*|torchrun (?:-\S+ \d+ |-\S+ )*)*(?=moh |scripts/)")
# Commands that take a configuration and settings.
ABBREVIATIONS = ("data", "precision")  # which are no keys of a configuration, or of all its section
CONFIGURED = {("train",), ("plan",), ("config",), ("bench", "step"), ("bench", "sample")}


def documents():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if page.name != "faq.md"]


def code_blocks(text):
    """(language, code) of the fenced blocks, then of the indented ones."""
    fenced = [(language, code) for _, language, code in FENCE.findall(text)]
    return fenced + [("", code) for code in INDENTED.findall(FENCE.sub("", text))]


def commands_in(text):
    """The command lines, as words. Comments, and what is done with the output, are left out; so are the brackets and dots of a synopsis."""
    found = []
    for language, code in code_blocks(text):
        for line in re.sub(r"\\\n", " ", code).splitlines():
            line = line.strip()
            if line.startswith("$ "):
                line = line[2:]
            elif language not in ("", "console", "text"):
                continue
            line = BEFORE.sub("", line)
            if line.startswith(("moh ", "scripts/")):
                words = shlex.split(re.split(r" (?:[|>;]|2>)", line)[0], comments=True)
                found.append([word for word in map(plain, words) if word])
    return found


def plain(word):
    """`[--gpus` of a synopsis as `--gpus`; `...` as nothing."""
    return word if "=" in word and not word.startswith("[") else word.strip("[]").replace("...", "")


class Commands(support.MohTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = {command.words: command for command in command_pages.walk(command_pages.read_command(support.MOH, ()))}
        reference = subprocess.run([support.MOH, "config", "--reference"], capture_output=True, text=True, check=True).stdout
        cls.keys = set(re.findall(r"^\| `(\w+)` \|", reference, re.MULTILINE))

    @staticmethod
    @functools.cache
    def help_of(script):
        # -S: without packages, as who reads about a script may not have them yet.
        interpreter = ["bash"] if script.suffix == ".sh" else ["/usr/bin/python3", "-S"]
        result = subprocess.run([*interpreter, str(script), "--help"], capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS)
        if result.returncode != 0:
            raise AssertionError(f"{script} --help: expected exit code 0, found {result.returncode}:\n{result.stderr}")
        return result.stdout

    def mistakes(self, words, shown=None):
        """What is wrong with a command. `shown`: the configuration that the page shows."""
        return self.mistakes_of_script(words) if words[0].startswith("scripts/") else self.mistakes_of_moh(words[1:], shown)

    def mistakes_of_script(self, words):
        script = ROOT / words[0]
        if not script.is_file():
            return [f"{words[0]} does not exist"]
        options = [word.partition("=")[0] for word in words[:words.index("--") if "--" in words else None] if word.startswith("--")]
        return [f"{words[0]} has no option {option}" for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", self.help_of(script))]

    def mistakes_of_moh(self, words, shown):
        command = ()
        while words and (*command, words[0]) in self.tree:
            command = (*command, words.pop(0))
        if not command:
            return [f"moh has no command {words[0] if words else ''}"] if words and not words[0].startswith("--") else []
        options = self.tree[command].options()
        found = [f"moh {' '.join(command)} has no option {word}" for word in words
                 if re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in options]
        settings = [word for before, word in zip(["", *words], words)
                    if re.match(r"[a-z_]+(\.[a-z_]+)*=", word) and before != "--source" and word != "key.path=value"]
        found += [f"{setting}: no such key" for setting in settings
                  if setting.partition("=")[0] not in ABBREVIATIONS and setting.partition("=")[0].rpartition(".")[2] not in self.keys]
        configs = [word for word in words if word.endswith(".yaml") and "=" not in word]
        if command in CONFIGURED and not found:
            for config in configs:
                found += self.refusal_of("config" if command in (("train",), ("config",)) else "plan", config, settings, shown)
        return found

    def refusal_of(self, reader, config, settings, shown):
        """What a command that only reads says of a configuration: moh config, or moh plan, which needs no data."""
        path = ROOT / config
        if config.startswith("configs/"):
            if not path.is_file():
                return [f"{config} does not exist"]
        elif shown is None:
            return []
        else:
            path = self.write(config, shown)
        # What a configuration begins from, a checkpoint or the run of a command before, is not there (INPUT_ERROR).
        result = self.command(reader, path, *settings)
        return [] if result.returncode in (support.DONE, support.INPUT_ERROR) else [f"{config} {' '.join(settings)}: {result.output.strip()}"]

    def test_they_can_be_given(self):
        checked = 0
        for page in documents():
            text = page.read_text(encoding="utf-8")
            blocks = [code for language, code in code_blocks(text) if language == "yaml"]
            shown = blocks[0] if len(blocks) == 1 else None
            for words in commands_in(text):
                with self.subTest(page=page.name, command=" ".join(words)):
                    self.assertEqual(self.mistakes(list(words), shown), [])
                    checked += 1
        self.assertGreater(checked, 120)

    def test_the_page_of_commands_names_every_command(self):
        text = (ROOT / "docs/commands.md").read_text(encoding="utf-8").partition("## Output")[0]
        for words in self.tree:
            if words:
                named = rf"`moh {words[0]}\b" if len(words) == 1 else rf"`moh {words[0]}\b.*\b{words[1]}\b"
                self.assertRegex(text, named, f"moh {' '.join(words)} has no line in the table of docs/commands.md")

    def test_what_is_wrong_is_seen(self):
        for line, mistake in {
            "moh trian x.yaml": "moh has no command trian",
            "moh train x.yaml --resumee": "moh train has no option --resumee",
            "moh bench step x.yaml --random-data --fast": "moh bench step has no option --fast",
            "moh train x.yaml optim.lr=1": "optim.lr=1: no such key",
            "moh train configs/llm/nothing.yaml": "configs/llm/nothing.yaml does not exist",
            "moh train configs/llm/quickstart.yaml train.steps=soon": "configs/llm/quickstart.yaml train.steps=soon: error: ",
            "moh train configs/llm/quickstart.yaml model.patch_size=2": "model.patch_size",
            "scripts/nothing.sh": "scripts/nothing.sh does not exist",
            "scripts/quality.py --data x --seed 1": "scripts/quality.py has no option --seed",
        }.items():
            with self.subTest(line=line):
                (words,) = commands_in(f"text\n\n    {line}   # a comment\n\ntext")
                found = self.mistakes(words)
                self.assertEqual(len(found), 1, found)
                self.assertIn(mistake, re.sub(r"^\d\d:\d\d:\d\d |: \d\d:\d\d:\d\d ", ": ", found[0]))

    def test_what_counts_as_a_command(self):
        text = ("```console\n$ moh plan a.yaml \\\n  --gpus 2 > out\nmoh-like output\n```\n\n    OMP=1 mpirun -np 4 moh train [--resume] x.yaml | tee\n"
                "\n```python\nmoh = 1\n```\n\n    torchrun --nproc-per-node 4 --no-python moh eval\n")
        self.assertEqual(commands_in(text), [["moh", "plan", "a.yaml", "--gpus", "2"], ["moh", "train", "--resume", "x.yaml"], ["moh", "eval"]])


if __name__ == "__main__":
    support.main()

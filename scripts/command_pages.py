#!/usr/bin/env python3
"""Generates the man page, the bash completion and the site's pages of moh from the output of --help of moh and all of its commands.

  scripts/command_pages.py build/release/moh --man moh.1 --bash moh --markdown commands

cmake --install and scripts/site.sh call it.
"""

import argparse
import datetime
import os
import pathlib
import re
import subprocess
from dataclasses import dataclass, field

HEADING = re.compile(r"^([A-Z][A-Za-z ]*):$")
SUBCOMMAND = re.compile(r"^  ([a-z][\w-]*)\s{2,}\S")
OPTION = re.compile(r"^  (-\S+)")


@dataclass
class Command:
    """One command and its --help: the lines before the first heading, those below each heading, and the paragraph on
    exit codes at the end."""

    words: tuple
    exit_codes: str
    about: list = field(default_factory=list)
    sections: dict = field(default_factory=dict)
    below: list = field(default_factory=list)

    def options(self):
        names = []
        for line in self.sections.get("Options", ()):
            if found := OPTION.match(line):
                names += [name for name in found.group(1).split("=")[0].split(",") if name.startswith("-")]
        return names


def read_command(program, words):
    """The command `words` ("", "bench", "bench step") and, by recursion, the commands below it."""
    text = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout
    text, _, exit_codes = text.partition("\nExit codes: ")
    command = Command(words, exit_codes)
    lines = command.about
    for line in text.splitlines():
        if found := HEADING.match(line):
            lines = command.sections.setdefault(found.group(1), [])
        else:
            lines.append(line)
    for line in command.sections.get("Subcommands", ()):
        if found := SUBCOMMAND.match(line):
            command.below.append(read_command(program, (*words, found.group(1))))
    return command


def walk(command):
    yield command
    for below in command.below:
        yield from walk(below)


def roff(text):
    """Escapes text for troff: backslashes, hyphens, and control characters at the start of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def verbatim(lines):
    return [".nf", roff("\n".join(lines).strip("\n")), ".fi"]


def man_page(root, version, date):
    about = next(line for line in root.about if line.strip())
    page = [
        f'.TH MOH 1 "{date}" "moh {version}" "User Commands"',
        ".SH NAME",
        roff(f"moh - {about.split(':', 1)[-1].strip()}"),
        ".SH SYNOPSIS",
        ".B moh",
        roff("COMMAND [OPTIONS]"),
        ".SH COMMANDS",
    ]
    for command in walk(root):
        if command is root:
            continue
        page += [f'.SS "moh {" ".join(command.words)}"', *verbatim(command.about)]
        for heading, lines in command.sections.items():
            if heading != "Subcommands":
                page += [".PP", f".B {heading}", *verbatim(lines)]
    page += [".SH EXIT STATUS", *verbatim([root.exit_codes])]
    return "\n".join(page) + "\n"


def markdown_section(command):
    """A heading, what the command is for, and its options and examples as --help has them."""
    about, _, usage = "\n".join(command.about).partition("Usage: ")
    lines = [f"{'#' * len(command.words)} moh {' '.join(command.words)}", "", about.strip() + ".", "", "```console", *usage.strip().splitlines(),
             "```"]
    for heading, body in command.sections.items():
        if heading != "Subcommands":
            lines += ["", f"**{heading}**", "", "```console", *"\n".join(body).strip("\n").splitlines(), "```"]
    return lines + [""]


def markdown_pages(root):
    """{file name: text}: a page for each command, with those below it, and an index."""
    pages, rows = {}, []
    for command in root.below:
        name = command.words[0]
        pages[f"{name}.md"] = "\n".join(line for part in walk(command) for line in markdown_section(part))
        rows.append(f"| [moh {name}]({name}.md) | {next(line for line in command.about if line.strip())} |")
    index = ["# Commands", "", "What `moh COMMAND --help` prints, of each command.", "", "| command | does |", "| --- | --- |", *rows, "",
             f"Exit codes: {' '.join(root.exit_codes.split())} [The table of exit codes](../docs/commands.md#exit-codes) has them all.", "",
             "```{toctree}", ":hidden:", "", *(command.words[0] for command in root.below), "```"]
    return {**pages, "index.md": "\n".join(index) + "\n"}


def completion(root):
    """A bash completion: names of commands, options of the command on the line, else files."""
    cases = []
    for command in walk(root):
        words = [below.words[-1] for below in command.below] + command.options()
        cases.append(f'    "{" ".join(command.words)}") words="{" ".join(words)}" ;;')
    # A command with subcommands may have arguments of its own.
    groups = [f'      "{" ".join(command.words)}") case $word in {"|".join(below.words[-1] for below in command.below)})'
              ' command="$command $word" ;; esac ;;' for command in walk(root) if command.below and command.words]
    return f"""# bash completion for moh
_moh() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command" in
      "") [[ $word == -* ]] || command=$word ;;
{chr(10).join(groups)}
    esac
  done
  case "$command" in
{chr(10).join(cases)}
  esac
  # shellcheck disable=SC2207
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _moh moh
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="the moh program")
    parser.add_argument("--man", type=pathlib.Path, help="write the man page to this file")
    parser.add_argument("--markdown", type=pathlib.Path, help="write a page for each command into this folder")
    parser.add_argument("--bash", type=pathlib.Path, help="write the completion to this file")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    root = read_command(program, ())
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    # Reproducible builds set the date by this variable.
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", program.stat().st_mtime))
    date = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).date().isoformat()
    if arguments.man:
        arguments.man.write_text(man_page(root, version, date))
    if arguments.markdown:
        arguments.markdown.mkdir(parents=True, exist_ok=True)
        for name, text in markdown_pages(root).items():
            (arguments.markdown / name).write_text(text, encoding="utf-8")
    if arguments.bash:
        arguments.bash.write_text(completion(root))


if __name__ == "__main__":
    main()

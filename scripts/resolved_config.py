"""Reads what `moh config` prints, and the config.yaml of a run: `key: value` lines, indented by two spaces a level."""

import json


def read(text):
    """The sections and values as dictionaries. Numbers, lists of numbers and quoted strings are parsed; other values stay as they are
    written."""
    root = {}
    open_sections = [root]
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        key, _, value = line.strip().partition(":")
        depth = (len(line) - len(line.lstrip(" "))) // 2
        del open_sections[depth + 1:]
        value = value.strip()
        if value:
            open_sections[depth][key] = read_value(value)
        else:
            open_sections[depth][key] = {}
            open_sections.append(open_sections[depth][key])
    return root


def read_value(text):
    try:
        return json.loads(text)
    except ValueError:
        return text

"""What `moh analyze` says of trained models, as one number for a row of a table."""

import json
import re
import statistics
import subprocess

import seeded_runs

TOKENS, SIMILARITY_TOKENS = 32768, 4096


def analyse(program, checkpoint, out, threads, *further):
    """The report of `moh analyze`, which is kept in `out`."""
    if not out.exists():
        command = [str(program), "analyze", "--checkpoint", str(checkpoint), "--out", str(out), "--max-tokens", str(TOKENS),
                   "--similarity-tokens", str(SIMILARITY_TOKENS), f"threads={threads}", *further]
        result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if result.returncode != 0:
            raise seeded_runs.Refused(f"{' '.join(command)} ended with code {result.returncode}:\n{result.stderr.strip()}")
    return json.loads(out.read_text(encoding="utf-8"))


def routed(layer):
    """Numbers of the routed heads of a layer."""
    return [head for head in range(len(layer["load"])) if head not in layer["shared_heads"]]


def mean_load(layers):
    """Of the routed heads of the last layer that has any."""
    layer = [layer for layer in layers if layer.get("top_k")][-1]
    return statistics.mean(layer["load"][head] for head in routed(layer))


def mean_over_layers(layers, path):
    found = []
    for layer in layers:
        value = layer
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            found.append(value)
    if not found:
        raise seeded_runs.Refused(f"moh analyze: no layer has {path}")
    return statistics.mean(found)


def measure(report, what):
    return mean_load(report["layers"]) if what == "load" else mean_over_layers(report["layers"], what)


def heads_of_tokens(report, words):
    """[(layer, [routed heads of each word, counted among the routed ones])]; the words are tokens of the text, spaces aside."""
    tokens = [(re.sub(r"[^\w.]", "", token["text"]), token) for token in report["text"]]
    chosen = [next((token for text, token in tokens if text == word), None) for word in words]
    missing = [word for word, token in zip(words, chosen) if token is None]
    if missing:
        raise seeded_runs.Refused(f"the checkpoint's tokenizer has no single tokens for {', '.join(missing)}: another model than the paper's")
    layers = [layer for layer in report["layers"] if layer.get("top_k")]
    return [(layer["layer"], [[routed(layer).index(head) for head in token["heads"][layer["layer"]]] for token in chosen]) for layer in layers]


def nearest_layer(report, table):
    """The layer whose heads agree most with the table's, and by row the heads there and how many are the paper's."""
    wanted = [set(row.paper["heads"]) for row in table.rows]
    shared = lambda heads: sum(len(wanted[i] & set(of_word)) for i, of_word in enumerate(heads))  # noqa: E731
    layer, heads = max(heads_of_tokens(report, [row.name for row in table.rows]), key=lambda found: shared(found[1]))
    return layer, heads, shared(heads), sum(map(len, wanted))

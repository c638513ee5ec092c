"""Stands in for moh in reproduce_test.py: answers as it does, and trains nothing. Each call is a line of STAND_IN_CALLS.

Steps take 0.25 s; top-1 is 0.5 for the row `full`, else 0.4, and 0.01 more for each seed; losses fall from 5 to 2, of
continuations from 2.3 to 2.15. With STAND_IN_SLEEPS a training waits for a signal, with STAND_IN_FAILS=NAME that row fails."""

import json
import os
import pathlib
import signal
import sys
import time


def note(*words):
    with open(os.environ["STAND_IN_CALLS"], "a", encoding="utf-8") as calls:
        calls.write(json.dumps(words) + "\n")


def classifies(config):
    return "/vit/" in config or "vision" in config


def plan(config):
    item, items, per_step = ("token", "tokens", 4096) if "/llm/" in config else ("image", "images", 128)
    return {"parameters": 2000000, "dtype": "float32", "activated_heads": 0.75, f"flops_per_{item}": 6e9, f"flops_per_{item}_dense": 6e9,
            f"{items}_per_step": per_step, "batch_size": 128, "accumulate": 1, "steps": 10000, "peak_tflops": 989, "arithmetic": "bfloat16", "recompute": {"none": {"configured": True, "peak_bytes": {"total": 1 << 30}}}}


def wait_for_a_signal():
    """As moh: the first signal is followed by saving, which takes a second here, and a second signal would end it at once."""
    told = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: (told.append(number), note("stopped")))
    note("sleeps")
    while not told:
        time.sleep(0.02)
    time.sleep(1)
    sys.exit(75)


def train(config, settings):
    folder = pathlib.Path(settings["output.dir"])
    row = folder.name.rpartition("_")[0]
    if os.environ.get("STAND_IN_SLEEPS"):
        wait_for_a_signal()
    if row == os.environ.get("STAND_IN_FAILS"):
        sys.exit(4)
    is_text, continued = not classifies(config), "init.from" in settings
    records = [{"kind": "train", "step": 100, "tokens": 1000, "loss": 2, "activated_heads": 0.75}]
    every = int(settings["eval.every"]) if settings.get("schedule.kind") == "constant" else 10
    for tenth in range(int(settings.get("train.steps", 100)) // every + 1 if every != 10 else 11):
        loss = 2.3 - 0.015 * tenth if continued else 5 - 0.3 * tenth
        top1 = {} if is_text else {"top1": (0.5 if row == "full" else 0.4) + 0.01 * int(settings.get("seed", 0))}
        records.append({"kind": "eval", "step": every * tenth, "loss": loss, **top1})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


SENTENCE = {"Give": (0, 3, 7, 8, 9, 12, 14, 15), "me": (2, 7, 8, 10, 11, 13, 14, 15), "a": (0, 1, 4, 5, 6, 8, 9, 12),
            "short": (1, 4, 5, 6, 9, 11, 12, 15), "introduction": (0, 2, 3, 6, 7, 8, 9, 11), "to": (1, 2, 7, 8, 10, 12, 13, 14),
            "large": (1, 6, 7, 8, 9, 11, 12, 15), "language": (6, 7, 8, 9, 10, 11, 12, 15), "model": (0, 6, 7, 8, 9, 10, 11, 12),
            ".": (0, 2, 3, 8, 9, 10, 13)}


def heads():
    """16 shared heads and 16 routed ones, whose loads are 0.6; in layer 1 the tokens of the sentence have the paper's heads."""
    layer = {"top_k": 8, "shared_heads": list(range(16)), "load": [1.0] * 16 + [0.5, 0.7] * 8}
    text = [{"text": f" {word}", "heads": [[16], [16 + head for head in chosen]]} for word, chosen in SENTENCE.items()]
    return {"layers": [{**layer, "layer": 0}, {**layer, "layer": 1}], "text": text}


def main(words):
    note(*words)
    settings = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    if words[0] == "--version":
        print("moh 0.0.0 (a stand-in)")
    elif words[0] == "plan":
        print(json.dumps(plan(words[1])))
    elif words[:2] == ["bench", "step"]:
        print(json.dumps({"step_ms": 250}))
    elif words[:2] == ["bench", "decode"]:
        print(json.dumps({"token_ms": 3.0, "kv_bytes_per_token": 6144, "read_bytes_per_token": 4e6}))
    elif words[0] == "config":
        sizes = "hidden: 192\n{0}heads: 24\n{0}head_dim: 16"
        print("task: image_classification\nmodel:\n  architecture: vit\n  vit:\n    " + sizes.format("    ") if classifies(words[1])
              else "task: language_model\nmodel:\n  " + sizes.format("  "))
    elif words[:2] == ["eval", "fid"]:
        print(json.dumps({"reference": "test", "fid": 12.5, "inception_score": 4.0, "precision": 0.5, "recall": 0.6}))
    elif words[0] == "sample":
        pathlib.Path(words[words.index("--out") + 1]).mkdir()
    elif words[0] == "train":
        train(words[1], settings)
    elif words[0] == "analyze":
        pathlib.Path(words[words.index("--out") + 1]).write_text(json.dumps(heads()), encoding="utf-8")
    else:
        sys.exit(f"the stand-in does not know {words}")


if __name__ == "__main__":
    main(sys.argv[1:])

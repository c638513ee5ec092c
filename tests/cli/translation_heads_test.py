"""task: translation: how the heads of a dense model become routed ones, and what heads do (moh analyze)."""

import itertools
import json
import math
import re

import support
import translation_support

DENSE = ("model.moh.router=none", "model.moh.num_shared=0", "model.moh.top_k=0")
DIVERGENCE = re.compile(r"init: (\S+ \S+)( \(selected\))?: KL divergence from the dense model ([0-9.]+) nats per token")
HEADS, WIDTH = 4, 8
LAYERS = ["encoder self 0", "decoder self 0", "decoder cross 0"]
SOURCE, TARGET = "source", "target"
SIDES = [(SOURCE, SOURCE), (TARGET, TARGET), (TARGET, SOURCE)]  # of queries and keys, by layer


class StartFromDense(translation_support.TranslationTest):
    def setUp(self):
        super().setUp()
        self.moh("train", "run.yaml", *DENSE, "train.steps=80", "output.dir=dense")

    def start(self, *settings):
        return self.moh("train", "run.yaml", "init.from=dense", "train.steps=3", "--overwrite", *settings)

    def shared_heads(self):
        return json.loads(re.search(r"shared_heads: (.*)", (self.newest() / "config.yaml").read_text()).group(1))

    def test_each_start_of_the_routers_is_measured(self):
        output = self.start()
        nats = {what: float(value) for what, _, value in DIVERGENCE.findall(output)}
        self.assertEqual(set(nats), {"router_start zero", "router_start random", "router_start calibrated"})
        self.assertLess(nats["router_start calibrated"], nats["router_start zero"])
        self.assert_says(output, "router_start calibrated (selected)")
        # The first step sees the trained model, not a random one.
        dense, first = support.losses(self.folder / "dense"), support.losses(self.folder / "run")[0]
        self.assertLess(abs(first - dense[-1]), 0.5 * (dense[0] - dense[-1]))

    def test_shared_heads_are_chosen_by_what_they_do(self):
        for way in ("output_norm", "loss_increase"):
            with self.subTest(way=way):
                output = self.start(f"model.moh.shared_heads={way}", "init.moh.calibration.batches=2")
                self.assert_says(output, *(f"init: shared heads of layer {layer} by {way}:" for layer in range(3)))
                chosen = self.shared_heads()
                self.assertEqual([len(heads) for heads in chosen], [1, 1, 1])
                self.start(f"model.moh.shared_heads={way}", "init.moh.calibration.batches=2")
                self.assertEqual(self.shared_heads(), chosen)  # the same pairs, the same choice

    def test_a_model_of_the_most_important_heads_alone(self):
        settings = ("model.moh.router=static", "model.moh.num_shared=3", "model.moh.top_k=0", "model.moh.shared_heads=output_norm")
        output = self.start(*settings)
        self.assert_says(output, "75% of them active", "init: router static: KL divergence from the dense model")
        chosen = self.shared_heads()
        self.assertEqual([len(set(heads)) for heads in chosen], [3, 3, 3])
        self.assert_says(self.moh("eval", "--checkpoint", "run"), "perplexity")

    def test_what_needs_measurements_needs_batches(self):
        for key in ("init.moh.router_start=calibrated", "model.moh.shared_heads=output_norm"):
            message = self.moh("train", "run.yaml", "init.from=dense", key, "init.moh.calibration.batches=0", code=support.CONFIG_ERROR)
            self.assert_says(message, "init.moh.calibration.batches: expected at least 1")


class Analyze(translation_support.TranslationTest):
    def setUp(self):
        super().setUp()
        self.moh("train", "run.yaml")
        self.write_pairs("short.tsv", [pair for pair in self.pairs if len(pair[0].split()) == 2][:20])
        self.write_pairs("long.tsv", [pair for pair in self.pairs if len(pair[0].split()) == 5][:20])

    def analyze(self, *arguments, code=support.DONE):
        return self.moh("analyze", "--checkpoint", "run", *arguments, code=code)

    def report(self, *arguments):
        self.analyze(*arguments, "--out", "heads.json", "--overwrite")
        text = (self.folder / "heads.json").read_text()
        self.assertNotIn("NaN", text)
        return json.loads(text)

    def test_sources_layers_and_tokens(self):
        report = self.report("--source", "short=short.tsv", "--source", "long=long.tsv", "--top-tokens", 6, "--text", "red house")
        self.assertEqual([(source["name"], source["tokens"], source["available"]) for source in report["sources"]],
                         [("short", 20, 20), ("long", 20, 20)])
        self.assertEqual((report["unit"], report["tokens"], report["model"]["layers"]), ("sentence pairs", 40, 3))
        self.assertEqual([layer["name"] for layer in report["layers"]], LAYERS)
        for layer in report["layers"]:
            self.assertEqual((layer["shared"], layer["routed"], layer["top_k"]), (1, 3, 2))
            for use in (layer, *layer["by_source"]):
                self.assertEqual(use["load"][0], 1)
                self.assertAlmostEqual(sum(use["load"][1:]), 2, places=5)
            for kind in ("attention", "outputs", "contributions"):
                self.assertTrue(0 <= abs(layer["similarity"][kind]["mean"]["all"]) <= 1)
        self.assertEqual(len(report["token_table"]), 6)
        sides = [token["side"] for token in report["text"]]
        self.assertEqual(sides[:10], [SOURCE] * 10)  # nine bytes and the end
        self.assertEqual(set(sides[10:]), {TARGET})
        for token in report["text"]:
            of_side = [token["side"] == queries for queries, _ in SIDES]
            self.assertEqual([len(heads) for heads in token["heads"]], [2 * here for here in of_side])
        self.assertEqual(self.report("--source", "short=short.tsv", "--source", "long=long.tsv", "--top-tokens", 6, "--text", "red house",
                                     "threads=2"), report)

    def test_held_out_pairs_without_any_and_pairs_in_two_files(self):
        self.assertEqual(self.report()["sources"][0]["name"], "validation")
        self.write("some.en", "red house\ntwo\n")
        self.write("some.de", "rot Haus\nzwei\n")
        self.write_pairs("some.tsv", [("red house", "rot Haus"), ("two", "zwei")])
        two = self.report("data.validation=some.en", "data.validation_targets=some.de")
        one = self.report("data=some.tsv")
        for report in (one, two):
            del report["sources"]
            for layer in report["layers"]:
                del layer["by_source"]
        self.assertEqual(one, two)

    def test_the_loads_do_not_depend_on_the_batches(self):
        one, other = (self.report("data=long.tsv", f"data.batch_tokens={tokens}") for tokens in (48, 512))
        for left, right in zip(one["layers"], other["layers"]):
            self.assertEqual(left["load"], right["load"])
            for kind in ("attention", "outputs"):
                self.assertAlmostEqual(left["similarity"][kind]["mean"]["all"], right["similarity"][kind]["mean"]["all"], places=4)

    def test_a_dump_is_attention_of_sentences(self):
        report = self.report("data=short.tsv")
        self.analyze("data=short.tsv", "data.batch_tokens=64", "--dump", "dump.safetensors", "--dump-layers", "0,1,2", "--dump-sequences", 9)
        metadata, tensors = support.read_dump(self.folder / "dump.safetensors")
        self.assertEqual((metadata["sequences"], metadata["layer_names"].splitlines()), ("9", LAYERS))
        self.assertTrue({name.rsplit(".", 1)[-1] for name in tensors} <= set(metadata))
        lengths = {side: list(tensors[f"{side}_lengths"][2]) for side in (SOURCE, TARGET)}
        offsets = {side: [0, *itertools.accumulate(of_side)] for side, of_side in lengths.items()}
        self.assertEqual(lengths, {side: [len(pair[i]) + 1 for pair in self.read_pairs("short.tsv")[:9]]
                                   for i, side in enumerate((SOURCE, TARGET))})
        first = self.read_pairs("short.tsv")[0]
        self.assertEqual(bytes(list(tensors["source_tokens"][2][:len(first[0])])), first[0].encode())
        self.assertEqual(bytes(list(tensors["target_tokens"][2][1:lengths[TARGET][0]])), first[1].encode())
        for layer, (queries, keys) in enumerate(SIDES):
            values = {name: tensors[f"layers.{layer}.{name}"] for name in ("q", "k", "v", "heads", "gates", "selected", "x")}
            self.assertEqual(values["q"][1], [offsets[queries][-1], HEADS, WIDTH])
            self.assertEqual(values["k"][1], [offsets[keys][-1], HEADS, WIDTH])
            for pair in range(9):
                self.check_pair({name: value for name, (_, _, value) in values.items()}, range(*offsets[queries][pair:pair + 2]),
                                range(*offsets[keys][pair:pair + 2]), causal=layer == 1)
        # All of the pairs: loads and gates are those of the report.
        self.analyze("data=short.tsv", "--dump", "all.safetensors", "--dump-sequences", 99)
        metadata, tensors = support.read_dump(self.folder / "all.safetensors")
        self.assertEqual(metadata["sequences"], "20")
        for number, layer in enumerate(report["layers"]):
            selected, gates = (tensors[f"layers.{number}.{name}"][2] for name in ("selected", "gates"))
            for head in range(HEADS):
                self.assertAlmostEqual(sum(selected[head::HEADS]) / (len(selected) / HEADS), layer["load"][head], delta=1e-6)
                kept = [gate for gate, on in zip(gates[head::HEADS], selected[head::HEADS]) if on]
                if kept:
                    self.assertAlmostEqual(sum(kept) / len(kept), layer["gate_mean"][head], delta=1e-5)

    def read_pairs(self, name):
        return [tuple(line.split("\t")) for line in (self.folder / name).read_text().splitlines()]

    def check_pair(self, values, queries, keys, causal):
        """Outputs of the selected heads of a sentence are attention over the tokens of the one that it attends to, times their gates."""
        def row(name, token, head):
            return values[name][(token * HEADS + head) * WIDTH:(token * HEADS + head + 1) * WIDTH]
        for place, t in enumerate(queries):
            for head in range(HEADS):
                if not values["selected"][t * HEADS + head]:
                    self.assertEqual(set(row("heads", t, head)), {0})
                    continue
                seen = keys[:place + 1] if causal else keys
                scores = [math.exp(sum(a * b for a, b in zip(row("q", t, head), row("k", s, head))) / WIDTH**0.5) for s in seen]
                for i, found in enumerate(row("heads", t, head)):
                    expected = sum(score * row("v", s, head)[i] for score, s in zip(scores, seen)) / sum(scores)
                    self.assertAlmostEqual(values["gates"][t * HEADS + head] * expected, found, delta=1e-5)

    def test_what_will_not_do(self):
        self.write("words.txt", "no tab here\n")
        refused = {
            ("data=words.txt",): (support.INPUT_ERROR, "words.txt:1"),
            ("--source", "a=missing.tsv"): (support.INPUT_ERROR, "missing.tsv"),
            ("--token", "red"): (support.CONFIG_ERROR, "token 'red': expected the text of one token of byte, found 3 tokens"),
            ("--text", "long " * 20): (support.CONFIG_ERROR, "source sentence: expected at most 64 tokens with its end, found 100"),
            ("--max-tokens", -1): (support.CONFIG_ERROR, "tokens of a source: expected at least 0, found -1"),
        }
        for arguments, (code, message) in refused.items():
            with self.subTest(arguments=arguments):
                self.assert_says(self.analyze(*arguments, code=code), message)


if __name__ == "__main__":
    support.main()

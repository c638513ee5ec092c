"""moh analyze: what a trained model's heads do, as tables and as JSON."""

import json
import signal

import support

HEADS, SHARED, ROUTED, TOP_K = 4, 1, 3, 1


def every_number(value):
    """All numbers in nested lists and objects."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in every_number(part)]
    return [value] if isinstance(value, (int, float)) else []


class Analyze(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("words.txt", support.text_of_words(60, seed=2))
        self.write("digits.txt", "".join(f"{n * n} {n} " for n in range(120)))

    def analyze(self, *arguments, run="run", code=support.DONE):
        return self.moh("analyze", "--checkpoint", run, *arguments, code=code)

    def report(self, *arguments, **options):
        self.analyze(*arguments, "--out", "heads.json", "--overwrite", **options)
        text = (self.folder / "heads.json").read_text()
        self.assertNotIn("NaN", text)
        self.assertNotIn("Infinity", text)
        return json.loads(text)

    def test_groups_of_heads_that_all_are_kept(self):
        self.train({"model.kv_heads": 2, "model.moh.routing": "groups"})  # one of two is shared, and the other one routed
        for layer in self.report("data=words.txt")["layers"]:
            self.assertEqual((layer["shared"], layer["routed"], layer["top_k"]), (2, 2, 2))
            self.assertEqual(layer["load"], [1] * HEADS)

    def test_sources_layers_and_tokens(self):
        self.train()
        report = self.report("--source", "words=words.txt", "--source", "digits=digits.txt", "--max-tokens", "400",
                             "--top-tokens", "8", "--text", "a head")
        self.assertEqual((report["format"], report["version"]), ("moh heads", 1))
        self.assertTrue(report["checkpoint"].endswith("run/checkpoints/step_00000008"))
        self.assertEqual([source["name"] for source in report["sources"]], ["words", "digits"])
        # Whole sequences of 32: 13 of them hold 400 tokens; the words are fewer.
        self.assertEqual(report["sources"][1]["tokens"], 13 * 32)
        self.assertEqual(report["sources"][0]["tokens"], (self.folder / "words.txt").stat().st_size)
        self.assertEqual(report["tokens"], sum(source["tokens"] for source in report["sources"]))
        self.assertEqual(len(report["layers"]), 2)
        for layer in report["layers"]:
            self.assertEqual((layer["shared"], layer["routed"], layer["top_k"]), (SHARED, ROUTED, TOP_K))
            self.assertEqual([entry["source"] for entry in layer["by_source"]], ["words", "digits"])
            for use in [layer, *layer["by_source"]]:
                self.assertEqual(use["load"][0], 1)
                self.assertAlmostEqual(sum(use["load"][SHARED:]), TOP_K, delta=1e-5)
                self.assertTrue(0 <= use["entropy"] <= 1 <= use["imbalance"] <= ROUTED)
            for kind in ("attention", "outputs", "contributions"):
                matrix = layer["similarity"][kind]["matrix"]
                for i in range(HEADS):
                    for j in range(HEADS):
                        self.assertEqual(matrix[i][j], matrix[j][i])
            self.assertEqual(layer["rank"]["all"]["largest"], 32)
            self.assertEqual(layer["rank"]["shared"]["largest"], 8)
            self.assertEqual(len(layer["rank"]["heads"]), HEADS)
        self.assertEqual(len(report["token_table"]), 8)
        counts = [token["count"] for token in report["token_table"]]
        self.assertEqual(counts, sorted(counts, reverse=True))
        self.assertEqual([token["text"] for token in report["text"]], list("a head"))
        for token in report["text"]:
            self.assertTrue(all(len(heads) == TOP_K and SHARED <= heads[0] < HEADS for heads in token["heads"]))

    def test_the_text_of_one_source_is_the_text_of_data(self):
        self.train()
        named, data = self.report("--source", "x=words.txt"), self.report("data=words.txt")
        self.assertEqual(data["sources"][0].pop("name"), "data")
        self.assertEqual(named["sources"][0].pop("name"), "x")
        for layer in (*named["layers"], *data["layers"]):
            for entry in layer["by_source"]:
                del entry["source"]
        self.assertEqual(named, data)
        both = self.report("data=words.txt", "data=digits.txt")
        self.assertEqual(both["sources"][0]["available"],
                         sum((self.folder / name).stat().st_size for name in ("words.txt", "digits.txt")) + 1)

    def test_the_held_out_text_without_any_and_the_same_report_twice(self):
        self.train()
        first = self.report()
        self.assertEqual(first["sources"][0]["name"], "validation")
        self.assertEqual(self.report("threads=2"), first)
        self.assertEqual(self.report("train.batch_size=1")["layers"][1]["load"], first["layers"][1]["load"])

    def test_the_loads_are_those_that_training_logs(self):
        # The text is one sequence and its last target, and a learning rate of almost nothing leaves the weights alone.
        self.write("text.txt", support.text_of_words(40)[:33])
        self.train({"data.validation_fraction": 0.0, "train.batch_size": 1, "train.steps": 2, "eval.every": 0,
                    "optim.learning_rate": 1e-12, "schedule.warmup_steps": 0, "schedule.warmup_start": 0.0,
                    "schedule.min_learning_rate": 0.0})
        logged = support.metrics(self.folder / "run")[-1]["head_load"]
        found = self.report("data=text.txt", "--max-tokens", "32")
        self.assertEqual(found["tokens"], 32)
        self.assertEqual(len(logged), 2)
        for layer, loads in zip(found["layers"], logged):
            for mine, theirs in zip(layer["load"][SHARED:], loads, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-5)

    def test_tables(self):
        self.train()
        output = self.analyze("--source", "words=words.txt", "--source", "digits=digits.txt", "--token", "e", "--token",
                              "~", "--text", "7")
        self.assert_says(output, "1 shared, 1 of 3", "load in layer 1, by source", "similarity of attention",
                         "rank, effective", "(does not occur)", "routed heads in layer 1")
        self.assertRegex(output, r"(?m)^'e' +\d+  \d \(\d+%\)$")
        self.assertEqual(list(self.folder.glob("*.json")), [])

    def test_a_query_norm_router_has_gates_of_one(self):
        self.train(support.QUERY_NORM)
        for layer in self.report()["layers"]:
            self.assertEqual({gate for gate in layer["gate_mean"] if gate is not None}, {1})
            self.assertEqual({gate for gate in layer["gate_std"] if gate is not None}, {0})

    def test_a_dense_model(self):
        self.train(support.DENSE)
        report = self.report("data=words.txt", "--text", "ab")
        for layer in report["layers"]:
            self.assertNotIn("load", layer)
            self.assertNotIn("by_source", layer)
            self.assertEqual(list(layer["rank"]), ["all", "heads"])
            self.assertEqual(list(layer["similarity"]["attention"]["mean"]), ["all"])
        self.assertEqual(report["text"][0]["heads"], [[], []])
        self.assert_says(self.analyze("data=words.txt"), "4, dense")

    def test_bfloat16(self):
        self.train({"precision": "bfloat16"})
        report = self.report("data=words.txt")
        self.assertAlmostEqual(report["layers"][0]["similarity"]["outputs"]["matrix"][0][0], 1, delta=1e-5)

    def dumped(self, *arguments, run="run"):
        """Metadata, and name -> (type, shape, values), of a dump."""
        self.analyze("--dump", "dump.safetensors", "--overwrite", *arguments, run=run)
        self.assertFalse([path.name for path in self.folder.iterdir() if "parts" in path.name])
        return support.read_dump(self.folder / "dump.safetensors")

    def test_a_dump_has_what_the_report_counts(self):
        self.train()
        # 13 sequences of 32 tokens, in batches of the run: all are in the dump.
        report = self.report("data=digits.txt", "--max-tokens", "400")
        for more in ((), ("train.batch_size=3",), ("threads=2",)):
            metadata, tensors = self.dumped("data=digits.txt", "--max-tokens", "400", "--dump-sequences", "99",
                                            "--dump-layers", "1", *more)
            self.assertEqual(metadata["sequences"], "13")
            self.assertEqual(metadata["layers"], "2")
            self.assertEqual(metadata["family"], "llama")
            self.assertTrue(metadata["model"].endswith("step_00000008"))
            self.assertEqual(set(tensors), {"tokens", "sources", *(f"layers.{i}.{kind}" for i in (0, 1) for kind in ("gates", "selected")),
                                            *(f"layers.1.{kind}" for kind in ("x", "q", "k", "v", "heads"))})
            self.assertEqual(tensors["layers.1.x"][:2], ("F32", [13, 32, 32]))
            self.assertEqual(tensors["layers.1.heads"][1], [13, 32, HEADS, 8])
            self.assertEqual(tensors["tokens"][:2], ("I64", [13, 32]))
            for number, layer in enumerate(report["layers"]):
                (_, shape, gates), (_, _, selected) = (tensors[f"layers.{number}.{kind}"] for kind in ("gates", "selected"))
                self.assertEqual(shape, [13, 32, HEADS])
                for head in range(HEADS):
                    self.assertAlmostEqual(sum(selected[head::HEADS]) / (13 * 32), layer["load"][head], delta=1e-6)
                    kept = [gate for gate, on in zip(gates[head::HEADS], selected[head::HEADS]) if on]
                    self.assertAlmostEqual(sum(kept) / len(kept), layer["gate_mean"][head], delta=1e-5)
                self.assertTrue(all(gate == 0 for gate, on in zip(gates, selected) if not on))

    def test_a_dump_ends_after_its_sequences_and_keeps_their_type(self):
        self.train({"precision": "bfloat16"})
        _, whole = self.dumped("data=digits.txt", "--dump-sequences", "5", "--dump-layers", "0,1")
        metadata, part = self.dumped("data=digits.txt", "--dump-sequences", "3", "--dump-layers", "1,0")
        self.assertEqual(metadata["sequences"], "3")
        for name, (dtype, shape, values) in part.items():
            self.assertEqual(shape[0], 3, name)
            self.assertEqual(list(values), list(whole[name][2][:len(values)]), name)
            self.assertEqual(dtype == "BF16", name.rsplit(".")[-1] in ("x", "q", "k", "v", "heads"), name)

    def test_a_dump_of_a_dense_model_has_chosen_layers(self):
        self.train(support.DENSE)
        self.assert_says(self.analyze("--dump", "d.safetensors", code=support.CONFIG_ERROR),
                         "--dump: expected a model with routers, found a dense model", "name layers by --dump-layers")
        _, tensors = self.dumped("data=words.txt", "--dump-layers", "0")
        self.assertEqual(set(tensors), {"tokens", "sources", *(f"layers.0.{kind}" for kind in ("x", "q", "k", "v", "heads"))})

    def test_what_will_not_do(self):
        self.train()
        refused = {
            ("--dump-layers", "0"): (support.CONFIG_ERROR, "--dump-layers: expected --dump FILE with it"),
            ("--dump", "d.safetensors", "--dump-layers", "0,2"):
                (support.CONFIG_ERROR, "--dump-layers: expected numbers from 0 to 1, each once, found 2"),
            ("--dump", "d.safetensors", "--dump-layers", "1,1"): (support.CONFIG_ERROR, "found 1 twice"),
            ("--dump", "d.safetensors", "--dump-sequences", "0"):
                (support.CONFIG_ERROR, "--dump-sequences: expected 1 or more, found 0"),
            ("--dump", "words.txt"): (support.CONFIG_ERROR, "--dump words.txt: expected a path that does not exist"),
            ("--dump", "no/such/folder/x.safetensors"): (support.STORAGE_ERROR, "no/such/folder"),
            ("--source", "words"): (support.CONFIG_ERROR, "--source: expected NAME=PATH, found 'words'"),
            ("--source", "=words.txt"): (support.CONFIG_ERROR, "expected NAME=PATH"),
            ("--source", "a=words.txt", "--source", "a=digits.txt"):
                (support.CONFIG_ERROR, "--source: expected names that differ, found 'a' twice"),
            ("data=words.txt", "--source", "data=digits.txt"): (support.CONFIG_ERROR, "found 'data' twice"),
            ("--source", "a=nowhere.txt"): (support.INPUT_ERROR, "nowhere.txt: cannot read"),
            ("data=",): (support.INPUT_ERROR, "cannot read"),
            ("--token", "ab"): (support.CONFIG_ERROR, "expected the text of one token of byte, found 2 tokens"),
            ("--max-tokens", "-1"): (support.CONFIG_ERROR, "tokens of a source: expected at least 0"),
            ("--similarity-tokens", "0"): (support.CONFIG_ERROR, "expected at least 1"),
            ("--rank-tolerance", "0"): (support.CONFIG_ERROR, "rank tolerance"),
            ("--out", "."): (support.CONFIG_ERROR, "--out .: expected the name of a file, found a folder"),
            ("--out", "words.txt"): (support.CONFIG_ERROR, "--out words.txt: expected a path that does not exist, found a "
                                     "file; replace it with --overwrite"),
            ("--out", "/dev/full", "--overwrite"): (support.CONFIG_ERROR, "/dev/full: expected the name of a file"),
            ("--out", "no/such/folder/x.json"): (support.STORAGE_ERROR, "no/such/folder"),
            ("modl.layers=3",): (support.CONFIG_ERROR, "modl"),
        }
        for arguments, (code, message) in refused.items():
            with self.subTest(arguments=arguments):
                self.assert_says(self.analyze(*arguments, code=code), message)
        self.write("empty.txt", "")
        self.assert_says(self.analyze("data=empty.txt", code=support.INPUT_ERROR), "empty.txt: expected text")
        self.assert_says(self.analyze(run="words.txt", code=support.INPUT_ERROR), "words.txt")
        self.assert_says(self.analyze(run="nowhere", code=support.INPUT_ERROR), "nowhere")

    def test_a_run_that_held_nothing_out(self):
        self.train({"data.validation_fraction": 0.0})
        self.assert_says(self.analyze(code=support.INPUT_ERROR), "held nothing out", "data=PATH")

    def test_a_signal_ends_it_and_leaves_nothing(self):
        self.train()
        self.write("long.txt", support.text_of_words(400_000))
        before = {path.name for path in self.folder.iterdir()}
        for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
            run = support.Running(self, "analyze", "--checkpoint", "run", "data=long.txt", "--max-tokens", "0", "--out",
                                  "heads.json", "--dump", "dump.safetensors")
            run.read_until("analyze: sources 1")
            run.send(number)
            self.assertEqual(run.wait(), 130, run.output)
            self.assert_says(run.output, f"stopped by {name}; nothing was written")
            self.assertEqual({path.name for path in self.folder.iterdir()}, before)


if __name__ == "__main__":
    support.main()

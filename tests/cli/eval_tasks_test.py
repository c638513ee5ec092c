"""moh eval tasks=[...]: benchmarks on files in the layouts of their publishers, the reports, what is refused."""

import json
import math
import os
import pathlib
import signal
import sys
import time
import unittest

import support

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from benchmark_files import MAKERS, SUBJECTS, hub_files, published_files  # noqa: E402

SHARED = pathlib.Path(os.environ.get("MOH_SHARED", "/nonexistent"), "data")
INTERRUPTED = 130


class EvalTasks(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train({"model.max_positions": 512, "train.steps": 4, "eval.every": 0})

    def write_all(self, files, folder="data"):
        for path, contents in files.items():
            self.write(f"{folder}/{path}", contents)

    def eval(self, tasks, *options, data="data", code=support.DONE):
        return self.moh("eval", "--checkpoint", "run", f"tasks=[{tasks}]", f"data={data}", *options, code=code)

    def report(self, tasks, *options, data="data"):
        return json.loads(self.eval(tasks, "--json", *options, data=data).splitlines()[-1])

    def samples(self, tasks, *options, data="data"):
        self.eval(tasks, "--samples", "samples.jsonl", *options, data=data)
        return [json.loads(line) for line in (self.folder / "samples.jsonl").read_text().splitlines()]

    def test_both_layouts_of_every_benchmark_give_the_same_questions(self):
        for name in MAKERS:
            with self.subTest(name):
                tasks = {"truthfulqa": "truthfulqa_mc1,truthfulqa_mc2", "gsm8k": "gsm8k,gsm8k_cot"}.get(name, name)
                tasks = f"{name}:{SUBJECTS[name]}" if name in SUBJECTS else tasks
                options = ("--shots", 2) if name not in ("truthfulqa", "lambada", "wikitext") else ()
                found = []
                for folder, files in (("hub", hub_files(name)), ("published", published_files(name))):
                    self.write_all(files, folder)
                    found.append(self.samples(tasks, *options, "--new-tokens", 4, data=folder))
                    for sample in found[-1]:
                        del sample["place"]
                # The questions of some are the same text in another order of keys, or with other numbers.
                self.assertEqual(found[0], found[1])
                self.assertEqual(len(found[0]), 6 * len(tasks.split(",")))

    def test_the_report_has_scores_errors_and_the_papers_numbers(self):
        self.write_all({**hub_files("sciq", 40), **hub_files("piqa", 30), **hub_files("truthfulqa", 20)})
        report = self.report("sciq,piqa,truthfulqa", "--samples", "samples.jsonl")
        self.assertEqual((report["complete"], report["seed"], report["limit"]), (True, 1234, 0))
        self.assertIn("MoH with 50.0% of the heads", report["model"])
        sciq = report["benchmarks"]["sciq"]
        self.assertEqual((sciq["shots"], sciq["questions"], sciq["cut"], sciq["score"]), (0, 40, 0, "acc_norm"))
        self.assertIn({"table": "3", "model": "moh_llm_s_50", "tokens_b": 100, "score": 67.0}, sciq["paper"])
        samples = [json.loads(line) for line in (self.folder / "samples.jsonl").read_text().splitlines()]
        for metric in ("acc", "acc_norm"):
            values = [sample["scores"][metric] for sample in samples if sample["benchmark"] == "sciq"]
            mean = sum(values) / len(values)
            self.assertAlmostEqual(sciq["scores"][metric]["value"], mean)
            error = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
            self.assertAlmostEqual(sciq["scores"][metric]["stderr"], error)
        for sample in samples[:40]:
            best = max(range(4), key=lambda i: sample["log_likelihoods"][i])
            self.assertEqual(sample["scores"]["acc"], float(sample["correct"][best]))
            normed = [found / len(text.removeprefix(" ")) for found, text in zip(sample["log_likelihoods"], sample["continuations"])]
            self.assertEqual(sample["scores"]["acc_norm"], float(sample["correct"][normed.index(max(normed))]))
        both = report["benchmarks"]
        mean = (both["truthfulqa_mc1"]["scores"]["acc"]["value"] + both["truthfulqa_mc2"]["scores"]["mass"]["value"]) / 2
        self.assertAlmostEqual(both["truthfulqa"]["scores"]["average"]["value"], mean)
        table = self.eval("sciq,piqa,truthfulqa")
        self.assert_says(table, "beside the MoH paper (arXiv 2410.11842), percent", "table 3, moh_llm_b_50, 200B tokens")
        (ours,) = (line.split() for line in table.splitlines() if line.startswith("this model"))
        self.assertEqual(ours[2], f"{100 * sciq['scores']['acc_norm']['value']:.1f}")
        (row,) = (line.split() for line in table.splitlines() if line.startswith("table 3, llm_s, 100B"))
        self.assertEqual(row[-3:], ["63.0", "63.1", "31.6"])

    def test_the_same_in_every_run_with_any_batches_and_threads(self):
        self.write_all({**hub_files("arc_challenge"), **hub_files("cmmlu"), **hub_files("gsm8k")})
        asked = "arc_challenge,cmmlu:jurisprudence,gsm8k"
        options = ("--shots", 3, "--new-tokens", 8)
        first = self.samples(asked, *options)
        self.assertEqual(self.samples(asked, *options), first)
        self.assertEqual(self.samples(asked, *options, "threads=2"), first)
        small = self.samples(asked, *options, "--batch-tokens", 1)
        for one, other in zip(first, small):
            self.assertEqual({**one, "log_likelihoods": 0}, {**other, "log_likelihoods": 0})
            for a, b in zip(one.get("log_likelihoods", []), other.get("log_likelihoods", [])):
                self.assertAlmostEqual(a, b, delta=1e-4)
        drawn = self.samples(asked, *options, "--seed", 7)
        self.assertNotEqual([sample["contexts"] for sample in drawn], [sample["contexts"] for sample in first])
        # Of the exam the first examples count, whatever the seed.
        self.assertEqual([s for s in drawn if s["benchmark"] == "cmmlu"], [s for s in first if s["benchmark"] == "cmmlu"])

    def test_limit_and_cut_contexts_are_said(self):
        self.write_all(hub_files("boolq"))
        output = self.eval("boolq", "--limit", 2)
        self.assert_says(output, "boolq             32     2", "The first 2 questions of each alone (--limit): no result to report.",
                         "boolq: 2 of 2 questions lost the beginning of their context, as the model has too few positions")
        self.assertEqual(self.report("boolq", "--limit", 2)["benchmarks"]["boolq"]["cut"], 2)

    def test_a_benchmark_of_ones_own_and_a_hugging_face_folder(self):
        self.write("data/my.jsonl", '{"q": "the head", "a": "router", "b": "router and more", "right": 0}\n' * 3)
        self.write("my.yaml", 'name: mine\nkind: multiple_choice\ndata: {files: [my.jsonl]}\nprompt:\n  text: "{{q}}"\n'
                   '  choices: ["{{a}}", "{{b}}"]\n  answer: "{{right}}"\nmetrics: [acc]\nscore: acc\n')
        report = self.report("my.yaml")
        self.assertEqual(report["benchmarks"]["mine"]["scores"]["acc"], {"value": 1.0, "stderr": 0.0})
        self.assertEqual(report["benchmarks"]["mine"]["paper"], [])
        self.moh("convert", "--from", "run", "--to", "exported", "--format", "hf")
        again = self.moh("eval", "--checkpoint", "exported", "tasks=my.yaml", "data=data", "--json")
        self.assertEqual(json.loads(again.splitlines()[-1])["benchmarks"], report["benchmarks"])

    def test_what_is_refused(self):
        def refused(tasks, *options, code=support.CONFIG_ERROR):
            return self.eval(tasks, *options, code=code)
        self.assert_says(refused("scqi"), "found 'scqi'; did you mean sciq? There are arc_challenge, arc_easy, boolq")
        self.assert_says(refused("cmmlu:anatmy"), "did you mean anatomy?")
        self.assert_says(refused(""), "tasks: expected benchmarks, as in tasks=[sciq,piqa]")
        self.assert_says(refused("sciq", "--limit", 0), "--limit: expected 1 or more, found 0")
        self.assert_says(refused("sciq", "--shots", -1), "--shots: expected 0 or more, found -1")
        self.write("bad.yaml", "name: bad\nkind: multiple_choice\nprompt:\n  text: \"{{q\"\n")
        self.assert_says(refused("bad.yaml"), "bad.yaml:4:9: prompt.text: expected what can be read")
        missing = refused("sciq,piqa", code=support.INPUT_ERROR)
        self.assert_says(missing, "data: files of sciq: expected in this folder", "sciq/test.json or sciq/test.jsonl", "SciQ.zip of")
        self.assert_says(refused("mmlu", code=support.INPUT_ERROR), "mmlu/test/abstract_algebra_test.csv", "and 109 more",
                         "tasks=[mmlu:SUBJECT] takes single subjects")
        self.write("data/sciq/test.jsonl", '{"question": "x"}\n{"question": \n')
        self.assert_says(refused("sciq", code=support.INPUT_ERROR), "data/sciq/test.jsonl:2: expected JSON, found its end")
        self.write("data/sciq/test.jsonl", '{"question": "x"}\n')
        self.assert_says(refused("sciq", code=support.INPUT_ERROR), "data/sciq/test.jsonl:1: expected the field distractor1")
        self.write_all(hub_files("gsm8k"))
        self.assert_says(refused("gsm8k", "--new-tokens", 512), "new tokens: expected 1 to less than the model's 512 positions")
        without = self.moh("eval", "--checkpoint", "run", "tasks=sciq", code=support.CONFIG_ERROR)
        self.assert_says(without, "data: expected data=DIR, the folder of the benchmarks' files")
        self.assert_says(self.moh("eval", "--checkpoint", "run", "--limit", 3, code=support.CONFIG_ERROR), "--limit: expected tasks=[...] beside it")
        self.write_all(hub_files("lambada"))
        said = self.eval("lambada", "--samples", "missing/folder.jsonl", code=support.STORAGE_ERROR)
        self.assert_says(said, "missing/", "create: expected success, found No such file or directory")
        self.assertNotIn("lambada", said)  # before the evaluation

    def test_the_list_names_each_benchmark_with_its_files(self):
        listed = self.moh("eval", "--list-tasks")
        self.assert_says(listed, "sciq              0-shot, sciq/test.json or sciq/test.jsonl", "paper_table_3     sciq, piqa, winogrande")
        self.assertEqual(len(listed.splitlines()), len(list((pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "configs/eval").glob("*.yaml"))))

    def test_a_signal_ends_it_between_two_batches_with_what_is_done(self):
        self.write_all({**hub_files("sciq", 4), **hub_files("hellaswag", 4000)})
        with (self.folder / "out").open("wb") as out:
            process = support.start(self.folder, "eval", "--checkpoint", "run", "tasks=[sciq,hellaswag]", "data=data", "--batch-tokens", 16,
                                    stdout=out)
        self.addCleanup(process.kill)
        # It says how far it is ten seconds after it began.
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while "eval: hellaswag, question" not in (self.folder / "out").read_text():
            self.assertIsNone(process.poll(), (self.folder / "out").read_text())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(support.TIMEOUT_SECONDS), INTERRUPTED)
        output = (self.folder / "out").read_text()
        self.assert_says(output, "sciq ", "stopped: further benchmarks were not run", "stopped by SIGINT; 1 benchmarks were finished", " left")

    @unittest.skipUnless(SHARED.exists(), "MOH_SHARED names no folder with data/cmmlu, gsm8k and wikitext2")
    def test_real_files(self):
        report = self.report("cmmlu:clinical_knowledge,cmmlu:jurisprudence,wikitext,gsm8k_cot", "--shots", 0, "--new-tokens", 4, "--limit", 20,
                             data=SHARED)["benchmarks"]
        self.assertEqual(report["cmmlu"]["questions"], 40)
        self.assertEqual(report["cmmlu"]["subjects"]["jurisprudence"]["questions"], 20)
        self.assertEqual(report["gsm8k_cot"]["questions"], 20)
        self.assertGreater(report["wikitext"]["scores"]["word_perplexity"]["value"], report["wikitext"]["scores"]["byte_perplexity"]["value"])
        found = self.samples("cmmlu:jurisprudence", "--limit", 1, data=SHARED)[0]
        self.assertEqual(found["continuations"], [" A", " B", " C", " D"])
        self.assertIn("以下是关于法理学的单项选择题，请直接给出正确答案的选项。\n\n下列选项中，属于私法的是\nA. 国际法\n", found["contexts"][0])
        self.assertTrue(found["contexts"][0].endswith("\n答案："))


if __name__ == "__main__":
    unittest.main()

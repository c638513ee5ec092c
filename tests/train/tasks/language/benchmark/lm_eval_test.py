"""moh eval tasks=[...] against lm-evaluation-harness, with its own configurations of the benchmarks, on small made-up files: the same prompts,
examples and continuations, the same log-likelihoods of a Mixture-of-Head model that transformers opens, the same scores."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[4] / "support"
sys.path += [str(SUPPORT), str(SUPPORT.parent / "cli")]
import python_packages  # noqa: E402

python_packages.require("torch", "transformers", "accelerate", "lm_eval")  # first: it may begin again under another Python

FOLDER = tempfile.TemporaryDirectory()
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=FOLDER.name + "/hf_home", TOKENIZERS_PARALLELISM="false",
                  DISABLE_MULTIPROC="1", TQDM_DISABLE="1", LOGLEVEL="ERROR")

import lm_eval  # noqa: E402
import support  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from benchmark_files import SUBJECTS, hub_files, json_lines, records  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

HARNESS = pathlib.Path(lm_eval.__file__).parent / "tasks"
# The configuration of each benchmark in the harness, and the parts of its data set.
CONFIGS = {
    "sciq": ("sciq/sciq.yaml", ("test", "train")),
    "piqa": ("piqa/piqa.yaml", ("validation", "train")),
    "winogrande": ("winogrande/default.yaml", ("validation", "train")),
    "openbookqa": ("openbookqa/openbookqa.yaml", ("test", "train")),
    "logiqa": ("logiqa/logiqa.yaml", ("test", "train")),
    "truthfulqa_mc1": ("truthfulqa/truthfulqa_mc1.yaml", ("validation",)),
    "truthfulqa_mc2": ("truthfulqa/truthfulqa_mc2.yaml", ("validation",)),
    "hellaswag": ("hellaswag/hellaswag.yaml", ("validation", "train")),
    "arc_easy": ("arc/arc_easy.yaml", ("test", "train")),
    "arc_challenge": ("arc/arc_challenge.yaml", ("test", "train")),
    "boolq": ("super_glue/boolq/default.yaml", ("validation", "train")),
    "lambada": ("lambada/lambada_openai.yaml", ("test",)),
    "nq": ("nq_open/nq_open.yaml", ("validation", "train")),
    "gsm8k": ("gsm8k/gsm8k.yaml", ("test", "train")),
    "gsm8k_cot": ("gsm8k/gsm8k-cot.yaml", ("test",)),
    "mmlu": ("mmlu/default/mmlu_anatomy.yaml", ("test", "dev")),
    "ceval": ("ceval/ceval-valid_accountant.yaml", ("val", "dev")),
    "cmmlu": ("cmmlu/cmmlu_jurisprudence.yaml", ("test", "dev")),
    "wikitext": ("wikitext/wikitext.yaml", ("test", "train", "validation")),
}
# Of other numbers, too: those of the paper need more positions than this model has.
SHOTS = {name: 3 for name in CONFIGS} | {"truthfulqa_mc1": 0, "truthfulqa_mc2": 0, "lambada": 0, "wikitext": 0, "sciq": 0, "hellaswag": 7,
                                         "gsm8k_cot": 8, "arc_challenge": 25}
METRICS = {"mass": "acc"}  # whose name differs in the harness
QUESTIONS = 6
NEW_TOKENS = 24
TOLERANCE = 2e-5  # of a log-likelihood, in nats


def of_harness(name, part):
    """Records as the harness's data set has them."""
    base = name.rsplit("_mc", 1)[0].replace("gsm8k_cot", "gsm8k")
    rows = records(base, "train" if part in ("train", "dev") else "test", 40 if part in ("train", "dev") else QUESTIONS)
    if name == "mmlu":
        return [{"question": row["question"], "choices": [row[letter] for letter in "ABCD"], "answer": "ABCD".index(row["answer"])}
                for row in rows]
    if name == "cmmlu":
        return [{key.capitalize(): value for key, value in row.items()} for row in rows]
    return rows


class AgainstTheHarness(support.MohTest):
    @classmethod
    def setUpClass(cls):
        cls.configs = pathlib.Path(FOLDER.name) / "configs"
        cls.configs.mkdir()
        for name, (config, parts) in CONFIGS.items():
            data = {}
            for part in parts:
                data[part] = str(cls.configs / f"{name}_{part}.jsonl")
                pathlib.Path(data[part]).write_text(json_lines(of_harness(name, part)))
            lines = [f"include: {HARNESS / config}", f"task: local_{name}", "dataset_path: json", "dataset_name: null",
                     f"dataset_kwargs: {{data_files: {json.dumps(data)}}}", f"num_fewshot: {SHOTS[name]}", "tag: null"]
            (cls.configs / f"{name}.yaml").write_text("\n".join(lines) + "\n")
        cls.manager = TaskManager(include_path=str(cls.configs), include_defaults=False)

    def setUp(self):
        super().setUp()
        names = {name.rsplit("_mc", 1)[0].replace("gsm8k_cot", "gsm8k") for name in CONFIGS}
        for name in names:
            for path, contents in hub_files(name, QUESTIONS).items():
                self.write(f"data/{path}", contents)
        self.train({"model.max_positions": 1024, "train.steps": 20, "optim.learning_rate": 0.01, "eval.every": 0, "checkpoint.every": 20})
        self.moh("convert", "--from", "run", "--to", "exported", "--format", "hf")

    def ours(self, name):
        """(report of the benchmark, samples) of moh."""
        asked = f"{name}:{SUBJECTS[name]}" if name in SUBJECTS else name
        output = self.moh("eval", "--checkpoint", "run", f"tasks=[{asked}]", "data=data", "--shots", SHOTS[name], "--new-tokens", NEW_TOKENS,
                          "--samples", "samples.jsonl", "--json")
        report = json.loads(output.splitlines()[-1])["benchmarks"][name]
        return report, [json.loads(line) for line in (self.folder / "samples.jsonl").read_text().splitlines()]

    def theirs(self, name, model):
        done = lm_eval.simple_evaluate(model=model, tasks=[f"local_{name}"], task_manager=self.manager, log_samples=True, bootstrap_iters=10,
                                       gen_kwargs={"max_gen_toks": NEW_TOKENS})
        return done["results"][f"local_{name}"], done["samples"][f"local_{name}"]

    def check_question(self, name, ours, theirs):
        arguments = [tuple(call[key] for key in sorted(call)) for call in theirs["arguments"].values()] \
            if isinstance(theirs["arguments"], dict) else theirs["arguments"]
        contexts = ours["contexts"]
        if "text" in ours:
            self.assertEqual(contexts[0], arguments[0][0])
            self.assertEqual(ours["text"], theirs["resps"][0][0])
            return
        if name == "wikitext":
            self.assertEqual(ours["continuations"], [arguments[0][0]])
        else:
            pairs = list(zip(contexts if len(contexts) > 1 else contexts * len(arguments), ours["continuations"]))
            self.assertEqual(pairs, [(context, continuation) for context, continuation in arguments])
        for found, response, greedy in zip(ours["log_likelihoods"], theirs["resps"], ours["is_greedy"]):
            expected = response[0] if isinstance(response[0], (list, tuple)) else (response[0], None)
            scale = 1 + abs(float(expected[0])) / 100  # of long texts
            self.assertAlmostEqual(found, float(expected[0]), delta=TOLERANCE * scale)
            if expected[1] is not None and name != "wikitext":
                self.assertEqual(greedy, expected[1] in (True, "True"))

    def check_scores(self, name, ours, results, samples):
        for metric, found in ours["scores"].items():
            base, _, way = metric.partition(",")
            theirs = METRICS.get(base, base)
            key = f"{theirs},{way or 'none'}"
            if key not in results:
                key = next(each for each in results if each.startswith(theirs + ","))
            self.assertAlmostEqual(found["value"], results[key], delta=1e-4 * max(1, abs(results[key])))
            error = results.get(key.replace(",", "_stderr,", 1))
            if base in ("acc", "acc_norm", "exact_match", "mass"):
                self.assertAlmostEqual(found["stderr"], error, delta=1e-4)
        for own in samples:
            self.assertEqual(set(own["scores"]), set(ours["scores"]))

    def test_prompts_log_likelihoods_and_scores(self):
        model = HFLM(pretrained=str(self.folder / "exported"), device="cpu", dtype="float32", trust_remote_code=True, batch_size=4)
        varied = set()
        for name in CONFIGS:
            with self.subTest(name):
                report, samples = self.ours(name)
                results, theirs = self.theirs(name, model)
                # A sample for each way to find an answer; the questions are the same.
                theirs = sorted({each["doc_id"]: each for each in theirs}.values(), key=lambda each: each["doc_id"])
                self.assertEqual(len(samples), QUESTIONS)
                self.assertEqual(len(theirs), QUESTIONS)
                for own, other in zip(samples, theirs):
                    self.check_question(name, own, other)
                    for metric in ("acc", "acc_norm"):
                        if metric in own["scores"] and metric in other:
                            self.assertEqual(own["scores"][metric], other[metric], f"{metric} of {own['place']}")
                            varied.add((metric, own["scores"][metric]))
                self.check_scores(name, report, results, samples)
        self.assertEqual(varied, {("acc", 0), ("acc", 1), ("acc_norm", 0), ("acc_norm", 1)})  # else this test says little


if __name__ == "__main__":
    unittest.main()

"""The client of lm-evaluation-harness, as it comes from PyPI, against moh serve: its scores are what the log-probabilities say."""

import json
import math
import os
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "tests" / "support"), str(pathlib.Path(__file__).resolve().parent)]
import python_packages  # noqa: E402

python_packages.require("lm_eval", "aiohttp", "tenacity", "datasets")
CACHE = tempfile.TemporaryDirectory()
os.environ.update(HF_HOME=CACHE.name, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

from lm_eval.tasks import TaskManager  # noqa: E402

sys.path.append(str(SOURCE / "scripts"))  # last: its lm_eval.py is no package
import serve_support  # noqa: E402
import support  # noqa: E402
from lm_harness import harness  # noqa: E402

POSITIONS = 4096

CHOICE_TASK = """\
task: small_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/choice.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: label
target_delimiter: " "
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""

ROLLING_TASK = """\
task: {task}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/{file}}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: text
metric_list: [{{metric: word_perplexity}}, {{metric: byte_perplexity}}, {{metric: bits_per_byte}}]
"""

GENERATE_TASK = """\
task: small_generation
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/choice.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: question
generation_kwargs: {{until: [" of"], do_sample: false, temperature: 0.0, max_gen_toks: 40}}
metric_list: [{{metric: exact_match}}]
"""


class LmEval(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train({**serve_support.MODEL, "model.max_positions": POSITIONS})
        self.server = serve_support.Server(self)

    def evaluate(self, *tasks, batch_size=1, num_concurrent=1, max_length=POSITIONS, limit=None, **model):
        arguments = {"model": "moh", "base_url": self.server.url + "/v1/completions", "num_concurrent": num_concurrent,
                     "max_length": max_length, **model}
        return harness.evaluate(
            model="local-completions", model_args=arguments, tasks=list(tasks), batch_size=batch_size, limit=limit,
            task_manager=TaskManager(include_path=str(self.folder / "tasks"), include_defaults=False), log_samples=True,
            bootstrap_iters=0)

    def write_task(self, task, text, **values):
        self.write(f"tasks/{task}.yaml", text.format(folder=self.folder, task=task, **values))

    def write_questions(self, count=9):
        lines = []
        for i in range(count):
            words = support.text_of_words(4, seed=i).split()
            choices = [words[3], "東京", "a head", "x"]
            lines.append(json.dumps({"question": " ".join(words[:3]), "choices": choices, **dict(zip("abcd", choices)),
                                     "label": i % 4}))
        self.write("choice.jsonl", "\n".join(lines))

    def score(self, context, continuation):
        """The log-likelihood of bytes after others, and whether they are the most probable ones, token by token."""
        total, greedy, context = 0.0, True, list(context)
        for token in continuation:
            (choice,) = self.server.complete(context, max_tokens=1, temperature=0, logprobs=20)["choices"]
            best = choice["logprobs"]
            context.append(token)
            (choice,) = self.server.complete(context, max_tokens=0, logprobs=0, echo=True)["choices"]
            total += choice["logprobs"]["token_logprobs"][-1]
            greedy = greedy and best["tokens"][0] == choice["logprobs"]["tokens"][-1]
        return total, greedy

    def test_multiple_choice(self):
        self.write_questions()
        self.write_task("small_choice", CHOICE_TASK)
        results = {}
        for batch_size, num_concurrent in ((1, 1), (3, 1), (2, 3)):
            results[batch_size, num_concurrent] = self.evaluate("small_choice", batch_size=batch_size,
                                                                num_concurrent=num_concurrent)
        first = results[1, 1]
        correct = 0
        for sample in first["samples"]["small_choice"]:
            document = sample["doc"]
            found = [(float(value), greedy) for ((value, greedy),) in sample["resps"]]
            wanted = [self.score(document["question"].encode(), f" {choice}".encode()) for choice in document["choices"]]
            for (value, greedy), (expected, is_greedy) in zip(found, wanted):
                self.assertAlmostEqual(value, expected, delta=1e-6 * max(1, abs(expected)))
                self.assertEqual(greedy, is_greedy)
            values = [value for value, _ in wanted]
            correct += values.index(max(values)) == document["label"]
        self.assertAlmostEqual(first["results"]["small_choice"]["acc,none"], correct / 9)
        for other in results.values():  # batches and clients at once change no bit
            self.assertEqual([sample["resps"] for sample in other["samples"]["small_choice"]],
                             [sample["resps"] for sample in first["samples"]["small_choice"]])

    def test_generation(self):
        self.write_questions()
        self.write_task("small_generation", GENERATE_TASK)
        for num_concurrent in (1, 4):
            found = self.evaluate("small_generation", num_concurrent=num_concurrent)
            for sample in found["samples"]["small_generation"]:
                (choice,) = self.server.complete(sample["doc"]["question"], max_tokens=40, temperature=0,
                                                 stop=[" of"])["choices"]
                self.assertEqual(sample["resps"][0][0], choice["text"])

    def test_rolling_perplexity(self):
        text = support.text_of_words(400)
        self.write("text.jsonl", json.dumps({"text": text}))
        self.write_task("small_rolling", ROLLING_TASK, file="text.jsonl")
        max_length = 130
        found = self.evaluate("small_rolling", max_length=max_length)
        # Windows of max_length - 2 tokens, each after the token before it, the first after the one that ends documents.
        data, total, step = text.encode(), 0.0, max_length - 2
        for begin in range(0, len(data), step):
            before = data[begin - 1:begin] if begin else b"\0"
            window = list(before + data[begin:begin + step])
            if begin + step > len(data):  # the last one is made longer, by tokens whose scores do not count
                end = len(data)
                window = list(data[end - step - 1:end])
                (choice,) = self.server.complete([window], max_tokens=1, logprobs=1, echo=True)["choices"]
                total += sum(choice["logprobs"]["token_logprobs"][-1 - (end - begin):-1])
            else:
                (choice,) = self.server.complete([window], max_tokens=1, logprobs=1, echo=True)["choices"]
                total += sum(choice["logprobs"]["token_logprobs"][1:-1])
        results = found["results"]["small_rolling"]
        self.assertAlmostEqual(results["bits_per_byte,none"], -total / len(data) / math.log(2), delta=1e-6)


if __name__ == "__main__":
    python_packages.main()

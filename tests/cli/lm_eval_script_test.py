"""scripts/lm_eval.py: all benchmarks of the paper, from small made-up files through moh serve. The log-likelihoods and texts are those that
lm-evaluation-harness computes itself of the same model in transformers, the scores follow from them, and what is missing is said."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "tests" / "support"), str(pathlib.Path(__file__).resolve().parent)]
import python_packages  # noqa: E402

python_packages.require("torch", "transformers", "accelerate", "lm_eval", "aiohttp", "tenacity", "datasets")
CACHE = tempfile.TemporaryDirectory()
os.environ.update(HF_HOME=CACHE.name, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")

import lm_eval  # noqa: E402

sys.path.append(str(SOURCE / "scripts"))  # last: its lm_eval.py is no package
import support  # noqa: E402
from benchmark_files import SUBJECTS, files_of  # noqa: E402
from lm_harness import harness, local_tasks, report  # noqa: E402
from lm_harness.benchmarks import BENCHMARKS  # noqa: E402
from lm_harness.paper import GROUPS, TABLES  # noqa: E402

SCRIPT = SOURCE / "scripts/lm_eval.py"
HARNESS = pathlib.Path(lm_eval.__file__).parent / "tasks"
QUESTIONS, NEW_TOKENS = 4, 16
TOLERANCE = 2e-5  # of a log-likelihood, in nats
# Other numbers of examples than the paper's where those need more positions than the small model has.
FEW = ("piqa", "winogrande", "openbookqa", "logiqa", "hellaswag", "arc_easy", "boolq", "nq", "gsm8k", *(f"{name}:{subject}" for name, subject in SUBJECTS.items()))
OWN = ("sciq", "truthfulqa", "lambada", "gsm8k_cot", "arc_challenge", "wikitext")


class WithData(support.MohTest):
    def setUp(self):
        super().setUp()
        for name in BENCHMARKS:
            for path, contents in files_of(name, QUESTIONS).items():
                self.write(f"data/{path}", contents)
        self.train({"model.max_positions": 4096, "train.steps": 20, "optim.learning_rate": 0.01, "eval.every": 0, "checkpoint.every": 20})

    def words(self, *arguments):
        return [sys.executable, "-B", str(SCRIPT), "--checkpoint", "run", "--data", "data", "--moh", support.MOH, "--python", sys.executable,
                *map(str, arguments)]

    def script(self, *arguments, code=0):
        done = subprocess.run(self.words(*arguments), cwd=self.folder, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr


class Scores(WithData):
    def by_harness(self, model, tasks):
        """{task: samples} of the harness and transformers."""
        from lm_eval.tasks import TaskManager

        folder = self.folder / "tasks"
        folder.mkdir(exist_ok=True)
        for task in tasks:
            (folder / f"{task['task']}.yaml").write_text(json.dumps(task))
        found = harness.evaluate(model=model, tasks=[task["task"] for task in tasks], log_samples=True, bootstrap_iters=0,
                                 task_manager=TaskManager(include_path=str(folder), include_defaults=False),
                                 gen_kwargs={"max_gen_toks": NEW_TOKENS})
        return found["samples"], found["results"]

    def compare_samples(self, ours, theirs):
        self.assertEqual(len(ours), len(theirs))
        pairs = zip(*(sorted(samples, key=lambda each: (each["doc_id"], each["filter"])) for samples in (ours, theirs)))
        for our, their in pairs:
            self.assertEqual(our["doc_id"], their["doc_id"])
            self.assertEqual(json.dumps(our["arguments"]), json.dumps(their["arguments"], default=str))
            for found, expected in zip(our["resps"], their["resps"]):
                if isinstance(expected[0], str):
                    self.assertEqual(found, list(expected))
                    continue
                value, greedy = expected[0] if isinstance(expected[0], (list, tuple)) else (expected[0], None)
                response = found[0] if isinstance(found[0], list) else [found[0], None]
                self.assertAlmostEqual(float(response[0]), float(value), delta=TOLERANCE * (1 + abs(float(value)) / 100))
                if greedy is not None:
                    self.assertEqual(str(response[1]), str(greedy))

    def test_scores_are_those_of_the_harness_and_transformers(self):
        import torch
        from lm_eval.models.huggingface import HFLM

        torch.set_num_threads(1)
        self.moh("convert", "--from", "run", "--to", "exported", "--format", "hf")
        model = HFLM(pretrained=str(self.folder / "exported"), device="cpu", dtype="float32", trust_remote_code=True, batch_size=4)
        for names, shots in ((FEW, 3), (OWN, None)):
            options = () if shots is None else ("--shots", shots)
            found = json.loads(self.script("--tasks", ",".join(names), *options, "--new-tokens", NEW_TOKENS, "--samples", "samples.jsonl", "--json"))
            samples = [json.loads(line) for line in (self.folder / "samples.jsonl").read_text().splitlines()]
            asked = [pair for name in names for pair in self.asked(name)]
            tasks = local_tasks.local_tasks(asked, self.folder / "data", shots, HARNESS)
            theirs, results = self.by_harness(model, list(tasks.values()))
            for (name, _), task in tasks.items():
                with self.subTest(name):
                    self.compare_samples([each for each in samples if each["task"] == task["task"]], theirs[task["task"]])
                    value = results[task["task"]][BENCHMARKS[name].score]
                    self.assertAlmostEqual(found["benchmarks"][name]["score"], value, delta=1e-4 * max(1, abs(value)))
                    self.assertEqual(found["benchmarks"][name]["questions"], QUESTIONS)
                    self.assertEqual(found["benchmarks"][name]["shots"], BENCHMARKS[name].shots if shots is None else shots)
        truthful = found["benchmarks"]
        self.assertAlmostEqual(truthful["truthfulqa"]["score"], (truthful["truthfulqa_mc1"]["score"] + truthful["truthfulqa_mc2"]["score"]) / 2)

    def asked(self, name):
        base, _, subject = name.partition(":")
        return [(leaf, subject or None) for leaf in BENCHMARKS[base].members or (base,)]


class Script(WithData):
    def test_tables_are_printed_beside_the_paper(self):
        printed = self.script("--tasks", "paper_table_3", "--limit", 2)
        table = TABLES["paper_table_3"]
        lines = printed.splitlines()
        header = next(line for line in lines if line.split()[-1:] == ["average"])
        self.assertEqual(header.split(), [*table.benchmarks, "average"])
        for model, scores in table.models.items():
            row = next(line for line in lines if line.startswith(model))
            self.assertEqual(row.removeprefix(model).split(), [f"{score:.1f}" for score in scores])
        ours = [float(cell) for cell in next(line for line in lines if line.startswith("run ")).split()[1:]]
        self.assertAlmostEqual(ours[-1], sum(ours[:-1]) / 6, delta=0.06)
        self.assertIn("these scores are no result", printed)

    def test_a_task_of_ones_own(self):
        self.write("own.jsonl", "".join(json.dumps({"question": f"the {i}", "choices": ["a", "head"], "label": i % 2}) + "\n" for i in range(4)))
        self.write("own.yaml", json.dumps({
            "task": "own", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "own.jsonl"}}, "test_split": "test",
            "output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_choice": "{{choices}}", "doc_to_target": "label",
            "metric_list": [{"metric": "acc"}]}))
        found = json.loads(self.script("--tasks", "own.yaml,sciq", "--json"))
        self.assertIn(found["others"]["own"]["acc,none"], (0, 0.25, 0.5, 0.75, 1))
        self.assertEqual(list(found["benchmarks"]), ["sciq"])

    def test_what_is_missing_is_said(self):
        (self.folder / "data/sciq/test.jsonl").unlink()
        said = self.script("--tasks", "sciq,mmlu", code=1)
        self.assert_says(said, "data/sciq/test.jsonl", "load_dataset(\"allenai/sciq\")", "mmlu/SUBJECT/", " more")
        self.assert_says(self.script("--tasks", "sciqs", code=1), "--tasks: expected names among paper,", "found 'sciqs'")
        self.assert_says(self.script("--tasks", "mmlu:heads", code=1), "mmlu: expected one of the subjects", "found 'heads'")
        self.assert_says(self.script("--tasks", "piqa", "--python", self.bare_python(), code=1), "expected the packages lm_eval,",
                         "scripts/pytorch_venv.sh")
        self.assert_says(self.script("--tasks", "piqa", "--checkpoint", "nowhere", code=1), "moh serve ended with code 3 before it served",
                         "nowhere")
        self.assert_says(self.script("--tasks", "piqa", "--moh", "nothing", code=1), "--moh: ", "build it")

    def bare_python(self):
        """A Python without packages."""
        path = self.write("bare", f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
        path.chmod(0o755)
        return str(path)

    def test_a_server_that_ends_ends_the_evaluation(self):
        # Long texts, so that it is not over before.
        self.write("data/piqa/validation.jsonl", "".join(json.dumps({"goal": "the head " * 40, "sol1": f"{i} " * 100, "sol2": "b", "label": 0}) + "\n"
                                                         for i in range(3000)))
        process = subprocess.Popen(self.words("--tasks", "piqa"), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        said = []
        reader = threading.Thread(target=lambda: said.extend(process.stderr), daemon=True)
        reader.start()
        server = self.served_by(process)
        os.kill(server, signal.SIGKILL)
        self.assertEqual(process.wait(support.TIMEOUT_SECONDS), 1)
        reader.join(10)
        self.assert_says("".join(said), "moh serve ended with code -9 while it was asked")

    def served_by(self, process):
        """The process of the server that answers a request of the script's harness."""
        end = time.monotonic() + support.TIMEOUT_SECONDS
        while time.monotonic() < end:
            for child in subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(process.pid)], capture_output=True, text=True,
                                        check=False).stdout.splitlines():
                number, words = child.split(maxsplit=1)
                harness = subprocess.run(["ps", "-o", "args=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False).stdout
                if " serve " in words and "harness.py" in harness:
                    return int(number)
            time.sleep(0.1)
        self.fail("no server was asked")


class Tables(unittest.TestCase):
    """What the paper says, and how scores of subjects become one."""

    def test_averages_are_the_means_of_the_benchmarks(self):
        for name, table in TABLES.items():
            for model, scores in table.models.items():
                with self.subTest(table=name, model=model):
                    self.assertEqual(len(scores), len(table.benchmarks) + 1)
                    self.assertAlmostEqual(scores[-1], sum(scores[:-1]) / len(table.benchmarks), delta=0.11)
        for members in GROUPS.values():
            self.assertLessEqual(set(members), set(BENCHMARKS))

    def test_subjects_count_by_their_questions(self):
        parts = [{"score": 1.0, "stderr": 0.0, "questions": 1}, {"score": 0.5, "stderr": 0.1, "questions": 3}]
        pooled = report.pooled(parts)
        self.assertAlmostEqual(pooled["score"], 0.625)
        self.assertAlmostEqual(pooled["stderr"], (2 * 0.01 * 3 / 2 / 4) ** 0.5)


if __name__ == "__main__":
    named = os.environ.get("MOH_TEST_CASES")  # classes of this file; all without it
    python_packages.main(defaultTest=named.split(",") if named else None)

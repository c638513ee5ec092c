"""task: translation as a user meets it: from parallel text to a model and its evaluation."""

import json
import math
import time

import ranks
import support
import translation_support
from ports import free_port

MAX_LOSS_DIFFERENCE = 1e-5


class Translation(translation_support.TranslationTest, ranks.RanksTest):
    def evaluations(self, run="run"):
        return [record for record in support.metrics(self.folder / run) if record["kind"] == "eval"]

    def test_it_learns_and_says_what_it_left_out(self):
        with open(self.folder / "pairs.tsv", "a", encoding="utf-8") as pairs:
            pairs.write(f"\tempty\nsame\tsame\n{self.pairs[0][0]}\t{self.pairs[0][1]}\nx\tvery much longer\n{'long ' * 12}\t{'lang ' * 12}\n")
        output = self.moh("train", "run.yaml", "train.steps=120", "loss.label_smoothing=0.1")
        self.assert_says(output, "left out pairs: ", "1 empty", "1 equal", "1 duplicate", "1 length ratio above 4", "1 longer than 48 tokens",
                         "1 + 1 layers, 4 heads of 8", "tok/s", "best validation loss")
        trained = [record for record in support.metrics(self.folder / "run") if record["kind"] == "train"]
        self.assertLess(trained[-1]["nll"], trained[0]["nll"] - 2)
        self.assertLess(trained[-1]["nll"], trained[-1]["loss"])  # what is smoothed cannot be learnt to nothing
        self.assertGreater(trained[-1]["balance_loss"], 0)
        self.assertLessEqual(trained[-1]["tokens"], 120 * 2 * 96)
        evaluated = self.evaluations()
        self.assertEqual(len(evaluated), 6)
        self.assertAlmostEqual(evaluated[-1]["perplexity"], math.exp(evaluated[-1]["nll"]), places=6)
        self.assertLess(evaluated[-1]["nll"], evaluated[0]["nll"])
        rates = {record["step"]: record["learning_rate"] for record in trained}
        self.assertAlmostEqual(rates[91] / rates[41], math.sqrt(40 / 90), places=9)

    def test_an_evaluation_repeats_that_of_the_training(self):
        self.moh("train", "run.yaml")
        last = self.evaluations()[-1]
        output = self.moh("eval", "--checkpoint", "run")
        self.assertAlmostEqual(float(output.split("loss")[1].split()[0]), last["loss"], delta=1e-6)
        self.assert_says(output, "perplexity", "target tokens", "sentence pairs")
        # Pairs of its own, whole: a line that occurs twice counts twice.
        self.write("held_out.tsv", "red house\trot Haus\nred house\trot Haus\none\teins\n")
        targets = 2 * len("rot Haus") + len("eins") + 3
        self.assert_says(self.moh("eval", "--checkpoint", "run", "data=held_out.tsv"), f"{targets} of {targets} target tokens, 3 sentence pairs")
        self.write("held_out.en", "one\ntwo\n")
        self.write("held_out.de", "eins\nzwei\n")
        self.assert_says(self.moh("eval", "--checkpoint", "run", "data.validation=held_out.en", "data.validation_targets=held_out.de"),
                         "2 sentence pairs")

    def test_a_killed_run_resumes_bit_for_bit(self):
        self.moh("train", "run.yaml", "output.dir=whole")
        with open(self.folder / "log", "wb") as log:
            process = support.start(self.folder, "train", "run.yaml", "checkpoint.every=1", stdout=log)
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while not (self.folder / "run/checkpoints").is_dir() or not self.checkpoints():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        process.kill()
        process.wait()
        self.moh("train", "run.yaml", "--resume")
        self.assert_same_state("whole", "run")

    def test_a_run_goes_on_with_other_threads_but_not_with_other_pairs(self):
        self.moh("train", "run.yaml", "output.dir=whole")
        self.moh("train", "run.yaml", "train.steps=20")
        self.moh("train", "run.yaml", "--resume", "threads=2")  # longer: the schedule has no end
        self.assert_same_state("whole", "run")
        self.write("pairs.tsv", "".join(f"{source}\t{target}!\n" for source, target in self.pairs))
        message = self.moh("train", "run.yaml", "--resume", "train.steps=50", code=support.INPUT_ERROR)
        self.assert_says(message, "data.train", "pairs")

    def test_two_processes_make_the_steps_of_one(self):
        self.moh("train", "run.yaml", "output.dir=alone", "model.dropout=0", "train.accumulate=4")
        for run in ("two", "again"):
            port = free_port()
            arguments = ("train", "run.yaml", f"output.dir={run}", "model.dropout=0", "train.accumulate=4")
            started = [self.start(rank, 2, port, *arguments) for rank in range(2)]
            for rank, process in enumerate(started):
                self.assertEqual(process.wait(support.TIMEOUT_SECONDS), support.DONE, self.output(rank))
        self.assert_same_state("two", "again")
        for one, two in zip(support.losses(self.folder / "alone"), support.losses(self.folder / "two"), strict=True):
            self.assertAlmostEqual(one, two, delta=MAX_LOSS_DIFFERENCE)
        for one, two in zip(self.evaluations("alone"), self.evaluations("two"), strict=True):
            self.assertAlmostEqual(one["nll"], two["nll"], delta=MAX_LOSS_DIFFERENCE)

    def test_files_of_every_form_give_the_same_run(self):
        self.write("a.en", "".join(f"{source}\n" for source, _ in self.pairs))
        self.write("a.de", "".join(f"{target}\n" for _, target in self.pairs))
        self.write("a.jsonl", "".join(json.dumps({"translation": {"en": source, "de": target}}) + "\n" for source, target in self.pairs))
        self.moh("train", "run.yaml", "train.steps=3")
        self.moh("train", "run.yaml", "train.steps=3", "output.dir=lines", "data.train=a.en", "data.train_targets=a.de")
        self.moh("train", "run.yaml", "train.steps=3", "output.dir=json", "data.train=a.jsonl", "data.source_key=translation.en",
                 "data.target_key=translation.de")
        self.assert_same_state("run", "lines")
        # Files may lie elsewhere when a run resumes.
        for name in ("a.en", "a.de"):
            (self.folder / name).rename(self.folder / f"moved_{name}")
        self.moh("train", "run.yaml", "train.steps=4", "output.dir=lines", "data.train=moved_a.en", "data.train_targets=moved_a.de", "--resume")
        self.assert_same_state("run", "json")

    def test_the_plan_is_what_a_step_takes(self):
        sizes = ("data.batch_tokens=1024", "model.hidden=128", "model.intermediate=512", "model.vocab_size=1000", "model.encoder_layers=2")
        for heads in ((), ("model.moh.router=none", "model.moh.num_shared=0", "model.moh.top_k=0"), ("model.recompute=layer",)):
            with self.subTest(heads=heads):
                plan = json.loads(self.moh("plan", "run.yaml", *sizes, *heads, "--json"))
                step = json.loads(self.moh("bench", "step", "run.yaml", *sizes, *heads, "--random-data", "--steps", 2, "--warmup", 1, "--no-peaks", "--json"))
                (configured,) = [choice for choice in plan["recompute"].values() if choice["configured"]]
                for purpose, measured in step["peak_bytes"].items():
                    self.assertAlmostEqual(configured["peak_bytes"][purpose], measured, delta=0.05 * measured, msg=purpose)
                self.assertEqual(plan["parameters"], step["parameters"])

    def test_the_plan_counts_the_keys_of_the_sentences(self):
        def flops_per_token(*settings):
            return json.loads(self.moh("plan", "run.yaml", "data.batch_tokens=1024", *settings, "--json"))["flops_per_token"]
        dense = ("model.moh.router=none", "model.moh.num_shared=0", "model.moh.top_k=0")
        for heads, active in ((dense, 4), ((), 3)):
            # Made-up sentences of 32 tokens, and of 16: a token of the encoder sees 16 keys less, and as many in the source; one of the
            # decoder 8 less. A key is 4 operations for each element of an active head, and twice as many in the backward pass.
            fewer = (16 + 8 + 16) * 3 * 4 * active * 8
            self.assertAlmostEqual(flops_per_token(*heads) - flops_per_token(*heads, "data.max_length=16"), fewer, places=3)

    def test_epochs_count_token_batches(self):
        output = self.moh("train", "run.yaml", "train.epochs=2", "eval.every_epochs=1", "checkpoint.every=0")
        self.assertEqual(len(self.evaluations()), 2)
        steps = self.evaluations()[-1]["step"]
        targets = [record for record in support.metrics(self.folder / "run") if record["kind"] == "train"][-1]["tokens"]
        train = sum(len(target) + 1 for _, target in self.pairs) * 0.8
        self.assertAlmostEqual(targets, 2 * train, delta=0.2 * train)
        self.assertGreater(steps, 10)
        self.assert_says(output, "tok/s")

    def test_what_does_not_fit_is_refused(self):
        for settings, code, message in (
            (("data.max_length=100",), support.CONFIG_ERROR, "data.max_length: expected at most model.max_positions (64), found 100"),
            (("data.train=pairs.tsv", "data.train_targets=[a, b]"), support.CONFIG_ERROR, "data.train_targets: expected a file for each of"),
            (("cuda_graph=true",), support.CONFIG_ERROR, "cuda_graph: expected false"),
            (("loss.label_smoothing=1.5",), support.CONFIG_ERROR, "loss.label_smoothing"),
            (("schedule.kind=inverse",), support.CONFIG_ERROR, "inverse_sqrt"),
            (("data.train=missing.tsv",), support.INPUT_ERROR, "missing.tsv"),
            (("data.max_length=2",), support.INPUT_ERROR, "data.train: sentence pairs to train on: expected at least 1"),
        ):
            with self.subTest(settings=settings):
                self.assert_says(self.moh("train", "run.yaml", *settings, code=code), message)
        self.write("broken.tsv", "one\teins\nno tab here\n")
        self.assert_says(self.moh("train", "run.yaml", "data.train=broken.tsv", code=support.INPUT_ERROR), "broken.tsv:2")


if __name__ == "__main__":
    support.main()

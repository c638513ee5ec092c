"""One folder holds one run: what may start there, go on there, or replace what is there."""

import fcntl
import json
import shutil
import signal
import socket

import support


class StartAndResume(support.MohTest):
    def test_resume_without_a_checkpoint_starts_at_the_beginning(self):
        self.assert_says(self.train({}, "--resume"), "no checkpoint in run yet; starting at step 0")
        self.train({}, "output.dir=other")
        self.assert_same_state("other", "run")

    def test_a_second_run_in_the_folder_is_refused(self):
        self.train()
        before = support.state_of(self.newest()), (self.folder / "run/metrics.jsonl").read_bytes()
        output = self.train({"seed": 9}, code=support.CONFIG_ERROR)
        self.assert_says(output, "output.dir: run: expected a folder without a run, found checkpoints up to step 8",
                         "--resume", "--overwrite")
        self.assertEqual((support.state_of(self.newest()), (self.folder / "run/metrics.jsonl").read_bytes()), before)

    def test_what_the_refusal_offers_first_loses_nothing(self):
        self.train()
        same = self.train({"seed": 9}, code=support.CONFIG_ERROR)
        self.assert_says(same, "checkpoints up to step 8 of tiny.yaml; continue it with --resume, or set another output.dir, such as "
                         "output.dir=run_2; --overwrite deletes the run of tiny.yaml, 8 steps of training, and starts over")
        self.moh("train", self.config({"train.steps": 4}, "other.yaml"), "output.dir=run_2")
        other = self.moh("train", "other.yaml", code=support.CONFIG_ERROR)
        self.assert_says(other, "checkpoints up to step 8 of tiny.yaml; set another output.dir, such as output.dir=run_3; --overwrite deletes "
                         "the run of tiny.yaml, 8 steps")
        self.assertNotIn("--resume", other)

    def test_another_family_in_the_folder_is_named(self):
        self.train()
        self.write("shapes.yaml", "task: image_classification\ndata: {drawn: 16}\nmodel: {classes: 8, image_size: 32}\noutput: {dir: run}\n")
        self.assert_says(self.moh("train", "shapes.yaml", code=support.CONFIG_ERROR),
                         "checkpoints up to step 8 of tiny.yaml (task: language_model); set another output.dir")

    def test_a_run_that_does_not_say_what_it_is_of(self):
        self.train()
        for config in ("model: [", "", None):
            path = self.folder / "run/config.yaml"
            path.unlink() if config is None else path.write_text(config)
            self.assert_says(self.train({"seed": 9}, code=support.CONFIG_ERROR), "checkpoints up to step 8; continue it with --resume",
                             "--overwrite deletes that run, 8 steps of training")

    def test_runs_of_two_families_have_folders_of_their_own(self):
        for task, folder in (("language_model", "llm"), ("image_classification", "vit"), ("diffusion", "dit")):
            self.write("quick.yaml", f"task: {task}\ndata: {{train: x}}\n")
            self.assert_says(self.moh("config", "quick.yaml"), f"dir: runs/{folder}/quick")
        self.write("configs/a/b/quick.yaml", "data: {train: x}\n")
        self.assert_says(self.moh("config", "configs/a/b/quick.yaml"), "dir: runs/a/b/quick")

    def test_overwrite_starts_over_and_keeps_what_is_not_the_run_s(self):
        self.train({"seed": 9, "train.steps": 12})
        self.write("run/notes.txt", "mine")
        self.train({}, "--overwrite")
        self.train({}, "output.dir=other")
        self.assert_same_state("other", "run")
        self.assert_same_history("other", "run")
        self.assertEqual((self.folder / "run/notes.txt").read_text(), "mine")

    def test_overwrite_removes_nothing_when_the_new_run_cannot_start(self):
        self.train()
        before = support.state_of(self.newest())
        self.train({"data.train": "missing.txt"}, "--overwrite", code=support.INPUT_ERROR)
        self.train({"data.train": "text.txt", "seed": -1}, "--overwrite", code=support.CONFIG_ERROR)
        self.assertEqual(support.state_of(self.newest()), before)
        self.assertTrue(support.metrics(self.folder / "run"))

    def test_overwrite_and_resume_exclude_each_other(self):
        self.train({}, "--overwrite", "--resume", code=support.CONFIG_ERROR)
        self.assertFalse((self.folder / "run").exists())

    def test_the_folder_holds_the_resolved_configuration(self):
        self.train()
        self.moh("train", "run/config.yaml", "output.dir=again")
        self.assert_same_state("run", "again")


    def test_a_folder_of_other_files_is_no_run_s(self):
        for name in ("config.yaml", "sample.txt", "metrics.jsonl"):
            mine = self.write(f"with_{name}/{name}", "precious: 1\n")
            for how in ((), ("--resume",), ("--overwrite",)):
                with self.subTest(name=name, how=how):
                    output = self.train({}, f"output.dir=with_{name}", *how, code=support.CONFIG_ERROR)
                    self.assert_says(output, f"output.dir: with_{name}: expected", f"found {name}, which is no run's",
                                     "set another output.dir")
                    self.assertEqual(mine.read_text(), "precious: 1\n")
                    self.assertEqual([path.name for path in mine.parent.iterdir()], [name])
        self.config(name="config.yaml")
        self.moh("train", "config.yaml", "output.dir=.", code=support.CONFIG_ERROR)
        # A run that was copied without its hidden files is one.
        self.train()
        (self.folder / "run/.lock").unlink()
        self.train({}, "--resume")

    def test_a_run_that_cannot_begin_leaves_no_folder(self):
        self.train({"data.train": "missing.txt"}, "output.dir=a/b", code=support.INPUT_ERROR)
        self.assertFalse((self.folder / "a").exists())
        self.write("notes/notes.txt", "mine")
        self.train({"data.train": "missing.txt"}, "output.dir=notes", code=support.INPUT_ERROR)
        self.assertEqual([path.name for path in (self.folder / "notes").iterdir()], ["notes.txt"])


class LostFolder(support.MohTest):
    """The folder of a run goes while it trains: it ends, and writes nothing under the old name."""

    def check(self, take_away, *overrides):
        config = self.config({"train.steps": 120})
        run = support.Running(self, "train", config, *overrides)
        run.read_until("step 5/")
        take_away(self.folder / "run")
        there = sorted((self.folder / "run").rglob("*"))
        self.assertEqual(run.wait(), support.STORAGE_ERROR, run.output)
        self.assert_says(run.output, "run: expected the run folder that this process locked", "--resume")
        self.assertEqual(sorted((self.folder / "run").rglob("*")), there)

    def test_removed(self):
        self.check(shutil.rmtree)
        self.check(shutil.rmtree, "log.every=5", "eval.every=0", "checkpoint.every=20")

    def test_moved(self):
        self.check(lambda run: run.rename(self.folder / "moved"))
        self.moh("train", "tiny.yaml", "--resume", "output.dir=moved")
        self.moh("train", "tiny.yaml", "output.dir=whole")
        self.assert_same_state("whole", "moved")
        self.assert_same_history("whole", "moved")

    def test_replaced_by_another_run(self):
        def replace(run):
            shutil.rmtree(run)
            self.moh("train", "tiny.yaml", "seed=5", "train.steps=8", "schedule.decay_steps=120")

        self.check(replace)


    def test_removed_while_a_checkpoint_is_written(self):
        """The operation that fails first names a file of a temporary folder; the run folder is what is missing."""
        run = support.Running(self, "train", self.config({"train.steps": 120}), env={"MOH_FAIL": "ckpt:after_write_1=stop"})
        run.wait_until_stopped()
        self.assertTrue(list((self.folder / "run/checkpoints").glob(".tmp-*")), "no checkpoint is being written")
        shutil.rmtree(self.folder / "run")
        run.send(signal.SIGCONT)
        self.assertEqual(run.wait(), support.STORAGE_ERROR, run.output)
        self.assert_says(run.output, "run: expected the run folder that this process locked", "--resume")
        self.assertFalse((self.folder / "run").exists())


class Links(support.MohTest):
    def test_a_link_in_a_run_folder_is_not_followed(self):
        for name in (".lock", "metrics.jsonl"):
            for resume in (False, True):
                with self.subTest(name=name, resume=resume):
                    run = self.folder / f"run{name}{resume}"
                    if resume:
                        self.train({}, f"output.dir={run.name}")
                        (run / name).unlink()
                    run.mkdir(exist_ok=True)
                    if name != ".lock":
                        (run / ".lock").touch()  # the folder is a run's
                    mine = self.write("mine.txt", "precious, and without a newline at its end")
                    (run / name).symlink_to(mine)
                    output = self.train({}, f"output.dir={run.name}", *(["--resume"] if resume else []),
                                        code=support.STORAGE_ERROR)
                    self.assert_says(output, name, "found a symbolic link")
                    self.assertEqual(mine.read_text(), "precious, and without a newline at its end")


class Samples(support.MohTest):
    """The folder of the pictures that a run draws."""

    def setUp(self):
        super().setUp()
        self.write("dit.yaml", f"seed: 3\nthreads: 1\ntask: diffusion\noutput: {{dir: run}}\n{support.TINY_DIT}"
                   "data: {drawn: 16, drawn_validation: 8}\ntrain: {steps: 2, batch_size: 4}\n"
                   "optim: {learning_rate: 0.003}\nschedule: {warmup_steps: 1}\neval: {every: 1}\n"
                   "sample: {pictures: 2, steps: '2'}\ncheckpoint: {every: 1}\n")

    def train_pictures(self, *arguments, code=support.DONE):
        return self.moh("train", "dit.yaml", *arguments, code=code)

    def names(self):
        return sorted(path.name for path in (self.folder / "run/samples").iterdir())

    def test_a_link_is_refused_by_name_and_nothing_is_written_through_it(self):
        self.train_pictures("schedule.decay_steps=4")
        mine = self.write("mine/step_00000003.png", "precious")
        shutil.rmtree(self.folder / "run/samples")
        (self.folder / "run/samples").symlink_to(mine.parent)
        for how in ("--resume", "--overwrite"):
            output = self.train_pictures("schedule.decay_steps=4", "train.steps=4", how, code=support.STORAGE_ERROR)
            self.assert_says(output, "run/samples: expected a folder of this run, found a symbolic link; remove the link")
        self.assertEqual([path.name for path in mine.parent.iterdir()], [mine.name])
        self.assertEqual(mine.read_text(), "precious")
        (self.folder / "run/samples").unlink()
        self.write("run/samples", "a file")
        output = self.train_pictures("schedule.decay_steps=4", "train.steps=4", "--resume", code=support.STORAGE_ERROR)
        self.assert_says(output, "run/samples: expected a folder of this run, found another kind of file")

    def test_overwrite_and_a_next_start_clean_up(self):
        self.train_pictures()
        self.assertEqual(self.names(), ["step_00000001.png", "step_00000002.png"])
        self.write("run/samples/.step_00000001.png.tmp-0123", "half")
        self.write("run/samples/notes.txt", "mine")
        self.train_pictures("--resume", "train.steps=2")
        self.assertEqual(self.names(), ["notes.txt", "step_00000001.png", "step_00000002.png"])
        self.train_pictures("--overwrite", "train.steps=1")
        self.assertEqual(self.names(), ["notes.txt", "step_00000001.png"])


class ChangedConfiguration(support.MohTest):
    def setUp(self):
        super().setUp()
        self.train({"schedule.decay_steps": 20})

    def resume(self, *overrides, code=support.DONE):
        config = self.config({"schedule.decay_steps": 20, "train.steps": 10})
        return self.moh("train", config, "--resume", *overrides, code=code)

    def test_harmless_changes_are_logged(self):
        output = self.resume("log.every=2", "checkpoint.keep_last=3")
        self.assert_says(output, "resume: log.every: 1 -> 2", "resume: checkpoint.keep_last: 2 -> 3",
                         "resume: train.steps: 8 -> 10", "finished at step 10")

    def test_other_changes_are_refused_all_at_once(self):
        output = self.resume("optim.learning_rate=0.002", "train.batch_size=2", "seed=5", code=support.CONFIG_ERROR)
        self.assert_says(output, "seed: 3 -> 5", "train.batch_size: 4 -> 2", "optim.learning_rate: 0.003 -> 0.002",
                         "--allow-changes")
        self.assertEqual(self.newest().name, "step_00000008")

    def test_a_longer_cosine_is_a_change(self):
        self.train({"output.dir": "cosine"})
        output = self.train({"output.dir": "cosine", "train.steps": 10}, "--resume", code=support.CONFIG_ERROR)
        self.assert_says(output, "train.steps: 8 -> 10", "schedule.decay_steps=8")
        self.train({"output.dir": "cosine", "train.steps": 10}, "--resume", "schedule.decay_steps=8")

    def test_allowed_changes_are_warned_about(self):
        output = self.resume("optim.learning_rate=0.002", "--allow-changes")
        self.assert_says(output, "warning: resume: optim.learning_rate: 0.003 -> 0.002", "finished at step 10")

    def test_another_model_is_refused_with_every_tensor_that_differs(self):
        before = support.state_of(self.newest())
        output = self.resume("model.intermediate=40", "model.layers=3", "--allow-changes", code=support.INPUT_ERROR)
        self.assert_says(
            output, "checkpoint step_00000008", "17 tensors differ",
            "model.layers.{0-1}.mlp.gate_proj.weight (2): expected [40, 32] float32, found [48, 32] float32",
            "model.layers.{0-1}.mlp.down_proj.weight (2): expected [32, 40] float32, found [32, 48] float32",
            "model.layers.2.self_attn.q_proj.weight: expected [32, 32] float32, found no tensor of this name")
        self.assertEqual(support.state_of(self.newest()), before)

    def test_a_smaller_model_is_refused_with_every_tensor_too_many(self):
        output = self.resume("model.layers=1", "--allow-changes", code=support.INPUT_ERROR)
        self.assert_says(output, "model.layers.1.self_attn.q_proj.weight: expected no tensor of this name, found ")

    def test_another_precision_is_refused(self):
        self.assert_says(self.resume("precision=bfloat16", code=support.CONFIG_ERROR),
                         "precision.weights: float32 -> bfloat16")


class Lock(support.MohTest):
    def test_two_processes_on_one_folder(self):
        config = self.config({"train.steps": 120})
        run = support.Running(self, "train", config)
        run.read_until("step 5/")
        for how in ("--resume", "--overwrite"):
            output = self.moh("train", config, how, code=support.CONFIG_ERROR)
            self.assert_says(output, "run: expected a run folder that no other process uses", socket.gethostname(),
                             f"process {run.pid}", "another output.dir")
        self.moh("train", config, "output.dir=other")
        self.assertEqual(run.wait(), support.DONE)
        self.assert_same_state("other", "run")

    def test_the_lock_of_a_killed_process_is_no_lock(self):
        config = self.config({"train.steps": 120})
        run = support.Running(self, "train", config)
        run.read_until("step 5/")
        self.assertTrue(run.kill())
        output = self.moh("train", config, "--resume")
        self.assert_says(output, "the last process of this run did not end cleanly", f"process {run.pid}")
        self.assertNotIn("did not end cleanly", self.moh("train", config, "--resume"))

    def test_a_lock_held_by_anybody_counts(self):
        self.write("run/.lock", "")
        with (self.folder / "run/.lock").open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assert_says(self.train(code=support.CONFIG_ERROR), "locked by an unnamed process")


class ChangedData(support.MohTest):
    SETTINGS = {"schedule.decay_steps": 20, "data.train": "texts", "output.dir": "texts/run"}

    def setUp(self):
        super().setUp()
        self.write("texts/a.txt", support.text_of_words(300))
        self.write("texts/b.txt", support.text_of_words(300, seed=2))
        self.train(self.SETTINGS)

    def resume(self, *overrides, code=support.DONE, **options):
        return self.moh("train", self.config({**self.SETTINGS, "train.steps": 10}), "--resume", *overrides, code=code,
                        **options)

    def assert_refused(self, *overrides):
        output = self.resume(*overrides, code=support.INPUT_ERROR)
        self.assertRegex(output, r"the data are not those that the checkpoint was trained on:\n"
                                 r"  data\.\w+: .*\d tokens, checksum \w{32} -> .*\d tokens, checksum \w{32}\n")
        self.assert_says(output, "--allow-changes")
        self.assertEqual(self.newest("texts/run").name, "step_00000008")
        return output

    def test_what_the_run_writes_is_not_what_it_reads(self):
        self.resume()
        self.train({**self.SETTINGS, "train.steps": 10, "output.dir": "whole",
                    "data.train": ["texts/a.txt", "texts/b.txt"]})
        self.assert_same_state("texts/run", "whole")
        output = self.train({"data.train": ["text.txt", "texts"], "output.dir": "texts"}, code=support.INPUT_ERROR)
        self.assert_says(output, "texts: expected text, or a folder of it, outside of output.dir, found output.dir itself")

    def test_other_text_is_refused(self):
        text = (self.folder / "texts/b.txt").read_text()
        self.write("texts/b.txt", text.replace("head", "hats", 1))
        self.assert_refused()
        self.assert_says(self.resume("--allow-changes"), "warning: resume: data.train: 2 files",
                         "results differ from those of the run", "finished at step 10")
        self.resume("train.steps=11")

    def test_another_file_in_the_folder_is_refused(self):
        self.write("texts/c.txt", support.text_of_words(10))
        self.assert_says(self.assert_refused(), "data.train: 2 files", "-> 3 files")

    def test_other_text_to_validate_on_is_refused(self):
        validated = {"data.validation": "text.txt", "output.dir": "texts/validated"}
        self.train({**self.SETTINGS, **validated})
        self.write("text.txt", support.text_of_words(400, seed=5))
        output = self.moh("train", self.config({**self.SETTINGS, **validated, "train.steps": 10}), "--resume",
                          code=support.INPUT_ERROR)
        self.assert_says(output, "data.validation: 1 file")

    def test_the_same_text_in_another_place_is_the_same(self):
        (self.folder / "texts").rename(self.folder / "moved")
        output = self.resume("data.train=moved", "output.dir=moved/run")
        self.assert_says(output, f"resume: data.train: [{self.folder}/texts] -> [{self.folder}/moved]", "finished at step 10")

    def test_a_token_file_is_known_by_its_contents_too(self):
        for name, seed in (("one", 1), ("other", 2)):
            self.write("text.txt", support.text_of_words(400, seed=seed))
            self.moh("data", "tokenize", "--input", "text.txt", "--output", f"{name}.tokens")
        self.train({**self.SETTINGS, "data.train": "one.tokens", "output.dir": "run"})
        (self.folder / "other.tokens").replace(self.folder / "one.tokens")
        self.moh("train", "tiny.yaml", "--resume", code=support.INPUT_ERROR)


class AnotherWorkingFolder(support.MohTest):
    def test_a_run_is_used_from_anywhere(self):
        self.train({"schedule.decay_steps": 20})
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        self.assertEqual(self.moh("eval", "--checkpoint", "run").split("evaluated")[1],
                         self.moh("eval", "--checkpoint", "../run", cwd=elsewhere).split("evaluated")[1])
        output = self.moh("train", "../run/config.yaml", "--resume", "train.steps=10", cwd=elsewhere)
        self.assert_says(output, "resume: from step 8", "finished at step 10")
        self.moh("train", "../tiny.yaml", "output.dir=../run", "data.train=../text.txt", "--resume", "train.steps=11",
                 "schedule.decay_steps=20", cwd=elsewhere)
        self.assertEqual(self.newest().name, "step_00000011")
        self.assertEqual(list(elsewhere.iterdir()), [])
        # Moved, it is as good; what it was trained on stayed.
        (self.folder / "run").rename(elsewhere / "moved")
        self.moh("eval", "--checkpoint", "elsewhere/moved")


class Retention(support.MohTest):
    SETTINGS = {"train.steps": 8, "checkpoint.every": 1, "checkpoint.keep_last": 2}

    def steps(self):
        return [int(path.name.removeprefix("step_")) for path in self.checkpoints()]

    def test_the_newest_are_kept(self):
        self.train(self.SETTINGS)
        self.assertEqual(self.steps(), [7, 8])

    def test_the_best_is_kept_as_well(self):
        # A rate that is far too high after the first steps: the loss rises again.
        self.train({**self.SETTINGS, "checkpoint.keep_best": True, "optim.learning_rate": 1.0,
                    "schedule.warmup_start": 0.001, "schedule.warmup_steps": 5, "schedule.kind": "constant"})
        evaluated = {record["step"]: record["loss"] for record in support.metrics(self.folder / "run")
                     if record["kind"] == "eval"}
        best = min(evaluated, key=evaluated.get)
        self.assertLess(best, 7, "no step before the last two is the best; the test shows nothing")
        self.assertEqual(self.steps(), [best, 7, 8])
        manifest = json.loads((self.checkpoints()[0] / "manifest.json").read_text())
        self.assertEqual(manifest["metric"], evaluated[best])


if __name__ == "__main__":
    support.main()

"""comm.zero: the optimiser's state, gradients and weights divided among the processes of a run. Bits where the stages
promise them, memory as planned, resumption in other numbers of processes and stages, and what a failure leaves."""

import json
import os
import signal
import sys
import unittest

import support
from processes_test import TEXT, TIMEOUT_SECONDS, Processes, can_run_several, ranks_of


class Zero(Processes):

    TEXT = {**TEXT, "ema.decay": 0.9, "train.steps": 12, "schedule.decay_steps": 12, "eval.every": 4}

    def shards(self, run):
        newest = sorted((self.folder / run / "checkpoints").glob("step_*"))[-1]
        return sorted(newest.glob("optimizer-*"))

    def test_the_same_steps_with_a_third_of_the_state(self):
        config = self.config({**self.TEXT, "train.accumulate": 6, "eval.every": 3, "train.steps": 9,
                              "schedule.decay_steps": 9})
        self.run_in(3, "train", config, "output.dir=plain")
        (whole,) = self.shards("plain")
        for zero in (1, 2, 3):
            divided = f"divided_{zero}"
            self.run_in(3, "train", config, f"output.dir={divided}", f"comm.zero={zero}", "comm.bucket_mib=1")
            self.assert_close("plain", divided)
            self.assertEqual([path.name for path in self.shards(divided)],
                             [f"optimizer-{rank:05}-of-00003.safetensors" for rank in range(3)])
            for part in self.shards(divided):
                self.assertLess(part.stat().st_size, 0.4 * whole.stat().st_size)
            self.moh("eval", "--checkpoint", divided)

    def test_gradients_of_one_micro_batch_have_the_same_bits_divided_or_not(self):
        for gradients in ("float32", "bfloat16"):
            config = self.config({**self.TEXT, "precision.weights": "bfloat16", "precision.gradients": gradients,
                                  "train.accumulate": 3})
            for zero in (1, 2, 3):
                self.run_in(3, "train", config, f"output.dir={gradients}_{zero}", f"comm.zero={zero}", "comm.gradients=bfloat16")
            first, *others = (self.saved(f"{gradients}_{zero}") for zero in (1, 2, 3))  # model, average, optimiser
            for other in others:
                self.assertEqual(other, first)

    def test_weights_are_divided_while_a_dense_model_becomes_moh(self):
        config = self.config({**self.TEXT, "train.accumulate": 2, "eval.at_start": True})
        self.moh("train", config, "output.dir=dense", "model.moh={router: none, num_shared: 0, top_k: 0}", "ema.decay=0",
                 "train.steps=2")
        for zero in (1, 3):
            output = self.run_in(2, "train", config, "init.from=dense", "init.moh.router_start=calibrated",
                                 "init.moh.calibration.batches=3", "model.moh.shared_heads=output_norm", f"comm.zero={zero}",
                                 f"output.dir=zero_{zero}", "sample.tokens=5")
            self.assert_says(output, "router_start calibrated (selected)", "--- sample ---")
            self.assertEqual(output.count("--- sample ---"), 1)
        self.assertEqual(self.saved("zero_1"), self.saved("zero_3"))
        self.assertEqual(*((self.folder / f"zero_{zero}" / "sample.txt").read_text() for zero in (1, 3)))

    def test_memory_is_what_the_plan_says(self):
        config = self.config({**self.TEXT, "model.layers": 8, "model.hidden": 256, "model.intermediate": 768, "model.dropout": 0,
                              "model.max_positions": 64, "data.sequence_length": 64, "train.accumulate": 2, "train.steps": 3,
                              "eval.every": 0, "precision": "bfloat16", "ema.decay": 0, "comm.bucket_mib": 1})
        fused = ("optim.fused_update=true", "optim.clip_grad_norm=0")
        for zero, settings in ((0, ()), (1, ()), (2, ()), (3, ()), (0, fused), (1, fused), (3, fused)):
            run = f"zero_{zero}_{len(settings)}"
            self.run_in(2, "train", config, f"output.dir={run}", f"comm.zero={zero}", *settings)
            peak = [record["peak_memory_bytes"] for record in support.metrics(self.folder / run)
                    if record["kind"] == "train"][1]  # an evaluation follows the last step
            plan = json.loads(self.moh("plan", config, "--devices", "2", "--zero", str(zero), "--json", *settings))
            self.assertLess(abs(plan["recompute"]["none"]["peak_bytes"]["total"] / peak - 1), 0.05, (run, plan, peak))

    def test_lion_is_divided(self):
        config = self.config({**self.TEXT, "optim.name": "lion", "optim.learning_rate": 0.0003,
                              "schedule.warmup_start": 0.0001})
        self.run_in(2, "train", config, "output.dir=plain")
        self.run_in(2, "train", config, "output.dir=divided", "comm.zero=1", "comm.bucket_mib=1")
        self.assert_close("plain", "divided")

    def test_each_matrix_is_updated_whole_by_one_process(self):
        for name in ("muon", "adafactor"):
            config = self.config({**self.TEXT, "optim.name": name, "precision": "bfloat16", "train.accumulate": 2,
                                  "optim.clip_grad_norm": 0})
            self.run_in(2, "train", config, f"output.dir={name}")
            (state,) = self.shards(name)
            for zero in (1, 2, 3):
                divided = f"{name}_{zero}"
                self.run_in(2, "train", config, f"output.dir={divided}", f"comm.zero={zero}")
                self.assertEqual(*((self.newest(run) / "model.safetensors").read_bytes() for run in (name, divided)))
                for part in self.shards(divided):
                    self.assertLess(part.stat().st_size, 0.7 * state.stat().st_size)
            self.run_in(2, "train", config, "output.dir=again", "train.steps=4", "comm.zero=3", "--overwrite")
            self.moh("train", config, "output.dir=again", "--resume", "train.steps=8")
            self.run_in(4, "train", config, "output.dir=again", "--resume", "comm.zero=2")
            for a, b in zip(*(support.losses(self.folder / run) for run in (name, "again")), strict=True):
                self.assertLess(abs(a - b), 2e-3 * a)

    def test_adapters_are_divided(self):
        config = self.config({**self.TEXT, "precision": "bfloat16", "model.lora.rank": 2, "train.accumulate": 2})
        for zero in (0, 1, 2, 3):
            self.run_in(2, "train", config, f"output.dir=zero_{zero}", f"comm.zero={zero}", "checkpoint.every=4")
        models = {(self.newest(f"zero_{zero}") / "model.safetensors").read_bytes() for zero in (0, 1, 2, 3)}
        self.assertEqual(len(models), 1)

    def test_master_copies_of_bfloat16_are_divided(self):
        config = self.config({**self.TEXT, "precision": "bfloat16"})
        self.run_in(2, "train", config, "output.dir=plain")
        self.run_in(2, "train", config, "output.dir=divided", "comm.zero=1")
        for a, b in zip(*(support.losses(self.folder / run) for run in ("plain", "divided"))):
            self.assertLess(abs(a - b), 1e-3 * a)  # a rounding of the norm may round a weight the other way

    def test_a_run_goes_on_in_another_number_of_processes_and_another_stage(self):
        config = self.config(self.TEXT)
        self.moh("train", config, "output.dir=whole")
        self.run_in(2, "train", config, "train.steps=4", "comm.zero=1")
        self.run_in(4, "train", config, "--resume", "train.steps=8", "comm.zero=3")
        self.moh("train", config, "--resume")
        self.assert_close("whole", "run")
        self.assert_each_step_once("run", 12, 4)

    def test_the_same_bits_after_a_resume(self):
        for zero in (1, 2, 3):
            config = self.config({**self.TEXT, "comm.zero": zero, "output.dir": f"run_{zero}"})
            self.run_in(2, "train", config, f"output.dir=whole_{zero}")
            self.run_in(2, "train", config, "train.steps=5")
            self.run_in(2, "train", config, "--resume")
            self.assertEqual([path.read_bytes() for path in self.shards(f"whole_{zero}")],
                             [path.read_bytes() for path in self.shards(f"run_{zero}")])

    def test_updates_within_the_backward_pass_have_the_same_bits_also_after_a_resume(self):
        config = self.config({**self.TEXT, "precision": "bfloat16", "train.accumulate": 2, "optim.clip_grad_norm": 0,
                              "comm.bucket_mib": 1})
        for zero in (0, 1, 2, 3):
            apart, fused = f"apart_{zero}", f"fused_{zero}"
            self.run_in(2, "train", config, f"output.dir={apart}", f"comm.zero={zero}")
            settings = (f"output.dir={fused}", f"comm.zero={zero}", "optim.fused_update=true")
            self.run_in(2, "train", config, *settings, "train.steps=5")
            self.run_in(2, "train", config, *settings, "--resume")
            self.assertEqual(support.losses(self.folder / fused), support.losses(self.folder / apart))
            for files in ("model.safetensors", "optimizer*.safetensors", "ema.safetensors"):
                found, expected = ([path.read_bytes() for path in sorted(self.newest(run).glob(files))] for run in (fused, apart))
                self.assertTrue(found)
                self.assertEqual(found, expected, (zero, files))

    def test_traces_show_what_the_forward_pass_waits_for(self):
        config = self.config({**self.TEXT, "comm.zero": 1, "comm.bucket_mib": 1, "profile.steps": [3, 4],
                              "eval.every": 0})
        self.run_in(2, "train", config)
        for name in ("trace.json", "trace.rank1.json"):
            events = json.loads((self.folder / "run" / name).read_text())["traceEvents"]

            def of(what, step):
                return [event for event in events if event["name"] == what and event["ph"] == "X"
                        and step["ts"] <= event["ts"] < step["ts"] + step["dur"]]

            for step in (event for event in events if event.get("cat") == "step"):
                # The new values of the step before are gathered in this one, beside its first forward pass.
                gathered, forward = of("all-gather", step), of("forward", step)
                self.assertGreaterEqual(len(gathered), 2)  # the values, and the losses
                self.assertGreater(gathered[0]["ts"] + gathered[0]["dur"], step["ts"])
                self.assertLess(gathered[0]["ts"], forward[0]["ts"] + forward[0]["dur"])
                waits = of("wait for processes", step)
                in_forward = [event for event in waits
                              if forward[0]["ts"] <= event["ts"] < forward[0]["ts"] + forward[0]["dur"]]
                self.assertTrue(in_forward)
                # Each wait is inside its step, and they do not overlap.
                for event, after in zip(waits, waits[1:]):
                    self.assertLessEqual(event["ts"] + event["dur"], after["ts"] + 1)

    def saved(self, run):
        return {path.relative_to(self.folder / run).as_posix(): path.read_bytes()
                for path in (self.folder / run / "checkpoints").rglob("*.safetensors")}

    EVERY_STEP = {**TEXT, "train.steps": 6, "eval.every": 0, "checkpoint.every": 1, "checkpoint.keep_last": 100,
                  "comm.zero": 1}

    def test_checkpoints_are_written_beside_the_next_step(self):
        if not support.build_has_failpoints():
            self.skipTest("a build without failure points")
        config = self.config({**self.EVERY_STEP, "profile.steps": [2, 5]})
        slow = ",".join(f"io:fsync_{n}=slow" for n in (1, 2, 4))
        self.run_two("train", config, env={"MOH_FAIL": slow})
        self.run_in(2, "train", config, "output.dir=waiting", "checkpoint.asynchronous=false")
        self.assertEqual(len(self.checkpoints()), 6)
        self.assertEqual(self.saved("run"), self.saved("waiting"))
        self.assertEqual(support.losses(self.folder / "run"), support.losses(self.folder / "waiting"))
        self.assert_no_litter()
        waits = {}
        for run in ("run", "waiting"):
            events = json.loads((self.folder / run / "trace.json").read_text())["traceEvents"]
            waits[run] = [event for event in events if event["name"] == "wait for the checkpoint"]
        self.assertEqual((len(waits["run"]), len(waits["waiting"])), (4, 0))  # in the steps, before their updates

    def test_a_part_that_cannot_be_written_ends_all_and_leaves_the_checkpoint_before(self):
        if not support.build_has_failpoints():
            self.skipTest("a build without failure points")
        config = self.config(self.EVERY_STEP)
        self.run_in(2, "train", config, "output.dir=whole")
        for action in ("ENOSPC", "EIO", "kill"):
            run = f"run_{action}"
            # Process 1 syncs its part of each checkpoint: the third is lost.
            output = self.run_two("train", config, f"output.dir={run}", env={"MOH_FAIL": f"io:fsync_3={action}"},
                                  code=None if action == "kill" else support.STORAGE_ERROR)
            if action != "kill":
                self.assert_says(output, "optimizer-00001-of-00002.safetensors")
            self.assertEqual([path.name for path in self.checkpoints(run)], ["step_00000001", "step_00000002"], output)
            self.run_in(2, "train", config, "--resume", f"output.dir={run}")
            self.assert_no_litter(run)
            self.assertEqual(self.saved(run), self.saved("whole"))

    def test_a_signal_in_a_save_ends_with_that_checkpoint(self):
        if not support.build_has_failpoints():
            self.skipTest("a build without failure points")
        config = self.config({**self.EVERY_STEP, "train.steps": 10000, "schedule.decay_steps": 10000,
                              "checkpoint.every": 3, "checkpoint.keep_last": 1})
        environment = {"MOH_FAIL": ",".join(f"io:fsync_{n}=slow" for n in range(1, 200))}
        self.environment.update(environment)
        process = self.start_in(2, "train", config)
        self.wait_for_step(process, 4)
        os.kill(ranks_of(process.pid)[1], signal.SIGTERM)
        self.assertEqual(process.wait(timeout=TIMEOUT_SECONDS), support.PREEMPTED, self.output())
        self.assertEqual(len(self.checkpoints()), 1)
        self.assert_no_litter()
        records = [record["step"] for record in support.metrics(self.folder / "run") if record["kind"] == "train"]
        self.assertEqual(self.checkpoints()[0].name, f"step_{records[-1]:08}")

    def test_a_missing_or_damaged_shard_is_named(self):
        config = self.config({**self.TEXT, "comm.zero": 1, "train.steps": 2, "eval.every": 0})
        self.run_in(2, "train", config)
        shard = self.shards("run")[1]
        contents = bytearray(shard.read_bytes())
        contents[-5] ^= 4
        shard.write_bytes(contents)
        resume = ("train", config, "--resume", "train.steps=3")
        self.assert_says(self.run_in(2, *resume, code=support.INPUT_ERROR), shard.name, "checksum")
        shard.unlink()
        self.assert_says(self.run_in(2, *resume, code=support.INPUT_ERROR), shard.name)


if __name__ == "__main__":
    if not can_run_several():
        print("skipped: no mpirun, or a program without MPI")
        sys.exit(support.SKIPPED)
    unittest.main()

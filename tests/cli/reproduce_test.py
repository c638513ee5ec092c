"""scripts/reproduce.py: the tables are what the configurations train, nothing is run unless told, budgets are kept, runs go on where
they were stopped, and the numbers are those of the runs. The trainings are those of a stand-in for moh, but for two."""

import contextlib
import io
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from unittest import mock

import support

ROOT = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
SCRIPT = ROOT / "scripts/reproduce.py"
STAND_IN = pathlib.Path(__file__).with_name("moh_stand_in.py")
sys.path.insert(0, str(SCRIPT.parent))

import reproduce
from lm_harness import paper
from reproduction import analysis, diffusion_tables, moh, scaled

TRAININGS = {name: table for name, table in reproduce.TABLES.items() if table.kind in ("training", "analysis", "recovery")}


class Reproduction(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("text.txt", "Two households, both alike in dignity, " * 50)
        self.calls_file = self.folder / "calls.txt"
        self.stand_in = support.program_of(STAND_IN, self.folder)

    def command(self, *arguments, program=None):
        return [sys.executable, "-B", str(SCRIPT), *map(str, arguments), "--moh", str(program or self.stand_in), "--out", str(self.folder / "out")]

    def environment(self, settings):
        return {**os.environ, "STAND_IN_CALLS": str(self.calls_file), **settings}

    def reproduce(self, *arguments, code=0, program=None, after=(), **settings):
        command = [*self.command(*arguments, program=program), *(["--", *after] if after else [])]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS,
                                env=self.environment(settings))
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout if code == 0 else result.stderr

    def calls(self, command):
        """The arguments with which the stand-in was called for a command of moh."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return [words for words in map(json.loads, lines) if words[0] == command]

    def result(self, table):
        text = json.loads((self.folder / f"out/{table}/{table}.json").read_text())
        return {row["row"]: row for row in text["rows"]}


class Tables(Reproduction):
    def test_they_are_listed(self):
        listed = self.reproduce()
        for name, table in reproduce.TABLES.items():
            self.assertRegex(listed, rf"(?m)^{name} +{re.escape(table.title)} ")
        self.assertRegex(listed, r"(?m)^heads_at_equal_compute +Ways to use fewer heads")
        self.assertIn("expected one of vit_imagenet, ", self.reproduce("vit", code=1))

    def test_the_page_has_commands_for_each_table(self):
        page = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
        for name, table in reproduce.TABLES.items():
            with self.subTest(table=name):
                self.assertRegex(page, rf"(?m)^    scripts/reproduce\.py {name}( --budget \d+| --checkpoint|$)")
                if table.kind == "training":
                    self.assertRegex(page, rf"(?m)^    scripts/reproduce\.py {name} --full -- data\.train=")
        for named in re.findall(r"scripts/reproduce\.py (\w+)", page):
            self.assertIn(named, reproduce.TABLES)

    def test_averages_are_those_that_lm_eval_prints(self):
        for name, group in (("llm_from_scratch", "paper_table_3"), ("llama3_main", "paper_table_4"), ("llama3_stage1", "paper_table_g")):
            self.assertEqual([row.paper["average"] for row in reproduce.TABLES[name].rows], list(map(paper.TABLES[group].average, paper.TABLES[group].models)))
            self.assertIn(f"scripts/lm_eval.py --checkpoint RUN --tasks {group}", reproduce.TABLES[name].evaluation[0])

    def test_names_of_rows_tell_them_apart(self):
        for name, table in reproduce.TABLES.items():
            self.assertEqual(len({row.name for row in table.rows}), len(table.rows), name)
            for row in table.rows:
                self.assertTrue(row.base in ("", *(other.name for other in table.rows)), f"{name}: {row.base}")

    def test_configurations_have_the_paper_s_sizes_and_shares_of_heads(self):
        checked = 0
        for name, table in reproduce.TABLES.items():
            for row in table.rows:
                if not row.config:
                    continue
                plan = moh.plan(support.MOH, ROOT / row.config, row.settings)
                with self.subTest(table=name, row=row.name):
                    if "params_m" in row.paper:
                        self.assertAlmostEqual(plan["parameters"] / 1e6, row.paper["params_m"], delta=1)
                    if row.heads is not None:
                        self.assertAlmostEqual(100 * plan["activated_heads"], row.heads, delta=1.5)
                    checked += 1
        self.assertGreater(checked, 60)

    def test_small_forms_have_about_the_paper_s_share_of_heads(self):
        forms = {(row.small, scaled.kind_of(table, row)): row for table in TRAININGS.values() for row in table.rows
                 if table.kind != "recovery"}
        self.assertGreater(len(forms), 25)
        data = type("", (), {"data": [self.folder / "text.txt"]})
        for (small, kind), row in forms.items():
            with self.subTest(row=row.name, config=small.config):
                settings = (*small.settings, *scaled.data_settings(data, kind, small.config))
                plan = moh.plan(support.MOH, ROOT / small.config, settings)
                if row.heads is not None:
                    self.assertAlmostEqual(100 * plan["activated_heads"], row.heads, delta=4)


class FullSize(Reproduction):
    def test_without_a_budget_nothing_is_run(self):
        output = self.reproduce("vit_imagenet", program=support.MOH)
        self.assertIn("moh train configs/vit/paper.yaml model.preset=moh_vit_small_80 output.dir=", output)
        self.assertIn("  MoH-ViT-S 75%; MoH-ViT-B 75%\n    moh train configs/vit/cifar10_moh_75.yaml\n", output)
        self.assertRegex(output, r"49\.9M parameters, 2\.3e\+19 FLOP \(0\.67 days of an H100 at 40% of 989 TFLOP/s, bfloat16\)")
        self.assertIn("data.train=imagenet/train", output)
        self.assertFalse((self.folder / "out").exists())

    def test_it_needs_data(self):
        self.assertIn("--full needs the data, after --: ImageNet-1K", self.reproduce("vit_imagenet", "--full", code=1))
        self.assertIn("the commands of this one are printed by: scripts/reproduce.py llama3_main",
                      self.reproduce("llama3_main", "--full", code=1, after=("data.train=text",)))
        self.assertFalse((self.folder / "out").exists())

    def test_every_table_says_what_it_takes(self):
        def plan(program, config, settings, memory):
            return {"parameters": 1, "activated_heads": 1, "flops_per_item": 1, "items_per_step": 1, "steps": 1, "batch_size": 1, "peak_tflops": 989, "arithmetic": "bfloat16",
                    "recompute": {"none": {"configured": True, "peak_bytes": {"total": 1}}}}

        for name, table in reproduce.TABLES.items():
            if table.kind == "size":
                continue  # has a test with the program itself
            with contextlib.redirect_stdout(io.StringIO()) as said, mock.patch.object(moh, "plan", plan):
                reproduce.main([name, "--out", str(self.folder / "out")])
            output = said.getvalue()
            self.assertEqual(output.count(" FLOP ("), len({(row.config, row.settings) for row in table.rows if row.config}), output)
            self.assertIn("moh ", output)

    def test_it_trains_each_row_with_the_settings_given(self):
        output = self.reproduce("dit_xl", "--full", after=("data.train=latents", "device=cuda"))
        trained = self.calls("train")
        # Five of eleven rows are of the run of MoH-DiT-XL/2 90%, of them two after fewer steps, and two are samples with guidance.
        self.assertEqual([words[1:3] for words in trained], [["configs/dit/paper.yaml", f"model.preset={name}"]
                                                            for name in ("dit_xl_2", "moh_dit_xl_2_90", "moh_dit_xl_2_75")])
        for words in trained:
            self.assertIn("data.train=latents", words)
            self.assertIn("device=cuda", words)
        self.assertRegex(output, r"next: moh sample --checkpoint \S+/DiT_XL_2__7M_steps \S.* --cfg 1 ")
        self.assertRegex(output, r"next: moh sample --checkpoint \S+/MoH_DiT_XL_2_90___7M_steps/checkpoints/step_02000000 ")
        self.assertRegex(output, r"next: moh sample --checkpoint \S+/DiT_XL_2__7M_steps/checkpoints/step_00400000 ")
        self.assertEqual((output.count("--cfg 1.25"), output.count("--cfg 1.5")), (2, 2))
        self.assertRegex(output, r"next: moh eval fid --features classify_image_graph_def.pb \S+ \S+/samples_cfg_1.5/samples.npz")

    def test_rows_of_one_training_have_commands_of_their_own(self):
        output = self.reproduce("dit_xl", program=support.MOH)
        self.assertEqual(output.count("moh train configs/dit/paper.yaml "), 3)
        self.assertIn("MoH-DiT-XL/2 90%, 7M steps (paper: 8.56); MoH-DiT-XL/2 90%, 2M steps (paper: 10.67); MoH-DiT-XL/2 90%, 7M steps, guidance 1.25 "
                      "(paper: 2.94)", output)
        self.assertIn("then, for MoH-DiT-XL/2 90%, 2M steps: moh sample --checkpoint RUN/checkpoints/step_02000000 ", output)
        self.assertRegex(output, r"then, for DiT-XL/2, 7M steps, guidance 1\.25: moh sample --checkpoint RUN .* --cfg 1\.25 ")
        config = moh.plan(support.MOH, ROOT / "configs/dit/paper.yaml", diffusion_tables.XL_NINETY.settings)
        self.assertEqual((config["steps"], config["batch_size"], config["accumulate"]), (7000000, 32, 8))

    def test_days_are_of_the_configuration_s_arithmetic(self):
        for table, row, days in (("ablation_components_dit", "FLOP (0.21 days", "of an H100 at 40% of 495 TFLOP/s, float32 on tensor cores (TF32))"),
                                 ("llm_from_scratch", "FLOP (2.7 days", "of an H100 at 40% of 989 TFLOP/s, bfloat16)")):
            with self.subTest(table=table):
                self.assert_says(self.reproduce(table, program=support.MOH), f"{row} {days}")


class Budget(Reproduction):
    """The stand-in's steps take a quarter of a second."""

    def test_all_rows_have_the_steps_that_fit(self):
        self.reproduce("review_moe_ffn", "--budget", 1000)
        trained = self.calls("train")
        self.assertEqual(len(trained), 4)  # of 4 small forms
        steps = {word for words in trained for word in words if word.startswith("train.steps=")}
        self.assertEqual(len(steps), 1)
        # Three quarters of the budget for four trainings; an evaluation is 512 / (3 * 128) steps.
        self.assertAlmostEqual(int(steps.pop().partition("=")[2]), 0.75 * 1000 / 4 / 0.25 - 512 / 384, delta=20)
        for words in trained:
            self.assertIn("data.drawn=8192", words)
            self.assertIn("schedule.warmup_epochs=0", words)

    def test_an_average_of_weights_is_as_long_as_the_training(self):
        # That of the recipe, 0.998, would be the first weights after a few steps.
        for steps, decay in (100, 0.97), (1500, 0.998), (100000, 0.998):
            settings = scaled.length_settings(steps, "images", "configs/dit/cifar10_dense.yaml")
            self.assertIn(f"ema.decay={decay}", settings)
            self.assertAlmostEqual(decay ** min(steps, 1500), math.exp(-3), delta=0.003)
        self.assertFalse([word for word in scaled.length_settings(100, "images", "configs/vit/cifar10_moh_75.yaml") if "ema" in word])

    def test_rows_that_share_a_small_form_share_its_run(self):
        self.reproduce("vit_imagenet", "--budget", 1000)
        self.assertEqual(len(self.calls("train")), 5)  # of 8 rows
        rows = self.result("vit_imagenet")
        self.assertEqual(rows["TransNeXt-S"]["ours"], rows["TransNeXt-B"]["ours"])
        self.assertEqual(rows["MoH-ViT-B 50%"]["baseline"], "TransNeXt-B")

    def test_a_large_budget_trains_the_configurations_as_they_are(self):
        output = self.reproduce("llm_from_scratch", "--budget", 100000, "--data", self.folder / "text.txt", "--seeds", "1,2")
        trained = self.calls("train")
        self.assertEqual(len(trained), 6)
        for words in trained:
            self.assertFalse([word for word in words if word.startswith(("train.steps=", "schedule."))], words)
        self.assertIn("the small configurations' own lengths", output)

    def test_too_small_a_budget_says_what_is_needed(self):
        message = self.reproduce("review_moa", "--budget", 5, code=1)
        least = int(re.search(r"--budget 5: expected at least (\d+) s on this machine, for 10 steps", message)[1])
        self.assertEqual(self.calls("train"), [])
        self.reproduce("review_moa", "--budget", 2 * least)  # asking the program takes more or less time

    def test_data_that_are_missing_are_named(self):
        self.assertIn("this table needs a text: --data FILE", self.reproduce("llm_from_scratch", "--budget", 60, code=1))
        self.assertIn("this table needs sentence pairs: --data PATH", self.reproduce("review_translation", "--budget", 60, code=1))
        self.assertIn("--data nowhere: no such file or folder", self.reproduce("review_moa", "--budget", 60, "--data", "nowhere", code=1))
        self.assertIn("this table needs the released MoH-LLaMA3-8B", self.reproduce("token_heads", "--budget", 60, code=1))
        self.assertIn("--rows: expected of ['MoH', 'MoA'], found ['MaH']", self.reproduce("review_moa", "--budget", 60, "--rows", "MaH", code=1))

    def test_pictures_of_a_folder(self):
        for name in ("train/cat/1.png", "train/dog/1.png", "test/cat/1.png"):
            self.write(f"pictures/{name}", b"")
        self.reproduce("review_moa", "--budget", 60, "--data", self.folder / "pictures")
        for words in self.calls("train"):
            self.assertIn(f"data.train={self.folder}/pictures/train", words)
            self.assertIn(f"data.validation={self.folder}/pictures/test", words)

    def test_sentence_pairs(self):
        self.write("pairs.tsv", b"one\teins\n")
        self.reproduce("review_translation", "--budget", 600, "--data", self.folder / "pairs.tsv", "--seeds", "1,2")
        trained = self.calls("train")
        self.assertEqual(sorted(words[1].rpartition("/")[2] for words in trained), 2 * ["small_moa.yaml"] + 2 * ["small_moh_75.yaml"])
        for words in trained:
            self.assertIn(f"data.train={self.folder}/pairs.tsv", words)
            self.assertIn("eval.max_tokens=32768", words)
            self.assertFalse([word for word in words if "epochs" in word], words)
        self.assertEqual(self.result("review_translation")["MoH"]["paper"], {"bleu": 29.0})


class Results(Reproduction):
    def test_numbers_are_those_of_the_runs(self):
        output = self.reproduce("ablation_components", "--budget", 600, "--seeds", "1,2")
        rows = self.result("ablation_components")
        # The stand-in's top-1 is 0.5 for `full`, 0.4 for others, 0.01 more for each seed.
        self.assertEqual([round(score, 6) for score in rows["full"]["ours"]], [51, 52])
        self.assertEqual([round(score, 6) for score in rows["no shared heads"]["ours"]], [41, 42])
        self.assertIn("| no shared heads | 75.6 | -3.00 | no_shared | 75% | 41.50 ± 6.35 | -10.00 ± 0.00 |", output)
        self.assertIn("**These are not the paper's trainings, and the two columns of scores cannot be compared", output)
        self.assertIn("| score | top1 | top-1, %, after the last step |", output)
        self.assertEqual((self.folder / "out/ablation_components/ablation_components.md").read_text(), output)

    def test_pictures_judged_by_a_classifier(self):
        for name in ("train/cat/1.png", "test/cat/1.png"):
            self.write(f"pictures/{name}", b"")
        folder = self.folder / "pictures"
        for data, table, message in (((), "ablation_components_dit", "needs pictures to compare with"),
                                     (("--data", folder), "review_moa", "expected a table of diffusion models")):
            self.assertIn(message, self.reproduce(table, "--budget", 2000, *data, "--classifier", "judge", code=1))
        output = self.reproduce("ablation_components_dit", "--budget", 2000, "--data", folder, "--classifier", "judge")
        self.assertIn("| 69.42 | 0 | cifar10_moh_75 | 75% | 2.0000 | 0 | 12.50 | 4.00 | 0.50 | 0.60 | 12.85 | 19.96 | 0.36 | 0.55 |", output)
        self.assertIn("| inception_score of 2048 pictures by features of judge | precision of 2048 pictures by features of judge | ", output)
        self.assertEqual(len(self.calls("sample")), 3)
        judged = self.calls("eval")
        self.assertEqual(judged[0][:5], ["eval", "fid", "--features-from", "judge", f"{folder}/test"])
        self.reproduce("ablation_components_dit", "--budget", 2000, "--data", folder, "--classifier", "judge")
        self.assertEqual((len(self.calls("sample")), len(self.calls("eval"))), (3, 3))  # kept

    def test_rows_with_guidance_are_further_samples_of_a_run(self):
        for name in ("train/cat/1.png", "test/cat/1.png"):
            self.write(f"pictures/{name}", b"")
        output = self.reproduce("dit_xl", "--budget", 20000, "--data", self.folder / "pictures", "--classifier", "judge")
        self.assertEqual(len(self.calls("train")), 3)
        guided = [words for words in self.calls("sample") if words[words.index("--cfg") + 1] == "1.25"]
        self.assertEqual(len(guided), 2)
        self.assertEqual(len(self.calls("sample")), 7)
        self.assertIn("| MoH-DiT-XL/2 90%, 7M steps, guidance 1.5 | - | - | cifar10_moh_90 |", output)
        self.assertIn("| MoH-DiT-XL/2 90%, 7M steps, guidance 1.25 | 2.94 | -0.28 | cifar10_moh_90 |", output)

    def test_the_shares_that_continuations_keep(self):
        self.reproduce("llama3_main", "--budget", 600, "--data", self.folder / "text.txt")
        dense, tuned = self.calls("train")
        self.assertIn("configs/llm/continue_tuning_dense.yaml", dense)
        self.assertIn(f"init.from={self.folder}/out/llama3_main/dense_1", tuned)
        steps = [int(re.search(r"train\.steps=(\d+)", " ".join(words))[1]) for words in (dense, tuned)]
        self.assertEqual(steps[1], steps[0] // 10)
        # The stand-in's losses fall from 5 to 2, and of continuations from 2.3 to 2.15.
        rows = self.result("llama3_main")
        self.assertAlmostEqual(rows["LLaMA3-8B"]["ours"][0], 100)
        self.assertAlmostEqual(rows["MoH-LLaMA3-8B"]["ours"][0], 95)

    def test_the_points_of_a_recovery_curve(self):
        self.reproduce("llama3_recovery_curve", "--budget", 600, "--data", self.folder / "text.txt")
        rows = self.result("llama3_recovery_curve")
        self.assertAlmostEqual(rows["0B tokens"]["ours"][0], 90)
        self.assertAlmostEqual(rows["20B tokens"]["ours"][0], 91, delta=0.3)
        self.assertLess(rows["10B tokens"]["ours"][0], rows["29B tokens"]["ours"][0])

    def test_what_heads_do(self):
        self.reproduce("head_load_means", "--budget", 900, "--data", self.folder / "text.txt")
        for row in self.result("head_load_means").values():
            self.assertAlmostEqual(row["ours"][0], 0.6)
        before = len(self.calls("analyze"))
        self.reproduce("head_load_means", "--budget", 900, "--data", self.folder / "text.txt")
        self.assertEqual(len(self.calls("analyze")), before)

    def test_heads_of_tokens(self):
        output = self.reproduce("token_heads", "--checkpoint", "released", "--data", self.folder / "text.txt")
        self.assertIn("ours, layer 1: 79 of 79 heads agree", output)
        self.assertIn("| Give | 0 3 7 8 9 12 14 15 | 0 3 7 8 9 12 14 15 |", output)

    def test_measures(self):
        layers = [{"rank": {"shared": {"rank": 4}}}, {"rank": {"shared": {"rank": 8}}}, {"rank": {}}]
        self.assertEqual(analysis.mean_over_layers(layers, "rank.shared.rank"), 6)
        with self.assertRaisesRegex(Exception, "no layer has similarity"):
            analysis.mean_over_layers(layers, "similarity.attention")


class Interruptions(Reproduction):
    def test_a_second_start_repeats_nothing_and_other_settings_are_refused(self):
        first = self.reproduce("review_moa", "--budget", 100)
        trained = len(self.calls("train"))
        again = self.reproduce("review_moa", "--budget", 100)
        self.assertEqual(len(self.calls("train")), trained)
        self.assertEqual(again.partition("Made on")[0], first.partition("Made on")[0])
        self.assertIn("has runs with other settings", self.reproduce("review_moa", "--budget", 200, code=1))

    def stopped(self, stop):
        """What the script says whose training waits, after stop(its process)."""
        process = subprocess.Popen(self.command("review_moa", "--budget", 100), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment({"STAND_IN_SLEEPS": "1"}), start_new_session=True)
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while not self.calls("sleeps") and time.monotonic() < deadline:
            time.sleep(0.02)
        stop(process)
        _, errors = process.communicate(timeout=support.TIMEOUT_SECONDS)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("stopped; the same command continues", errors)
        self.assertEqual(len(self.calls("train")), 1)  # no other was begun
        self.assertEqual(len(self.calls("stopped")), 1)  # told once: a second signal would end it before it has saved
        self.reproduce("review_moa", "--budget", 100)
        self.assertEqual(len(self.result("review_moa")), 2)

    def test_a_stopped_script_stops_its_trainings_and_goes_on(self):
        self.stopped(lambda process: process.send_signal(signal.SIGTERM))

    def test_ctrl_c_reaches_the_trainings_once(self):
        self.stopped(lambda process: os.killpg(process.pid, signal.SIGINT))

    def test_a_training_that_fails_is_named(self):
        message = self.reproduce("review_moa", "--budget", 100, code=1, STAND_IN_FAILS="moa")
        self.assertRegex(message, r"reproduce: MoA, seed 1: moh train ended with code 4; see \S+/log\.txt")
        self.reproduce("review_moa", "--budget", 100)


class RealProgram(Reproduction):
    """What the stand-in stands in for."""

    def test_trainings_in_a_budget(self):
        tiny = ("model.image_size=16", "model.transnext.dims=[16,32,64]", "model.transnext.mlp_ratios=[2,2,2]", "data.drawn=64",
                "model.transnext.depths=[1,1,1]", "data.drawn_validation=32", "data.eval_resize=18", "train.batch_size=8")
        began = time.monotonic()
        output = self.reproduce("review_moa", "--budget", 25, program=support.MOH, after=tiny)
        self.assertLess(time.monotonic() - began, 100)
        rows = self.result("review_moa")
        for row in rows.values():
            self.assertTrue(0 <= row["ours"][0] <= 100, row)
            self.assertAlmostEqual(row["heads"], 75)
        self.assertIn("model.image_size=16", output)

    def test_continuations_in_a_budget(self):
        tiny = ("model.layers=1", "model.hidden=16", "model.intermediate=16", "data.sequence_length=16", "train.batch_size=2",
                "eval.max_tokens=512", "init.moh.calibration.batches=1", "train.steps=100")
        output = self.reproduce("llama3_stage1", "--budget", 60, "--data", self.folder / "text.txt", program=support.MOH, after=tiny)
        self.assertRegex(output, r"\| MoH-LLaMA3-8B \| 64\.8 \| \+0\.10 \| continue_tuning_moh_75 .* \| 75% \| -?\d+\.\d\d \|")

    def test_a_layer_and_sizes(self):
        output = self.reproduce("efficiency", "--budget", 1, "--rows", "MoH 50%, 256 tokens", program=support.MOH)
        self.assertRegex(output, r"\| MoH 50%, 256 tokens \| 0\.225 \| 0\.62 \| 0\.57 \| 0\.98 \| \d+\.\d\d \| \d\.\d\d \| \d\.\d\d \| \d+% \| 268 "
                                 r"\| 0\.50 \| \d+\.\d\d \| \d\.\d\d \|")
        output = self.reproduce("reference_dense_vit", program=support.MOH)
        self.assertIn("| TransNeXt-S | 49.7 | 49.7 | 10.3 | 10.0 | 84.7 |", output)


if __name__ == "__main__":
    support.main()

"""scripts/ablate.py, quality.py and recovery.py: they train with seeds, go on where they were stopped, and print what they found."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import support
import translation_support

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/ablate.py"
sys.path.insert(0, str(SCRIPT.parent))

import ablate
import seeded_runs

TINY = ("model.classes=8", "model.image_size=16", "model.transnext.dims=[16,32,64]", "model.transnext.mlp_ratios=[2,2,2]",
        "model.transnext.depths=[1,1,1]", "data.train=[]", "data.validation=[]", "data.drawn=32",
        "data.drawn_validation=16", "data.eval_resize=18",
        "train.batch_size=8", "train.epochs=2", "schedule.warmup_epochs=0", "log.every=1")


class Ablate(support.MohTest):
    def ablate(self, *arguments, code=0, settings=TINY):
        command = [sys.executable, "-B", str(SCRIPT), "--moh", support.MOH, "--out", str(self.folder / "out"), "--threads", "1",
                   *arguments, "--", *settings]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_a_table_of_rows_and_seeds(self):
        output = self.ablate("--rows", "no_shared", "moa", "--seeds", "1,2").stdout.splitlines()
        self.assertEqual([line.split(" | ")[0] for line in output[2:]], ["| full", "| no_shared", "| moa"])
        self.assertRegex(output[3], r"\| 75\.60 \| table 5 \| -3\.00 \| \d+\.\d\d ± \d+\.\d\d \| [+-]\d+\.\d\d ± ")
        # What is finished is not repeated, and the table is the same.
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "out").glob("*/metrics.jsonl")}
        self.assertEqual(len(before), 6)
        self.assertEqual(self.ablate("--rows", "no_shared", "moa", "--seeds", "1,2").stdout.splitlines(), output)
        self.assertEqual({path: path.stat().st_mtime_ns for path in before}, before)

    def test_a_stopped_script_goes_on(self):
        expected = self.ablate("--rows", "full", "--seeds", "1,2").stdout
        (self.folder / "out").rename(self.folder / "whole")
        command = [sys.executable, "-B", str(SCRIPT), "--moh", support.MOH, "--out", str(self.folder / "out"), "--threads", "1",
                   "--rows", "full", "--seeds", "1,2", "--", *TINY]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        metrics = self.folder / "out/full_1/metrics.jsonl"
        deadline = time.monotonic() + support.TIMEOUT_SECONDS
        while not metrics.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.assertEqual(self.ablate("--rows", "full", "--seeds", "1,2").stdout, expected)
        self.assertEqual(support.history(self.folder / "out/full_2"), support.history(self.folder / "whole/full_2"))

    def test_refusals(self):
        self.assertIn("invalid choice: 'fool'", self.ablate("--rows", "fool", code=2).stderr)
        self.assertIn("one comes twice", self.ablate("--seeds", "1,1", code=2).stderr)
        self.ablate("--rows", "full", "--seeds", "1")
        other = self.ablate("--rows", "full", "--seeds", "1", settings=(*TINY, "train.epochs=3"), code=1).stderr
        self.assertIn("has runs with other settings", other)
        (self.folder / "out").rename(self.folder / "good")
        failed = self.ablate("--rows", "full", "--seeds", "1", settings=(*TINY, "model.transnext.window=4"), code=1).stderr
        self.assertRegex(failed, r"full, seed 1: moh train ended with code 2; see .*log\.txt")
        self.assertIn("window", (self.folder / "out/full_1/log.txt").read_text())


class Quality(support.MohTest):
    def quality(self, *arguments, settings=(), scripts=SCRIPT.parent):
        command = [sys.executable, "-B", str(scripts / "quality.py"), "--moh", support.MOH, "--seeds", "1,2", *map(str, arguments),
                   "--", *settings]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in result.stdout.splitlines()]

    def evaluated(self, folder, key):
        return seeded_runs.last_evaluation(self.folder / folder)[key]

    def test_losses_of_language_models(self):
        settings = ("model.layers=1", "model.hidden=16", "model.heads=4", "model.intermediate=16", "data.sequence_length=16",
                    "train.steps=3", "train.batch_size=2", "sample.tokens=0", "model.dropout=0")
        self.write("dense.yaml", "task: language_model\n")
        self.write("half.yaml", "task: language_model\nmodel: {moh: {router: learned, num_shared: 1, top_k: 1}}\n")
        self.write("text.txt", "Two households, both alike in dignity, " * 50)
        head, _, dense, half = self.quality("--data", "text.txt", "--configs", "dense.yaml", "half.yaml", "--out", "out",
                                            settings=settings)
        self.assertEqual(head, ["configuration", "heads", "seed 1", "seed 2", "loss, mean", "to the first"])
        losses = [self.evaluated(f"out/{name}", "loss") for name in ("dense_1", "dense_2", "half_1", "half_2")]
        self.assertEqual(dense[:4], ["dense", "100%", f"{losses[0]:.4f}", f"{losses[1]:.4f}"])
        self.assertEqual(half[:4], ["half", "50%", f"{losses[2]:.4f}", f"{losses[3]:.4f}"])
        self.assertTrue(dense[4].startswith(f"{(losses[0] + losses[1]) / 2:.4f} ± "), dense)
        self.assertEqual(dense[5], "0")
        change = 50 * (losses[2] / losses[0] + losses[3] / losses[1] - 2)
        self.assertRegex(half[5], rf"^{re.escape(f'{change:+.2f}')} ± \d+\.\d\d%$")

    def test_top1_of_classifiers(self):
        config = SCRIPT.parents[1] / "configs/vit/cifar10_moh_75.yaml"
        head, _, row = self.quality("--data", "none", "--configs", str(config), "--out", "out", settings=TINY)
        self.assertEqual(head[4], "top-1, %, mean")
        scores = [100 * self.evaluated(f"out/cifar10_moh_75_{seed}", "top1") for seed in (1, 2)]
        self.assertEqual(row[1:4], ["75%", *(f"{score:.2f}" for score in scores)])

    def test_scores_of_translations(self):
        # sacreBLEU is not everywhere: the share of equal lines, in percent, stands in for its score.
        for name in ("output_scores.py", "places.py", "quality.py", "seeded_runs.py"):
            shutil.copy(SCRIPT.with_name(name), self.folder)
        self.write("bleu.sh", """#!/bin/sh
awk 'NR == FNR { line[NR] = $0; next } { same += line[FNR] == $0 } END { printf "{\\"BLEU\\": {\\"score\\": %.6f}}", 100 * same / FNR }' "$1" "$2"
""")
        (self.folder / "bleu.sh").chmod(0o755)
        self.write("base.yaml", translation_support.RUN)
        self.write("one.yaml", "include: base.yaml\nmodel: {moh: {top_k: 1}}\n")
        pairs = translation_support.sentences()
        self.write("pairs.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs))

        def table(checkpoints):
            return self.quality("--bleu", checkpoints, "--data", "pairs.tsv", "--configs", "base.yaml", "one.yaml", "--out", "out",
                                settings=("train.steps=300", "checkpoint.every=20", "eval.every=100", "optim.learning_rate=0.01", "model.dropout=0"), scripts=self.folder)

        head, _, base, one = table(2)
        self.assertEqual(head[4:], ["BLEU, mean", "to the first"])
        self.assertEqual((base[1], one[1]), ("75%", "50%"))
        translated = (self.folder / "out/base_1/translated.txt").read_text(encoding="utf-8").splitlines()
        references = (self.folder / "out/base_1/references.txt").read_text(encoding="utf-8").splitlines()
        self.assertTrue(set(references) < {target for _, target in pairs})
        share = 100 * sum(map(str.__eq__, translated, references)) / len(references)
        self.assertEqual(base[2], f"{share:.2f}")
        self.assertGreater(share, 0)
        self.moh("translate", "--checkpoint", "out/base_1/averaged", "--held-out", "--references", "r", "--output", "t", "--beam", 4)
        self.assertEqual((self.folder / "t").read_text(encoding="utf-8").splitlines(), translated)
        # What is scored is not scored again, but for another number of checkpoints.
        note = self.folder / "out/base_1/bleu.json"
        before = note.stat().st_mtime_ns
        self.assertEqual(table(2)[2], base)
        self.assertEqual(note.stat().st_mtime_ns, before)
        table(1)
        self.assertGreater(note.stat().st_mtime_ns, before)

    def test_distances_of_images(self):
        self.write("judge.yaml", """\
task: image_classification
output: {dir: judge}
model: {architecture: vit, classes: 8, image_size: 8, vit: {patch_size: 4, hidden: 24, layers: 1, heads: 2}}
data: {drawn: 32, drawn_validation: 16}
train: {steps: 2, batch_size: 8}
""")
        self.moh("train", "judge.yaml")
        self.write("dit.yaml", support.DIT_RUN)
        self.write("one.yaml", "include: dit.yaml\nmodel: {moh: {top_k: [1, 0]}}\n")
        self.moh("train", "dit.yaml", "output.dir=reference")
        self.moh("sample", "--checkpoint", "reference", "--out", "images", "-n", 12, "--steps", 2)

        def table(count, *configs):
            return self.quality("--fid", "images", "--features-from", "judge", "--sampling", f"-n {count} --steps 2 --cfg 1", "--data", "none",
                                "--configs", *configs, "--out", "out", settings=("data.train=[]", "data.validation=[]", "data.drawn=64"))

        head, _, dense, one = table(10, "dit.yaml", "one.yaml")
        self.assertEqual(head[4:], ["Fréchet distance, mean", "to the first"])
        distances = [json.loads((self.folder / f"out/one_{seed}/fid.json").read_text())["fid"] for seed in (1, 2)]
        self.assertEqual(one[2:4], [f"{distance:.2f}" for distance in distances])
        self.moh("sample", "--checkpoint", "out/one_2", "--out", "again", "-n", 10, "--steps", 2, "--cfg", 1)
        found = self.moh("eval", "fid", "--features-from", "judge", "images", "again", "--json")
        self.assertEqual(json.loads(next(line for line in found.splitlines() if line.startswith("{")))["fid"], distances[1])
        # What is scored is not drawn again, but for other options.
        image = self.folder / "out/dit_1/drawn/000000.png"
        before = image.stat().st_mtime_ns
        self.assertEqual(table(10, "dit.yaml")[2], [*dense[:5], "0"])
        self.assertEqual(image.stat().st_mtime_ns, before)
        table(6, "dit.yaml")
        self.assertFalse((self.folder / "out/dit_1/drawn/000006.png").exists())
        # Images that a stopped start drew with other options are not scored.
        shutil.copy(self.folder / "out/dit_1/drawn/000000.png", self.folder / "out/dit_1/drawn/000009.png")
        (self.folder / "out/dit_1/fid.json").unlink()
        (self.folder / "out/dit_1/drawn.json").write_text('"-n 10 --steps 2 --cfg 1"')
        table(6, "dit.yaml")
        self.assertFalse((self.folder / "out/dit_1/drawn/000009.png").exists())

    def test_scores_that_cannot_be_had_are_refused(self):
        for options, message in ((("--fid", "images"), "expected --features FILE or --features-from RUN"),
                                 (("--features-from", "judge"), "expected --features FILE or --features-from RUN"),
                                 (("--fid", "images", "--features-from", "judge", "--bleu", "2"), "expected one of them")):
            refused = subprocess.run([sys.executable, "-B", SCRIPT.parent / "quality.py", "--data", "none", *options], capture_output=True,
                                     text=True, cwd=self.folder, timeout=support.TIMEOUT_SECONDS)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(message, refused.stderr)


class Recovery(support.MohTest):
    def recovery(self, moh, *options):
        self.write("text.txt", "Two households, both alike in dignity, " * 50)
        size = ("model.layers=1", "model.hidden=16", "model.heads=4", "model.intermediate=16", "data.sequence_length=16",
                "train.steps=6", "train.batch_size=2", "eval.every=2", "model.dropout=0", "log.every=1")
        self.write("dense.yaml", "task: language_model\n")
        self.write("moh.yaml", f"task: language_model\nmodel: {{moh: {moh}}}\ninit: {{moh: {{calibration: {{batches: 1}}}}}}\n")
        command = ["/usr/bin/python3", "-B", str(SCRIPT.with_name("recovery.py")), "--moh", support.MOH, "--data", "text.txt",
                   "--out", "out", "--dense-config", "dense.yaml", "--moh-config", "moh.yaml", *options, "--", *size]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS)
        if "has no matplotlib" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue((self.folder / "out/recovery.png").read_bytes().startswith(b"\x89PNG"))
        return result.stdout.splitlines()

    def test_a_table_of_routers(self):
        rows = self.recovery("{num_shared: 1, top_k: 2}")
        self.assertEqual(len(rows), 2 + 8)
        losses = [record["loss"] for record in seeded_runs.records(self.folder / "out/dense", "eval")]
        self.assertIn(f"| dense model | {losses[0]:.4f} | 0% | {losses[-1]:.4f} | 100% | |", rows)

    def test_a_table_of_methods_over_seeds(self):
        rows = self.recovery("{router: learned, num_shared: 25%, top_k: 50%}", "--methods", "--seeds", "1,2")
        self.assertEqual(len(rows), 2 + 8)
        for row in rows[2:]:
            self.assertRegex(row, r"\| \d\.\d{4} ± \d\.\d{4} \|")
        self.assertEqual(rows[-1].split(" | ")[0], "| whole groups")
        self.assertTrue((self.folder / "out/seed_2/routers_alone/metrics.jsonl").exists())


class Numbers(support.MohTest):
    def test_intervals(self):
        self.assertEqual(seeded_runs.mean_and_interval([3.0]), (3.0, None))
        mean, half = seeded_runs.mean_and_interval([1.0, 2.0, 3.0])
        self.assertEqual(mean, 2)
        self.assertAlmostEqual(half, 4.303 / 3 ** 0.5)
        self.assertAlmostEqual(seeded_runs.mean_and_interval(list(range(100)))[1], 1.96 * 29.011492 / 10, places=4)

    def test_every_row_has_its_small_form(self):
        self.assertEqual(set(ablate.SMALL), set(ablate.ROWS))
        for text, published, source in ablate.ROWS.values():
            self.assertTrue(text)
            self.assertEqual(published is None, source == "")

    def test_differences_are_paired(self):
        scores = {("full", 1): 50.0, ("full", 2): 60.0, ("moa", 1): 49.0, ("moa", 2): 59.0}
        line = ablate.table(scores, ["full", "moa"], "full", [1, 2])[-1]
        self.assertTrue(line.endswith("| -3.20 | 54.00 ± 63.53 | -1.00 ± 0.00 |"), line)


if __name__ == "__main__":
    support.main()

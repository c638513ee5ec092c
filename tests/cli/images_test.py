"""task: image_classification as a user meets it: from a folder of pictures to a checkpoint that tells what others show."""

import io
import json
import os
import pathlib
import shutil
import tarfile

import support

PICTURES = pathlib.Path(os.environ["MOH_SOURCE_DIR"], "tests/train/pictures/data")

DRAWN = """\
task: image_classification
seed: 3
threads: 2
output: {dir: run}
model:
  architecture: transnext
  classes: 8
  image_size: 16
  drop_path: 0.1
  transnext: {patch_size: 2, dims: [24, 48], heads: [2, 4], depths: [1, 2], mlp_ratios: [2, 2], pool_ratios: [2, 1]}
  moh: {router: learned, num_shared: [2, 1], top_k: [0, 2]}
data: {drawn: 67, drawn_validation: 24}
augment: {rand_augment: rand-m9-mstd0.5-inc1}
train: {epochs: 3, batch_size: 4, accumulate: 2}
optim: {learning_rate: 0.003}
schedule: {stepwise: false, late: true, warmup_epochs: 1, kind: cosine_from_start, warmup_start: 1.0e-5}
ema: {decay: 0.9}
log: {every: 1}
eval: {every_epochs: 1}
checkpoint: {every: 3, keep_last: 99, keep_best: false}
"""


def plain(color, side=20):
    """A picture of one colour."""
    return support.png(side, side, (b"\0" + bytes(color) * side) * side)


class Images(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("drawn.yaml", DRAWN)

    def folders(self, name, each=6):
        """A folder with pictures of two classes, which their colours tell."""
        for i in range(each):
            self.write(f"{name}/blue/{i}.png", plain((10, 10 + i, 200)))
            self.write(f"{name}/red/{i}.png", plain((200, 10 + i, 10)))
        return name

    def train_on_folders(self, *settings, code=support.DONE):
        self.folders("train")
        self.folders("held_out", 3)
        return self.moh("train", "drawn.yaml", "data.train=train", "data.validation=held_out", "model.classes=2",
                        "train.batch_size=6", "train.accumulate=1", "train.epochs=8", "augment.mixing=0",
                        "augment.rand_augment=none", "augment.erasing=0", "schedule.late=false", *settings, code=code)

    def test_epochs_and_rates_are_those_of_the_recipe(self):
        self.moh("train", "drawn.yaml")
        records = support.metrics(self.folder / "run")
        trained = [record for record in records if record["kind"] == "train"]
        self.assertEqual(len(trained), 3 * (67 // 8))
        self.assertEqual([record["step"] for record in records if record["kind"] == "eval"], [8, 16, 24])
        self.assertEqual(trained[7]["epoch"], 1)
        rates = [record["learning_rate"] for record in trained]
        self.assertEqual(len(set(rates[:16])), 1)  # late: the second epoch has the rate of the first
        self.assertEqual(rates[0], 1e-5)
        self.assertGreater(rates[16], 1e-3)
        self.assertTrue(all(0 <= record["data_wait"] <= 1 for record in trained))
        self.assertEqual(trained[-1]["images"], 24 * 8)
        self.assertIn("balance_loss", trained[0])

    def test_each_of_the_last_epochs_is_evaluated(self):
        self.moh("train", "drawn.yaml", "train.epochs=6", "eval.every_epochs=3", "eval.each_epoch_after=4")
        evaluated = [record["step"] for record in support.metrics(self.folder / "run") if record["kind"] == "eval"]
        self.assertEqual(evaluated, [8 * epoch for epoch in (3, 5, 6)])

    def test_a_run_that_was_cut_in_an_epoch_goes_on_with_the_same_bits(self):
        self.moh("train", "drawn.yaml", "output.dir=whole")
        shutil.copytree(self.folder / "whole", self.folder / "cut")
        for checkpoint in self.checkpoints("cut"):
            if checkpoint.name > "step_00000012":  # in the middle of the second epoch
                shutil.rmtree(checkpoint)
        # Neither threads nor workers change a bit.
        output = self.moh("train", "drawn.yaml", "output.dir=cut", "--resume", "threads=1", "data.workers=3",
                          "--allow-changes")
        self.assert_says(output, "resume: from step 12")
        self.assert_same_state("whole", "cut")
        self.assert_same_history("whole", "cut")
        self.moh("train", "drawn.yaml", "output.dir=one", "threads=1", "data.workers=1")
        self.assert_same_state("whole", "one")

    def test_a_run_on_archives_goes_on_in_the_middle_of_one(self):
        for shard in range(3):
            with tarfile.open(self.folder / f"shard_{shard}.tar", "w") as archive:
                for key in range(6 * shard, 6 * shard + 6):
                    for ending, contents in (("png", plain((200, 9 * key, 10))), ("cls", str(key % 2).encode())):
                        member = tarfile.TarInfo(f"{key:04}.{ending}")
                        member.size = len(contents)
                        archive.addfile(member, io.BytesIO(contents))
        settings = ("drawn.yaml", "data.train=[shard_0.tar, shard_1.tar, shard_2.tar]", "data.drawn=0",
                    "data.drawn_validation=0", "eval.every_epochs=0", "model.classes=2", "train.accumulate=1",
                    "checkpoint.every=1")
        self.moh("train", *settings, "output.dir=whole")
        shutil.copytree(self.folder / "whole", self.folder / "cut")
        for checkpoint in self.checkpoints("cut"):
            if checkpoint.name > "step_00000006":  # of 4 steps an epoch
                shutil.rmtree(checkpoint)
        for index in self.folder.glob(".*.moh-index"):
            index.unlink()
        self.assert_says(self.moh("train", *settings, "output.dir=cut", "--resume"), "resume: from step 6")
        self.assert_same_state("whole", "cut")
        self.assert_same_history("whole", "cut")

    def test_a_run_that_was_killed_goes_on_with_the_same_bits(self):
        self.moh("train", "drawn.yaml", "train.epochs=12", "output.dir=whole")
        # What it still has to say does not fit into the pipe.
        running = support.Running(self, "train", "drawn.yaml", "train.epochs=12", "output.dir=killed")
        running.read_until("step 13/96")
        self.assertTrue(running.kill())
        self.moh("train", "drawn.yaml", "train.epochs=12", "output.dir=killed", "--resume")
        self.assert_same_state("whole", "killed")
        self.assert_same_history("whole", "killed")

    def test_the_average_of_the_weights_is_evaluated_and_loaded(self):
        self.moh("train", "drawn.yaml")
        self.assertTrue((self.newest() / "ema.safetensors").exists())
        last = support.metrics(self.folder / "run")[-1]
        average = json.loads(self.moh("eval", "--checkpoint", "run", "--json"))
        weights = json.loads(self.moh("eval", "--checkpoint", "run", "ema.evaluate=false", "--json"))
        self.assertEqual(average["loss"], last["loss"])
        self.assertNotEqual(weights["loss"], last["loss"])
        refused = self.moh("train", "drawn.yaml", "output.dir=run", "ema.decay=0.5", "--resume",
                           code=support.CONFIG_ERROR)
        self.assert_says(refused, "ema.decay: 0.9 -> 0.5")

    def test_from_a_folder_of_pictures_to_their_classes(self):
        output = self.train_on_folders()
        self.assert_says(output, "validation top1       1.0000", "img/s")
        report = json.loads(self.moh("eval", "--checkpoint", "run", f"data={self.folders('test', 2)}", "--json"))
        self.assertEqual(report["top1"], 1)
        self.assertEqual([entry["name"] for entry in report["classes"]], ["blue", "red"])
        self.assertEqual(report["confusion"], [[0, 0, 2], [1, 1, 2]])
        table = self.moh("eval", "--checkpoint", "run")
        self.assert_says(table, "6 of 6 images", "blue", "100.0%")
        self.assert_says(self.moh("eval", "--checkpoint", "run", "eval.max_pictures=3"), "3 of 6 images")
        shutil.rmtree(self.folder / "train")  # the checkpoint knows the names of the classes
        shutil.rmtree(self.folder / "held_out")
        predicted = self.moh("predict", "--checkpoint", "run", "test/red/0.png", "test/blue/1.png", "--json").splitlines()
        best = [json.loads(line)["classes"][0] for line in predicted]
        self.assertEqual([each["name"] for each in best], ["red", "blue"])
        self.assertGreater(best[0]["probability"], 0.5)
        self.assert_says(self.moh("predict", "--checkpoint", "run", "--top", "1", "test/red/0.png"), "red")
        # A setting is none of the files, before and after them; a file with such a name is one.
        for order in (("test/red/0.png", "threads=1"), ("threads=1", "test/red/0.png")):
            self.assertEqual(len(self.moh("predict", "--checkpoint", "run", "--json", *order).splitlines()), 1)
        self.assert_says(self.moh("predict", "--checkpoint", "run", "test/red/0.png", "data.eval_resise=9", code=support.CONFIG_ERROR),
                         "did you mean data.eval_resize?")
        self.assert_says(self.moh("predict", "--checkpoint", "run", "threads=1", code=support.CONFIG_ERROR), "a picture or more")
        shutil.copy(self.folder / "test/red/0.png", self.folder / "threads=1")
        self.assert_says(self.moh("predict", "--checkpoint", "run", "--top", "1", "threads=1"), "threads=1", "red")
        wrong = self.moh("eval", "--checkpoint", "run", f"data={self.write('x/green/1.png', plain((0, 200, 0))).parent.parent}",
                         code=support.INPUT_ERROR)
        self.assert_says(wrong, "green")

    def test_broken_pictures_are_named_and_the_others_classified(self):
        self.moh("train", "drawn.yaml", "train.epochs=1", "schedule.warmup_epochs=0")
        jpeg, picture = (PICTURES / "gray.jpg").read_bytes(), plain((1, 2, 3))
        broken = {
            "empty.jpg": b"", "text.jpg": b"no picture\n", "cut.jpg": jpeg[:len(jpeg) // 2], "start.jpg": jpeg[:3],
            "cut.png": picture[:40], "sum.png": picture[:45] + bytes([picture[45] ^ 1]) + picture[46:],
            "huge.png": support.png(100000, 100000, b""), "short.png": support.png(20, 20, b"\0" * 10), "gif.jpg": b"GIF89a" + b"\0" * 50,
            "zeros.jpg": jpeg[:20] + b"\0" * (len(jpeg) - 20),
        }
        for name, contents in broken.items():
            self.write(name, contents)
        self.write("sound.jpg", jpeg)
        output = self.moh("predict", "--checkpoint", "run", *broken, "sound.jpg", code=support.INPUT_ERROR)
        for name in broken:
            self.assert_says(output, f"error: {name}: ")
        self.assertRegex(output, r"\nsound.jpg\n +[\d.]+%  \w+")
        self.assert_says(self.moh("predict", "--checkpoint", "run", "no.jpg", ".", code=support.INPUT_ERROR), "no.jpg")

    def test_broken_training_pictures_stop_a_run_or_are_counted(self):
        self.folders("train")
        self.write("train/red/broken.png", plain((200, 0, 0))[:60])
        stopped = self.train_on_folders(code=support.INPUT_ERROR)
        self.assert_says(stopped, "train/red/broken.png")
        output = self.train_on_folders("data.on_error=skip", "--overwrite")
        self.assert_says(output, "training data", "1 broken picture: ", "broken.png")

    def test_plan_is_what_a_run_takes(self):
        settings = ("model.image_size=48", "train.batch_size=16", "train.epochs=1", "schedule.warmup_epochs=0",
                    "data.drawn=128")
        plan = json.loads(self.moh("plan", "drawn.yaml", *settings, "--json"))
        self.assertEqual(plan["steps"], 4)
        self.moh("train", "drawn.yaml", *settings)
        peak = support.metrics(self.folder / "run")[-2]["peak_memory_bytes"]
        planned = max(plan["recompute"]["none"]["peak_bytes"]["total"], plan["recompute"]["none"]["evaluation_bytes"])
        self.assertLess(abs(planned / peak - 1), 0.05)

    def test_heads_are_analysed_by_class(self):
        self.moh("train", "drawn.yaml", "train.epochs=1", "schedule.warmup_epochs=0")
        output = self.moh("analyze", "--checkpoint", "run", "--out", "heads.json", "--dump", "heads.safetensors",
                          "--dump-sequences", "3", "--dump-layers", "0,2")
        self.assert_says(output, "disc", "3 of 3 images", "load in layer 2, by source")
        report = json.loads((self.folder / "heads.json").read_text())
        self.assertEqual(report["unit"], "images")
        self.assertEqual(report["model"]["stages"], [1, 2])
        self.assertEqual(len(report["sources"]), 8)
        for layer, heads in zip(report["layers"], (2, 4, 4)):
            for kind in ("attention", "outputs", "contributions"):
                matrix = layer["similarity"][kind]["matrix"]
                self.assertEqual([len(row) for row in matrix], [heads] * heads)
            # Two heads share some of the softmax over neighbours and pooled tokens, and not all of it.
            self.assertTrue(0 < layer["similarity"]["attention"]["mean"]["all"] < 1)
        routed = report["layers"][2]
        for source in routed["by_source"]:
            self.assertAlmostEqual(sum(source["load"]), 3, places=4)  # one shared, two of three routed
        # 8 x 8 tokens in the first stage, 4 x 4 in the second; the scores of a TransNeXt are no products of q and k.
        dumped = support.stored_shapes(self.folder / "heads.safetensors")
        self.assertEqual(dumped["sources"], ("I32", [3]))
        self.assertEqual({name: shape for name, (_, shape) in dumped.items() if name.startswith("layers.0.")},
                         {"layers.0.gates": [3, 64, 2], "layers.0.selected": [3, 64, 2], "layers.0.x": [3, 64, 24],
                          "layers.0.heads": [3, 64, 2, 12]})
        self.assertEqual(dumped["layers.2.selected"], ("U8", [3, 16, 4]))
        self.assertEqual(dumped["layers.2.x"], ("F32", [3, 16, 48]))

    def test_a_step_is_measured(self):
        step = json.loads(self.moh("bench", "step", "drawn.yaml", "--random-data", "--steps", "2", "--no-peaks", "--json"))
        self.assertGreater(step["images_per_s"], 0)

    def test_what_does_not_fit_is_refused(self):
        self.assert_says(self.moh("train", "drawn.yaml", "model.classes=9", code=support.CONFIG_ERROR),
                         "model.classes: expected 8, the classes of data.train, found 9")
        self.assert_says(self.moh("train", "drawn.yaml", "data.drawn=0", code=support.CONFIG_ERROR),
                         "data.train: expected pictures to train on")
        self.write("names.txt", "one\ntwo\n")
        self.assert_says(self.moh("train", "drawn.yaml", "data.class_names=names.txt", code=support.CONFIG_ERROR),
                         "data.class_names: expected none for drawn pictures, whose names are known")
        self.assert_says(self.train_on_folders("data.class_names=names.txt", code=support.INPUT_ERROR),
                         "train/blue: class: expected one of")


if __name__ == "__main__":
    support.main()

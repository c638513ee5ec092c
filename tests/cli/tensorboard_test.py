"""TensorBoard reads what a run wrote for it."""

import pathlib
import signal
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("tensorboard")

from tensorboard.backend.event_processing import event_accumulator  # noqa: E402

import support  # noqa: E402


class TensorBoard(support.MohTest):
    def read(self, run="run"):
        events = event_accumulator.EventAccumulator(
            str(self.folder / run), size_guidance={event_accumulator.SCALARS: 0, event_accumulator.HISTOGRAMS: 0})
        return events.Reload()

    def assert_shows_metrics(self, run="run"):
        events, expected = self.read(run), {}
        for record in support.metrics(self.folder / run):
            for key, value in record.items():
                if isinstance(value, (int, float)) and key not in ("step", "unix_time"):
                    expected.setdefault(f"{record['kind']}/{key}", []).append((record["step"], value))
                if isinstance(value, list):
                    for layer, number in enumerate(value):
                        if isinstance(number, (int, float)):
                            expected.setdefault(f"{record['kind']}/{key}/layer_{layer}", []).append((record["step"], number))
                if key == "event":
                    expected.setdefault(f"event/{value}", []).append((record["step"], 1))
        self.assertEqual(set(events.Tags()["scalars"]), set(expected))
        for tag, points in expected.items():
            shown = [(event.step, event.value) for event in events.Scalars(tag)]
            self.assertEqual([step for step, _ in shown], [step for step, _ in points], tag)
            for (_, found), (_, value) in zip(shown, points):
                self.assertAlmostEqual(found, value, delta=1e-6 * abs(value))

    def test_a_run_that_is_stopped_and_resumed(self):
        config = self.config({"train.steps": 120, "eval.every": 4, "log.every": 1, "checkpoint.every": 3})
        run = support.Running(self, "train", config)
        run.read_until("step 7/")
        run.send(signal.SIGKILL)
        run.process.wait(support.TIMEOUT_SECONDS)
        self.moh("train", config, "--resume", "train.steps=20", "--allow-changes")
        self.assert_shows_metrics()

    def test_head_loads_are_histograms_over_the_heads(self):
        self.train({"log.every": 1})
        events = self.read()
        loads = [record for record in support.metrics(self.folder / "run") if record["kind"] == "train"]
        self.assertEqual(sorted(events.Tags()["histograms"]), ["train/head_load/layer_0", "train/head_load/layer_1"])
        for layer in range(2):
            shown = events.Histograms(f"train/head_load/layer_{layer}")
            self.assertEqual([event.step for event in shown], [record["step"] for record in loads])
            for event, record in zip(shown, loads):
                self.assertEqual(list(event.histogram_value.bucket_limit), [1, 2, 3][:len(record["head_load"][layer])])
                for found, load in zip(event.histogram_value.bucket, record["head_load"][layer]):
                    self.assertAlmostEqual(found, load, delta=1e-6)

    def test_pictures_of_samples_are_images(self):
        self.write("diffusion.yaml", """\
task: diffusion
output: {dir: run}
model: {image_size: 8, patch_size: 2, channels: 3, classes: 8, layers: 1, hidden: 16, heads: 2}
data: {drawn: 16}
train: {steps: 4, batch_size: 4}
eval: {every: 2}
sample: {pictures: 2, steps: "2"}
""")
        self.moh("train", "diffusion.yaml")
        shown = self.read().Images("eval/picture")
        self.assertEqual([(image.step, image.width, image.height) for image in shown], [(2, 17, 8), (4, 17, 8)])
        for image in shown:
            self.assertEqual(image.encoded_image_string, (self.folder / f"run/samples/step_{image.step:08d}.png").read_bytes())

    def test_it_can_be_left_out_and_a_new_run_replaces_it(self):
        file = self.folder / "run/events.out.tfevents.moh"
        self.train()
        self.assertTrue(file.exists())
        self.train({"log.tensorboard": False}, "--overwrite")
        self.assertFalse(file.exists())


if __name__ == "__main__":
    python_packages.main()

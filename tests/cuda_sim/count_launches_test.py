"""scripts/count_launches.py counts of layers of tiny models what docs/cuda.md says: a kernel more or less in a layer shows here."""

import collections
import importlib.util
import os
import pathlib
import unittest

SOURCE = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
SCRIPT = importlib.util.spec_from_file_location("count_launches", SOURCE / "scripts" / "count_launches.py")
count_launches = importlib.util.module_from_spec(SCRIPT)
SCRIPT.loader.exec_module(count_launches)

LANGUAGE = ["train.batch_size=1", "data.sequence_length=272", "model.max_positions=272", "data.tokenizer=byte", "data.train=x",
            "model.vocab_size=256"]
IMAGES = [*count_launches.IMAGES, "train.batch_size=2", "model.image_size=32", "model.vit.hidden=64", "model.vit.heads=4"]
# Heads as wide as DiT-XL's.
DIFFUSION = ["configs/dit/cifar10_dense.yaml", "train.batch_size=2", "model.image_size=64", "model.hidden=432", "data.train=x",
             "data.validation=x"]
ROUTED = count_launches.routed(1, 1)

# Settings, the key of the number of layers, and the launches of a layer, forward and backward.
LAYERS = {
    "language model": (["configs/llm/tiny_shakespeare_dense.yaml", *LANGUAGE], "model.layers", (10, 17)),
    "MoH language model": (["configs/llm/tiny_shakespeare_moh_50.yaml", *LANGUAGE], "model.layers", (14, 21)),
    "ViT": (IMAGES, "model.vit.layers", (8, 15)),
    "MoH-ViT": ([*IMAGES, *ROUTED], "model.vit.layers", (12, 19)),
    "DiT": (DIFFUSION, "model.layers", (8, 20)),
    "MoH-DiT": ([*DIFFUSION, *ROUTED], "model.layers", (12, 24)),
}


class CountLaunches(unittest.TestCase):
    def test_a_layer_launches_as_often_as_the_documentation_says(self):
        for name, (settings, key, expected) in LAYERS.items():
            with self.subTest(name):
                layer = count_launches.layer_of(os.environ["MOH_SIM_BINARY"], (settings, key, 1))
                found = collections.Counter()
                for launch, (calls, _) in layer.items():
                    found[launch.phase] += calls
                self.assertEqual((found["forward"], found["backward"]), expected, layer)


if __name__ == "__main__":
    unittest.main()

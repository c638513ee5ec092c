"""task: translation: how the heads of a dense model become routed ones."""

import json
import re

import support
import translation_support

DENSE = ("model.moh.router=none", "model.moh.num_shared=0", "model.moh.top_k=0")
DIVERGENCE = re.compile(r"init: (\S+ \S+)( \(selected\))?: KL divergence from the dense model ([0-9.]+) nats per token")


class StartFromDense(translation_support.TranslationTest):
    def setUp(self):
        super().setUp()
        self.moh("train", "run.yaml", *DENSE, "train.steps=80", "output.dir=dense")

    def start(self, *settings):
        return self.moh("train", "run.yaml", "init.from=dense", "train.steps=3", "--overwrite", *settings)

    def shared_heads(self):
        return json.loads(re.search(r"shared_heads: (.*)", (self.newest() / "config.yaml").read_text()).group(1))

    def test_each_start_of_the_routers_is_measured(self):
        output = self.start()
        nats = {what: float(value) for what, _, value in DIVERGENCE.findall(output)}
        self.assertEqual(set(nats), {"router_start zero", "router_start random", "router_start calibrated"})
        self.assertLess(nats["router_start calibrated"], nats["router_start zero"])
        self.assert_says(output, "router_start calibrated (selected)")
        # The first step sees the trained model, not a random one.
        dense, first = support.losses(self.folder / "dense"), support.losses(self.folder / "run")[0]
        self.assertLess(abs(first - dense[-1]), 0.5 * (dense[0] - dense[-1]))

    def test_shared_heads_are_chosen_by_what_they_do(self):
        for way in ("output_norm", "loss_increase"):
            with self.subTest(way=way):
                output = self.start(f"model.moh.shared_heads={way}", "init.moh.calibration.batches=2")
                self.assert_says(output, *(f"init: shared heads of layer {layer} by {way}:" for layer in range(3)))
                chosen = self.shared_heads()
                self.assertEqual([len(heads) for heads in chosen], [1, 1, 1])
                self.start(f"model.moh.shared_heads={way}", "init.moh.calibration.batches=2")
                self.assertEqual(self.shared_heads(), chosen)  # the same pairs, the same choice

    def test_a_model_of_the_most_important_heads_alone(self):
        settings = ("model.moh.router=static", "model.moh.num_shared=3", "model.moh.top_k=0", "model.moh.shared_heads=output_norm")
        output = self.start(*settings)
        self.assert_says(output, "75% of them active", "init: router static: KL divergence from the dense model")
        chosen = self.shared_heads()
        self.assertEqual([len(set(heads)) for heads in chosen], [3, 3, 3])
        self.assert_says(self.moh("eval", "--checkpoint", "run"), "perplexity")

    def test_what_needs_measurements_needs_batches(self):
        for key in ("init.moh.router_start=calibrated", "model.moh.shared_heads=output_norm"):
            message = self.moh("train", "run.yaml", "init.from=dense", key, "init.moh.calibration.batches=0", code=support.CONFIG_ERROR)
            self.assert_says(message, "init.moh.calibration.batches: expected at least 1")


if __name__ == "__main__":
    support.main()

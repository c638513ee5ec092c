"""The gradient of a step does not depend on how its batch is cut into pieces: 1 x 8, 2 x 4 and 8 x 1 sequences. The
load-balance loss, which is defined per micro-batch, is their mean."""

import support
from support import DENSE

STEPS = 10

# Sums in another order differ by rounding: about 1e-7 of a loss, and of a weight what AdamW makes of that in ten steps.
# It divides by the gradient's own size, so that the rounding of a gradient near zero counts as much as any; eps, here
# far above the default, bounds that.
SETTINGS = {"train.steps": STEPS, "checkpoint.every": 0, "eval.every": 5, "optim.eps": 1e-4,
            "model.moh.balance_weight": 0.0}
MAX_LOSS_DIFFERENCE = 1e-6    # relative
MAX_WEIGHT_DIFFERENCE = 1e-5  # relative to the largest weight of the tensor


class Accumulation(support.MohTest):
    def run_as(self, batch_size, accumulate, settings):
        name = f"{batch_size}x{accumulate}"
        self.train({**SETTINGS, **settings}, f"output.dir={name}", f"train.batch_size={batch_size}",
                   f"train.accumulate={accumulate}")
        return name

    def loss_difference(self, run, other):
        pairs = zip(support.losses(self.folder / run), support.losses(self.folder / other))
        return max(abs(a - b) / a for a, b in pairs)

    def weight_difference(self, run, other):
        first, second = (support.read_tensors(self.newest(name) / "model.safetensors") for name in (run, other))
        self.assertEqual(first.keys(), second.keys())
        return max(max(abs(a - b) for a, b in zip(first[name], second[name])) / max(map(abs, first[name]))
                   for name in first)

    def check(self, name, settings):
        whole = self.run_as(8, 1, settings)
        self.assertEqual(len(support.losses(self.folder / whole)), STEPS)
        moved = self.weight_difference(whole, self.untrained(settings))
        for batch_size, accumulate in ((4, 2), (1, 8)):
            pieces = self.run_as(batch_size, accumulate, settings)
            losses, weights = self.loss_difference(whole, pieces), self.weight_difference(whole, pieces)
            print(f"{name}: {accumulate} x {batch_size} against 1 x 8: losses differ by {losses:.1e}, weights by "
                  f"{weights:.1e}; training moved weights by {moved:.1e}", flush=True)
            self.assertLess(losses, MAX_LOSS_DIFFERENCE)
            self.assertLess(weights, MAX_WEIGHT_DIFFERENCE)
        # Otherwise equal weights would show nothing.
        self.assertGreater(moved, 1000 * MAX_WEIGHT_DIFFERENCE)

    def untrained(self, settings):
        """The same weights before the first step: a rate of nearly zero."""
        self.train({**SETTINGS, **settings, "optim.learning_rate": 1e-30, "schedule.warmup_start": 0},
                   "output.dir=untrained", "train.steps=1")
        return "untrained"

    def test_dense(self):
        self.check("dense", DENSE)

    def test_learned_router(self):
        self.check("learned router", {})

    def test_query_norm_router(self):
        self.check("query_norm router", support.QUERY_NORM)

    def moments(self, run, step):
        """Moving averages of the gradients after `step`, by parameter."""
        file = self.folder / run / f"checkpoints/step_{step:08}/optimizer-00000-of-00001.safetensors"
        tensors = support.read_tensors(file)
        prefix = "exp_avg."
        return {name.removeprefix(prefix): values for name, values in tensors.items() if name.startswith(prefix)}

    def test_the_balance_loss_is_the_mean_over_micro_batches(self):
        # A step of two micro-batches beside two steps of one each, with a rate of nearly zero: on the same weights.
        decay = 0.9
        settings = {"model.moh.balance_weight": 0.5, "optim.learning_rate": 1e-30, "schedule.warmup_start": 0,
                    "optim.betas": f"[{decay}, 0.95]", "optim.clip_grad_norm": 0, "checkpoint.every": 1, "eval.every": 0}
        for accumulate, steps in ((2, 1), (1, 2)):
            self.train(settings, f"output.dir={steps}", f"train.accumulate={accumulate}", f"train.steps={steps}")
        records = {steps: [record for record in support.metrics(self.folder / steps) if record["kind"] == "train"]
                   for steps in ("1", "2")}
        for number in ("loss", "balance_loss"):
            (together,), apart = [[record[number] for record in records[steps]] for steps in ("1", "2")]
            self.assertNotEqual(*apart)
            self.assertAlmostEqual(together, sum(apart) / 2, delta=1e-5 * together)

        together, first, second = self.moments("1", 1), self.moments("2", 1), self.moments("2", 2)
        for name, gradients in together.items():
            mean = [(a + b - decay * a) / 2 for a, b in zip(first[name], second[name])]
            largest = max(map(abs, mean))
            # With one routed head per token the gates give these no gradient: it all is the balance loss'.
            if name.endswith("wg.weight"):
                self.assertGreater(largest, 1e-6)
            for found, expected in zip(gradients, mean):
                self.assertAlmostEqual(found, expected, delta=1e-4 * largest, msg=name)

    def test_rows_of_unequal_length_count_by_their_tokens(self):
        # The evaluation cuts the text into rows of which the last is short, in batches that depend on batch_size.
        evaluations = []
        for batch_size in (1, 3, 8):
            run = self.run_as(batch_size, 1, {"train.steps": 1, "optim.learning_rate": 1e-30,
                                              "schedule.warmup_start": 0, "eval.every": 1})
            evaluations += [record["loss"] for record in support.metrics(self.folder / run)
                            if record["kind"] == "eval"]
        self.assertEqual(len(evaluations), 3)
        for loss in evaluations[1:]:
            self.assertAlmostEqual(loss / evaluations[0], 1.0, delta=1e-6)


if __name__ == "__main__":
    support.main()

"""What metrics.jsonl says of a run is what was configured and computed."""

import math
import time

import support
from support import DENSE


class Metrics(support.MohTest):
    def records(self, kind, run="run"):
        return [record for record in support.metrics(self.folder / run) if record["kind"] == kind]

    def test_learning_rates_follow_the_schedule(self):
        peak, start, low, warmup, steps = 0.003, 0.001, 0.0005, 3, 10
        self.train({"schedule.warmup_steps": warmup, "schedule.warmup_start": start, "schedule.min_learning_rate": low,
                    "optim.learning_rate": peak, "train.steps": steps})
        for record in self.records("train"):
            t = record["step"] - 1  # finished steps
            if t < warmup:
                expected = start + (peak - start) * t / warmup
            else:
                expected = low + (peak - low) / 2 * (1 + math.cos(math.pi * (t - warmup) / (steps - warmup)))
            self.assertAlmostEqual(record["learning_rate"], expected, delta=1e-12)

    def test_a_warmup_begins_with_its_first_part(self):
        self.train({"schedule.warmup_steps": 4, "schedule.warmup_start": 0, "schedule.kind": "constant"})
        rates = [record["learning_rate"] for record in self.records("train")]
        for rate, expected in zip(rates, (0.00075, 0.0013125, 0.001875, 0.0024375, 0.003, 0.003)):
            self.assertAlmostEqual(rate, expected, delta=1e-12)

    def test_a_constant_rate(self):
        self.train({"schedule.kind": "constant", "schedule.warmup_steps": 0})
        self.assertEqual({record["learning_rate"] for record in self.records("train")}, {0.003})

    def test_routing(self):
        heads, shared, routed = 4, 1, 2
        self.train({"model.moh.num_shared": shared, "model.moh.top_k": routed})
        for record in self.records("train"):
            self.assertEqual(record["activated_heads"], (shared + routed) / heads)
            self.assertEqual([len(layer) for layer in record["head_load"]], [heads - shared] * 2)
            for layer in record["head_load"]:
                # Each token is served by `routed` of them.
                self.assertAlmostEqual(sum(layer), routed, delta=1e-6)
                self.assertTrue(all(0 <= load <= 1 for load in layer))
            self.assertGreater(record["balance_loss"], 0)

    def test_routers_by_layer(self):
        self.train({"model.moh.num_shared": [1, 4], "model.moh.top_k": [2, 0], "model.recompute": "layer"})
        for record in self.records("train"):
            balance, margin, dead, weight = (
                record[key] for key in ("layer_balance_loss", "router_margin", "dead_heads", "routed_weight"))
            self.assertAlmostEqual(balance[0], record["balance_loss"], delta=1e-6)
            self.assertTrue(0 < margin[0] < 10)
            self.assertEqual(dead[0], 0)
            self.assertAlmostEqual(weight[0], 0.5, delta=0.2)
            self.assertEqual([balance[1], margin[1], dead[1], weight[1]], [None] * 4)
            self.assertNotIn("non_finite", record)

    def test_churn_is_measured_with_each_checkpoint(self):
        self.train({"train.steps": 4, "checkpoint.every": 2})
        churn = [record["churn"] for record in self.records("router")]
        self.train({"train.steps": 8, "checkpoint.every": 2, "schedule.decay_steps": 4}, "--resume", "--allow-changes")
        records = self.records("router")
        self.assertEqual([record["step"] for record in records], [2, 4, 6, 8])
        self.assertEqual([record["churn"] for record in records[:2]], churn)
        for record in records:
            self.assertEqual(len(record["churn"]), 2)
            self.assertTrue(all(0 <= share <= 1 for share in record["churn"]))
        self.train({"train.steps": 8, "checkpoint.every": 2, "schedule.decay_steps": 4, "output.dir": "whole"})
        self.assertEqual([record["churn"] for record in self.records("router", "whole")],
                         [record["churn"] for record in records])

    def test_a_router_that_collapses_is_a_warning(self):
        # Zeros in the first place of a tie: all tokens select the first routed head, and nothing moves them from there.
        self.train({**DENSE, "output.dir": "dense", "train.steps": 2, "schedule.warmup_steps": 0})
        output = self.train({"init.from": "dense", "init.moh.router_start": "zero", "model.moh.balance_weight": 0,
                             "init.moh.calibration.batches": 0, "model.moh.shared_heads": "[0]",
                             "train.batch_size": 16, "train.steps": 3, "schedule.warmup_steps": 0})
        collapses = [record for record in self.records("event") if record["event"] == "router_collapse"]
        self.assertEqual([(record["step"], record["layers"]) for record in collapses], [(1, "0, 1")])
        self.assertIn("the routers of layers 0, 1 have collapsed", output)
        self.assertEqual(self.records("train")[-1]["dead_heads"], [2, 2])

    def test_heads_that_an_estimator_wants_are_computed(self):
        for estimator, share in (("none", 0.5), ("selected", 0.5), ("all", 1.0)):
            for recompute in ("none", "layer"):
                self.train({**support.QUERY_NORM, "model.moh.straight_through": estimator, "model.recompute": recompute},
                           "--overwrite")
                self.assertEqual({record["activated_heads"] for record in self.records("train")}, {share})

    def test_layers_of_their_own_kinds(self):
        self.train({"model.moh.num_shared": [4, 2], "model.moh.top_k": [0, 1]})
        record = self.records("train")[0]
        self.assertEqual([len(layer) for layer in record["head_load"]], [0, 2])
        self.assertEqual(record["activated_heads"], (4 + 3) / 8)

    def test_a_dense_model_has_no_routing(self):
        self.train(DENSE)
        for record in self.records("train"):
            self.assertFalse({"head_load", "balance_loss", "activated_heads"} & record.keys())

    def test_counts(self):
        began = time.time()
        self.train({"train.batch_size": 2, "train.accumulate": 3})
        for record in self.records("train"):
            self.assertEqual(record["tokens"], record["step"] * 2 * 3 * 32)
            self.assertGreater(record["grad_norm"], 0)
            self.assertGreater(record["tokens_per_s"], 0)
            self.assertGreater(record["peak_process_memory_bytes"], record["peak_memory_bytes"])
            self.assertGreater(record["peak_memory_bytes"], 0)
        elapsed = [record["elapsed_s"] for record in self.records("train")]
        self.assertEqual(elapsed, sorted(elapsed))
        times = [record["unix_time"] for record in support.metrics(self.folder / "run")]
        self.assertTrue(began - 1 <= times[0] <= times[-1] <= time.time() + 1)

    def test_evaluations(self):
        self.train({"eval.every": 2})
        self.assertEqual([record["step"] for record in self.records("eval")], [2, 4, 6, 8])
        for record in self.records("eval"):
            self.assertAlmostEqual(record["perplexity"], math.exp(record["loss"]), delta=1e-6 * record["perplexity"])
            self.assertAlmostEqual(record["bits_per_byte"], record["loss"] / math.log(2), delta=1e-6)

    def test_an_evaluation_before_the_first_step(self):
        self.train({"eval.at_start": "true", "eval.every": 4, "train.steps": 4, "schedule.decay_steps": 4})
        first, last = self.records("eval")
        self.assertEqual((first["step"], last["step"]), (0, 4))
        self.assertAlmostEqual(first["loss"], math.log(256), delta=0.3)  # the weights are random yet
        self.train({"eval.at_start": "true", "eval.every": 4, "train.steps": 6, "schedule.decay_steps": 4}, "--resume")
        self.assertEqual([record["step"] for record in self.records("eval")], [0, 4, 6])

    def test_lines_as_often_as_configured(self):
        self.train({"log.every": 3})
        self.assertEqual([record["step"] for record in self.records("train")], [1, 3, 6, 8])

    def test_training_learns(self):
        self.train({"train.steps": 60, "optim.learning_rate": 0.01, "eval.every": 60, "checkpoint.every": 0})
        losses = support.losses(self.folder / "run")
        # Above the entropy of these words' letters, below that of bytes at random.
        self.assertAlmostEqual(losses[0], math.log(256), delta=0.3)
        self.assertLess(losses[-1], 0.6 * losses[0])
        self.assertLess(self.records("eval")[-1]["loss"], 0.6 * losses[0])


if __name__ == "__main__":
    support.main()

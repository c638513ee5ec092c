"""scripts/scaling.py: its formulas where they are known, and a table of a configuration of the project."""

import os
import subprocess
import sys
import unittest

ROOT = os.environ["MOH_SOURCE_DIR"]
sys.path.insert(0, f"{ROOT}/scripts")
import scaling  # noqa: E402

TERABYTE = 10**12
TRAINING = scaling.Training(flops=1e18, parameters=10**9, micro_batches=64, samples=4, value_bytes=2)


def step(count, zero=0, bucket=256 << 20, training=TRAINING):
    return scaling.step(scaling.Machine(), training, count, 0.4, zero, bucket)


class Formulas(unittest.TestCase):
    machine = scaling.Machine()

    def test_a_large_all_reduce_takes_its_bytes_over_the_bandwidth(self):
        for count, bandwidth in ((8, 360e9), (1024, 320e9)):
            seconds = 2 * (count - 1) / count * TERABYTE / bandwidth
            self.assertAlmostEqual(scaling.ring(self.machine, count, TERABYTE) / seconds, 1, delta=0.01)
            self.assertGreater(scaling.tree(self.machine, count, TERABYTE), seconds)

    def test_a_small_one_takes_its_steps(self):
        self.assertAlmostEqual(scaling.ring(self.machine, 8, 0), 8.4e-6 + 14 * 3.4e-6)
        self.assertAlmostEqual(scaling.ring(self.machine, 16, 0), 8.4e-6 + 28 * 3.4e-6 + 2 * 9.6e-6)
        self.assertLess(scaling.tree(self.machine, 1024, 1), scaling.ring(self.machine, 1024, 1))

    def test_one_gpu_sends_nothing(self):
        for zero in (0, 1, 2, 3):
            self.assertEqual(step(1, zero).communication, 0)
            self.assertEqual(step(1, zero).exposed, 0)

    def test_what_a_backward_pass_cannot_hide_is_exposed(self):
        for count in (2, 8, 64, 256):
            for zero in (0, 1, 2, 3):
                now = step(count, zero)
                self.assertGreater(now.exposed, 0)
                self.assertLessEqual(now.exposed, now.communication)
        fast = scaling.Training(flops=1e9, parameters=10**9, micro_batches=64, samples=4, value_bytes=2)
        self.assertAlmostEqual(step(8, training=fast).exposed / step(8, training=fast).communication, 1, delta=1e-3)

    def test_divided_state_is_updated_by_all_together(self):
        self.assertAlmostEqual(step(64, zero=1).update, step(64).update / 64)

    def test_gradients_and_weights_of_each_micro_batch_are_sent(self):
        # 64 micro-batches: 8 of each GPU.
        first, gradients, weights = (step(8, zero=zero) for zero in (1, 2, 3))
        reduced = (gradients.communication - first.communication) / 7
        gathered = first.communication - reduced
        self.assertAlmostEqual(reduced / gathered, 2, delta=0.1)  # float32 and bfloat16
        self.assertAlmostEqual(weights.communication / (8 * (reduced + 2 * gathered)), 1)
        self.assertEqual(first.update, weights.update)

    def test_samples_that_cannot_be_divided(self):
        self.assertIsNone(step(512))
        self.assertIsNone(step(3))


class Table(unittest.TestCase):
    def test_a_configuration_of_the_project(self):
        result = subprocess.run([sys.executable, "-B", f"{ROOT}/scripts/scaling.py", "--moh", os.environ["MOH_BINARY"],
                                 f"{ROOT}/configs/llm/moh_llm_s_50.yaml"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [line.split("|")[1:-1] for line in result.stdout.splitlines() if line.startswith("| 1")]
        self.assertEqual(len(rows), 4 * 4)  # 1, 16, 128, 1024
        self.assertEqual(rows[0][6].strip(), "100.0%")
        for row in rows:
            self.assertLessEqual(float(row[6].strip(" %")), 100.2)


if __name__ == "__main__":
    unittest.main()

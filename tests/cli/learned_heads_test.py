"""Shared heads that are learned in training (moh.learn_shared_until): an interrupted run goes on with the same bits, before
and after the heads are fixed, and the checkpoint says which they are."""

import shutil

import support

RUN = """\
task: image_classification
seed: 3
threads: 1
output: {dir: run}
model:
  architecture: vit
  classes: 8
  image_size: 16
  drop_path: 0.1
  vit: {patch_size: 4, layers: 2, hidden: 32, heads: 4, mlp_ratio: 2}
  moh: {router: learned, num_shared: 1, top_k_ratio: 0.34, learn_shared_until: 0.5}
data: {drawn: 64, drawn_validation: 16}
train: {steps: 12, batch_size: 8}
optim: {learning_rate: 0.01}
schedule: {warmup_steps: 2}
log: {every: 1}
eval: {every: 4}
checkpoint: {every: 2, keep_last: 9}
"""


class LearnedHeads(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("heads.yaml", RUN)

    def masks_at(self, step):
        """The masks that checkpoint `step` holds: {parameter: values}."""
        checkpoint = self.folder / "whole" / "checkpoints" / f"step_{step:08}"
        tensors = {}
        for path in checkpoint.glob("model*.safetensors"):
            tensors.update(support.read_tensors(path))
        return {name: list(values) for name, values in tensors.items() if ".shared_mask." in name}

    def test_a_run_that_stopped_goes_on_with_the_same_bits(self):
        self.moh("train", "heads.yaml", "output.dir=whole")
        for step in (4, 6, 8):  # while the heads are learned, before the step that fixes them, after it
            run = f"cut{step}"
            shutil.copytree(self.folder / "whole", self.folder / run)
            for checkpoint in self.checkpoints(run):
                if checkpoint.name > f"step_{step:08}":
                    shutil.rmtree(checkpoint)
            output = self.moh("train", "heads.yaml", f"output.dir={run}", "--resume")
            self.assert_says(output, f"resume: from step {step}")
            self.assert_same_state("whole", run)

    def test_the_heads_are_fixed_when_their_time_is_over(self):
        self.moh("train", "heads.yaml", "output.dir=whole")
        before, fixed, end = self.masks_at(6), self.masks_at(8), self.masks_at(12)
        for name in before:
            if not name.endswith(".shared"):
                continue
            scores = before[name[:-len("shared")] + "score"]
            best = scores.index(max(scores))
            self.assertNotEqual(scores, [0.0] * 4, "the masks have learned nothing")
            self.assertEqual(before[name], [0.0] * 4)
            self.assertEqual(fixed[name], [float(head == best) for head in range(4)])
            self.assertEqual(end[name], fixed[name])

    def test_evaluating_a_checkpoint_needs_nothing_but_it(self):
        self.moh("train", "heads.yaml", "output.dir=whole")
        self.assertEqual(len({self.moh("eval", "--checkpoint", "whole").split("\n")[-2] for _ in range(2)}), 1)


if __name__ == "__main__":
    support.main()

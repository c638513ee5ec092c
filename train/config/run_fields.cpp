#include "train/config/run_fields.h"

#include <string>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "train/config/enum_names.h"
#include "train/config/limits.h"

namespace moh::config {

namespace {


Section describe(OutputConfig& c) {
  Section s("output", "Where the run leaves its files: metrics.jsonl, checkpoints, the resolved config.");
  s.field("dir", c.dir,
          "Folder of the run, made when missing. Default: `runs/` and the name of the config file.");
  return s;
}

Section describe(CalibrationConfig& c) {
  Section s("calibration",
            "What is measured on the first batches of `data.train` before the first step: the importance of "
            "heads, the start of routers, and how far the start is from the dense model.");
  s.field("batches", c.batches, at_least(0).capped(kMaxWidth),
          "Batches of `train.batch_size` samples. 0: nothing is measured, which only some choices allow.");
  s.field("mask_steps", c.mask_steps, at_least(1, "steps").capped(kMaxSteps),
          "With `model.moh.shared_heads: learned`: steps that the masks are trained for, a batch each.");
  s.field("mask_learning_rate", c.mask_learning_rate, above(0),
          "With `model.moh.shared_heads: learned`: learning rate of the masks' logits (Adam).");
  s.field("ridge", c.ridge, above(0),
          "With `router_start: calibrated`: penalty of the least squares, relative to the mean square of the "
          "inputs.");
  return s;
}

Section describe(InitMohConfig& c) {
  Section s(
      "moh",
      "Makes the dense model of the checkpoint a Mixture-of-Head model, whose routing `model.moh` sets: "
      "how routers start, and what is measured for that.");
  s.field("router_start", c.router_start,
          "First weights of a `learned` router: all `zero`, `random` (as without a checkpoint), or "
          "`calibrated`: heads are ranked by the size of what they would add, gates are near 1.");
  s.field("router_spread", c.router_spread, above(0),
          "With `router_start: calibrated`: standard deviation of the routed logits, by which gates differ.");
  s.section(describe(c.calibration));
  return s;
}

Section describe(InitConfig& c) {
  Section s(
      "init",
      "The checkpoint that a run begins from. It says what `model` is; keys given there must agree, except "
      "those that may change between two runs, such as `dropout`, and `moh`. A resumed run goes on from its "
      "own checkpoint.");
  s.field("from", c.from,
          "A safetensors or PyTorch file, a Hugging Face folder, or a run's folder. Empty: random weights.");
  s.field("part", c.part, "Which of several models in a PyTorch file: `model`, `ema`. Empty: the usual one.");
  s.field("new_rows", c.new_rows,
          "Where `model.vocab_size` is larger than the checkpoint's: new rows of the embedding and of the "
          "output matrix are the `mean` of the old ones and some noise, `normal` numbers of "
          "`model.init_std`, or `zeros`.");
  s.section(describe(c.moh));
  return s;
}

Section describe(TrainConfig& c) {
  Section s("train", "How long, and how much at a time. A step sees `batch_size` * `accumulate` samples.");
  s.field("steps", c.steps, at_least(1, "steps").capped(kMaxSteps), "Updates of the weights.");
  s.field("batch_size", c.batch_size, at_least(1, "samples").capped(kMaxWidth),
          "Samples (sequences, images) that are computed together.");
  s.field("accumulate", c.accumulate, at_least(1).capped(kMaxWidth),
          "Batches whose gradients are added up for one step: a larger step in the same memory.");
  s.field("stop_after_seconds", c.stop_after_seconds, at_least(0, "seconds"),
          "Save a checkpoint and stop after this time, to be resumed. 0: no limit.");
  return s;
}

Section describe(OptimConfig& c, LrSchedule& schedule) {
  Section s("optim", "The optimiser.");
  s.field("name", c.name, "`adamw` (Loshchilov & Hutter 2019).");
  s.field("learning_rate", schedule.peak, above(0), "Peak learning rate, reached at the end of the warmup.");
  s.field("betas", c.adamw.betas, from_below(0, 1),
          "Decay of the running means of gradient and squared gradient.");
  s.field("eps", c.adamw.eps, above(0), "Added to the root of the mean squared gradient.");
  s.field("weight_decay", c.adamw.weight_decay, at_least(0),
          "Decoupled weight decay of matrices; norms and other vectors have none.");
  s.field("clip_grad_norm", c.adamw.clip_grad_norm, at_least(0),
          "Maximum global L2 norm of the gradients; larger gradients are rescaled to it. 0: no clipping.");
  return s;
}

Section describe(LrSchedule& c) {
  Section s("schedule",
            "The learning rate over time: a linear warmup to `optim.learning_rate`, then a decay.");
  s.field("kind", c.kind, "After the warmup, `cosine` falls to `min_learning_rate`, `constant` stays.");
  s.field("warmup_steps", c.warmup_steps, at_least(0, "steps").capped(kMaxSteps), "Length of the warmup.");
  s.field("warmup_start", c.warmup_start, at_least(0), "Learning rate that the warmup begins with.");
  s.field("min_learning_rate", c.minimum, at_least(0), "Learning rate at the end of the cosine and after.");
  s.field("decay_steps", c.decay_steps, at_least(0, "steps").capped(kMaxSteps),
          "Step, counted from the first of the run, at which the cosine ends. 0: `train.steps`.");
  return s;
}

Section describe(LogConfig& c) {
  Section s("log", "Lines on the console and in metrics.jsonl.");
  s.field("every", c.every, at_least(1, "steps").capped(kMaxSteps), "Steps between two lines.");
  return s;
}

Section describe(EvalConfig& c) {
  Section s("eval", "The score on held-out data.");
  s.field("every", c.every, at_least(0, "steps").capped(kMaxSteps),
          "Steps between two evaluations. 0: at the end only.");
  s.field("at_start", c.at_start, "Evaluate before the first step, too: what the training begins with.");
  return s;
}

Section describe(CheckpointConfig& c) {
  Section s("checkpoint", "What a run that was stopped resumes from.");
  s.field("every", c.every, at_least(0, "steps").capped(kMaxSteps),
          "Steps between two checkpoints. 0: at the end only.");
  s.field("keep_last", c.keep_last, at_least(1, "checkpoints").capped(kMaxWidth),
          "How many of the newest are kept.");
  s.field("keep_best", c.keep_best, "Keep the one of the best validation score as well.");
  return s;
}

Section describe(GuardConfig& c) {
  Section s("guard", "What happens when a loss or a gradient is not finite. The weights stay as they were.");
  s.field("non_finite", c.non_finite, "`stop` the run, or `skip` the step.");
  s.field("max_skipped", c.max_skipped, at_least(0, "steps").capped(kMaxSteps),
          "With `skip`: how many steps in a row may be skipped before the run stops after all.");
  return s;
}

Section describe(AttentionConfig& c) {
  Section s("attention", "How attention is computed on a GPU.");
  s.field(
      "backend", c.backend,
      "Whose kernels compute dense attention in bfloat16: `cudnn`, `native` (moh's own), or `auto`, cuDNN's "
      "where they are "
      "expected to be faster (Hopper and later) and compute the case. Attention of selected heads is always "
      "native. The choice is logged.");
  return s;
}

}  // namespace

Section describe_common(RunConfig& run, FamilyConfigs families) {
  Section s("", "");
  std::vector<std::string> tasks;
  for (const FamilyConfig* family : families) tasks.emplace_back(family->task());
  s.field("task", NameRef{&run.task, std::move(tasks)}, "What is trained.");
  s.field("seed", run.seed, at_least(0),
          "Decides initial weights, data order and dropout: same seed, same run.");
  s.field("device", run.device, "Where it is computed.");
  s.field("precision", run.precision,
          "Element type of activations and matrix products. With `bfloat16` the optimiser keeps float32 "
          "weights.");
  s.field("tf32", run.tf32,
          "Round the factors of float32 matrix products to TF32 (10 bits of mantissa), which tensor cores "
          "multiply. On a GPU only.");
  s.field(
      "gemm_algorithms", run.gemm_algorithms,
      "File of the algorithms of matrix products on a GPU. For a product that it lacks, training times "
      "what cuBLASLt proposes and adds the fastest; runs with the same file compute the same bits. Empty: "
      "the first proposal, which is the same in every run.");
  s.field("threads", run.threads, at_least(0).capped(static_cast<double>(kMaxThreads)),
          "Threads of the CPU. 0: as OMP_NUM_THREADS says, else one per core.");
  s.field(
      "cuda_graph", run.cuda_graph,
      "On a GPU: record the training step as a CUDA graph, once, and replay it. The same results; saves the "
      "time to ask for each kernel, and the step gets memory that evaluation cannot share.");
  s.section(describe(run.attention));
  s.section(describe(run.output));
  s.section(describe(run.init));
  s.section(describe(run.train));
  s.section(describe(run.optim, run.schedule));
  s.section(describe(run.schedule));
  s.section(describe(run.log));
  s.section(describe(run.eval));
  s.section(describe(run.checkpoint));
  s.section(describe(run.guard));
  return s;
}

Section describe(RunConfig& run, FamilyConfigs families) {
  Section root = describe_common(run, families);
  run.family->describe(root);
  return root;
}

}  // namespace moh::config

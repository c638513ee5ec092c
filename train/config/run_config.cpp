#include "train/config/run_config.h"

#include <utility>

#include "core/parallel.h"
#include "train/config/enum_names.h"

namespace moh {

RunConfig default_run(const FamilyConfig& family) {
  RunConfig run;
  run.task = family.task();
  run.family = FamilyValue(family);
  return run;
}

LrSchedule lr_schedule_of(const RunConfig& run) {
  LrSchedule schedule = run.schedule;
  if (schedule.decay_steps == 0) schedule.decay_steps = run.train.steps;
  if (schedule.warmup_start == 0 && schedule.warmup_steps > 0)
    schedule.warmup_start = schedule.peak / static_cast<double>(schedule.warmup_steps);
  return schedule;
}

namespace config {

namespace {

void add_init(InitConfig& c, Section& root) {
  Section& init = root.section_named(
      "init",
      "The checkpoint that a run begins from. It says what `model` is; keys given there must agree, except "
      "those that may change between two runs, such as `dropout`, and `moh`. A resumed run goes on from its "
      "own checkpoint.");
  init.field(
      "from", c.from,
      "A safetensors or PyTorch file, a Hugging Face folder, or a run's folder. Empty: random weights.");
  init.field("part", c.part,
             "Which of several models in a PyTorch file: `model`, `ema`. Empty: the usual one.");
  init.field("new_rows", c.new_rows,
             "Where `model.vocab_size` is larger than the checkpoint's: new rows of the embedding and of the "
             "output matrix are the `mean` of the old ones and some noise, `normal` numbers of "
             "`model.init_std`, or `zeros`.");

  Section& moh = init.section_named(
      "moh",
      "Makes the dense model of the checkpoint a Mixture-of-Head model, whose routing `model.moh` sets: "
      "how routers start, and what is measured for that.");
  moh.field("router_start", c.moh.router_start,
            "First weights of a `learned` router: all `zero`, `random` (as without a checkpoint), or "
            "`calibrated`: heads are ranked by the size of what they would add, gates are near 1.");
  moh.field(
      "router_spread", c.moh.router_spread, above(0),
      "With `router_start: calibrated`: standard deviation of the routed logits, by which gates differ.");

  Section& calibration = moh.section_named(
      "calibration",
      "What is measured on the first batches of `data.train` before the first step: the importance of "
      "heads, the start of routers, and how far the start is from the dense model.");
  calibration.field(
      "batches", c.moh.calibration.batches, at_least(0).capped(kMaxWidth),
      "Batches of `train.batch_size` samples. 0: nothing is measured, which only some choices allow.");
  calibration.field(
      "mask_steps", c.moh.calibration.mask_steps, at_least(1, "steps").capped(kMaxSteps),
      "With `model.moh.shared_heads: learned`: steps that the masks are trained for, a batch each.");
  calibration.field("mask_learning_rate", c.moh.calibration.mask_learning_rate, above(0),
                    "With `model.moh.shared_heads: learned`: learning rate of the masks' logits (Adam).");
  calibration.field(
      "ridge", c.moh.calibration.ridge, above(0),
      "With `router_start: calibrated`: penalty of the least squares, relative to the mean square of the "
      "inputs.");
}

void add_training(RunConfig& run, Section& root) {
  Section& train = root.section_named(
      "train", "How long, and how much at a time. A step sees `batch_size` * `accumulate` samples.");
  train.field("steps", run.train.steps, at_least(1, "steps").capped(kMaxSteps), "Updates of the weights.");
  train.field("batch_size", run.train.batch_size, at_least(1, "samples").capped(kMaxWidth),
              "Samples (sequences, images) that are computed together.");
  train.field("accumulate", run.train.accumulate, at_least(1).capped(kMaxWidth),
              "Batches whose gradients are added up for one step: a larger step in the same memory.");
  train.field("stop_after_seconds", run.train.stop_after_seconds, at_least(0, "seconds"),
              "Save a checkpoint and stop after this time, to be resumed. 0: no limit.");

  Section& optim = root.section_named("optim", "The optimiser.");
  optim.field("name", run.optim.name, "`adamw` (Loshchilov & Hutter 2019).");
  optim.field("learning_rate", run.schedule.peak, above(0),
              "Peak learning rate, reached at the end of the warmup.");
  optim.field("betas", run.optim.adamw.betas, from_below(0, 1),
              "Decay of the running means of gradient and squared gradient.");
  optim.field("eps", run.optim.adamw.eps, above(0), "Added to the root of the mean squared gradient.");
  optim.field("weight_decay", run.optim.adamw.weight_decay, at_least(0),
              "Decoupled weight decay of matrices; norms and other vectors have none.");
  optim.field(
      "clip_grad_norm", run.optim.adamw.clip_grad_norm, at_least(0),
      "Maximum global L2 norm of the gradients; larger gradients are rescaled to it. 0: no clipping.");

  Section& schedule = root.section_named(
      "schedule", "The learning rate over time: a linear warmup to `optim.learning_rate`, then a decay.");
  schedule.field("kind", run.schedule.kind,
                 "After the warmup, `cosine` falls to `min_learning_rate`, `constant` stays.");
  schedule.field("warmup_steps", run.schedule.warmup_steps, at_least(0, "steps").capped(kMaxSteps),
                 "Length of the warmup.");
  schedule.field("warmup_start", run.schedule.warmup_start, at_least(0),
                 "Learning rate of the first step. 0: `optim.learning_rate` / `warmup_steps`.");
  schedule.field("min_learning_rate", run.schedule.minimum, at_least(0),
                 "Learning rate at the end of the cosine and after.");
  schedule.field("decay_steps", run.schedule.decay_steps, at_least(0, "steps").capped(kMaxSteps),
                 "Step, counted from the first of the run, at which the cosine ends. 0: `train.steps`.");
}

void add_reports(RunConfig& run, Section& root) {
  Section& log = root.section_named("log", "Lines on the console and in metrics.jsonl.");
  log.field("every", run.log.every, at_least(1, "steps").capped(kMaxSteps), "Steps between two lines.");

  Section& eval = root.section_named("eval", "The score on held-out data.");
  eval.field("every", run.eval.every, at_least(0, "steps").capped(kMaxSteps),
             "Steps between two evaluations. 0: at the end only.");
  eval.field("at_start", run.eval.at_start,
             "Evaluate before the first step, too: what the training begins with.");

  Section& checkpoint = root.section_named("checkpoint", "What a run that was stopped resumes from.");
  checkpoint.field("every", run.checkpoint.every, at_least(0, "steps").capped(kMaxSteps),
                   "Steps between two checkpoints. 0: at the end only.");
  checkpoint.field("keep_last", run.checkpoint.keep_last, at_least(1, "checkpoints").capped(kMaxWidth),
                   "How many of the newest are kept.");
  checkpoint.field("keep_best", run.checkpoint.keep_best,
                   "Keep the one of the best validation score as well.");

  Section& guard = root.section_named(
      "guard", "What happens when a loss or a gradient is not finite. The weights stay as they were.");
  guard.field("non_finite", run.guard.non_finite, "`stop` the run, or `skip` the step.");
  guard.field("max_skipped", run.guard.max_skipped, at_least(0, "steps").capped(kMaxSteps),
              "With `skip`: how many steps in a row may be skipped before the run stops after all.");
}

}  // namespace

Section describe(MohConfig& c) {
  Section s("moh",
            "Mixture-of-Head attention (arXiv 2410.11842): of the heads that are not shared, each token "
            "keeps a few.");
  s.field("router", c.router,
          "`none`: every head is active, the plain model. `learned`: linear routers on the layer's input. "
          "`query_norm`: no parameters, the norms of the queries decide, and selected heads have weight 1 "
          "(MoH-LLaMA3).");
  s.field("num_shared", c.num_shared, at_least(0, "heads").capped(kMaxHeads),
          "Heads that are active for every token.");
  s.field(
      "shared_heads", c.shared_heads, at_least(0).capped(kMaxHeads),
      "Which heads these are: the `first` ones, or lists of their numbers, counted from 0. With `init.from` "
      "they can be chosen in each layer by what they do on data: the heads of the largest mean output "
      "(`output_norm`), those without which the loss grows most (`loss_increase`), those that trained masks "
      "keep (`learned`); the lists replace the rule when the run begins.");
  s.field("top_k", c.top_k, at_least(0, "heads").capped(kMaxHeads),
          "Heads that each token keeps of the others (K of the Top-K). With `num_shared: 50%` and "
          "`top_k: 25%`, 75% of a layer's heads are active.");
  s.field(
      "gate_scaling", c.gate_scaling,
      "Weights of the selected heads. `code`: as the released code, about 1 each. `paper`: as the paper's "
      "equations, with a sum of at most 1.");
  s.field("two_stage", c.two_stage,
          "Weigh shared against routed heads, token by token, by a router of their own.");
  s.field("straight_through", c.straight_through,
          "Which gradients reach the router of `query_norm`: those of the `selected` heads, of `all` heads "
          "(which training then computes), or `none` but the load-balance loss.");
  s.field(
      "balance_loss", c.balance_loss,
      "Form of the load-balance loss of a layer, with P_i the mean probability of routed head i and f_i its "
      "share of the tokens. `code`: E sum P_i f_i, which is `top_k` when balanced. `paper`: sum P_i f_i, "
      "`top_k` / E when balanced. With `gate_scaling` alone given, the loss has its form.");
  s.field("balance_weight", c.balance_weight, at_least(0),
          "Weight of the load-balance loss, a mean over the layers that route.");
  s.field("router_precision", c.router_precision,
          "What the matrices of `learned` routers are stored in: the `same` as the rest of the model, or "
          "`float32` in a bfloat16 run. Logits, gates and the choice are computed in float32 either way.");
  return s;
}

Section describe_common(RunConfig& run, FamilyConfigs families) {
  Section root("", "");
  std::vector<std::string> tasks;
  for (const FamilyConfig* family : families) tasks.emplace_back(family->task());
  root.field("task", choice_of(run.task, std::move(tasks)), "What is trained.");
  root.field("seed", run.seed, at_least(0),
             "Decides initial weights, data order and dropout: same seed, same run.");
  root.field("device", run.device, "Where it is computed.");
  root.field("precision", run.precision,
             "Element type of activations and matrix products. With `bfloat16` the optimiser keeps float32 "
             "weights.");
  root.field("tf32", run.tf32,
             "Round the factors of float32 matrix products to TF32 (10 bits of mantissa), which tensor cores "
             "multiply. On a GPU only.");
  root.field(
      "gemm_algorithms", run.gemm_algorithms,
      "File of the algorithms of matrix products on a GPU. For a product that it lacks, training times "
      "what cuBLASLt proposes and adds the fastest; runs with the same file compute the same bits. Empty: "
      "the first proposal, which is the same in every run.");
  root.field("threads", run.threads, at_least(0).capped(static_cast<double>(kMaxThreads)),
             "Threads of the CPU. 0: as OMP_NUM_THREADS says, else one per core.");
  root.field(
      "cuda_graph", run.cuda_graph,
      "On a GPU: record the training step as a CUDA graph, once, and replay it. The same results; saves the "
      "time to ask for each kernel, and the step gets memory that evaluation cannot share.");
  Section& attention = root.section_named("attention", "How attention is computed on a GPU.");
  attention.field(
      "backend", run.attention.backend,
      "Whose kernels compute dense attention in bfloat16: `cudnn`, `native` (moh's own), or `auto`, cuDNN's "
      "where they are expected to be faster (Hopper and later) and compute the case. Attention of selected "
      "heads is always native. The choice is logged.");
  Section& output = root.section_named(
      "output", "Where the run leaves its files: metrics.jsonl, checkpoints, the resolved config.");
  output.field("dir", run.output.dir,
               "Folder of the run, made when missing. Default: `runs/` and the name of the config file.");
  add_init(run.init, root);
  add_training(run, root);
  add_reports(run, root);
  return root;
}

Section describe(RunConfig& run, FamilyConfigs families) {
  Section root = describe_common(run, families);
  run.family->describe(root);
  return root;
}

}  // namespace config

}  // namespace moh

#include "train/trainer/config/run_config.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

RunConfig default_run(const FamilyConfig& family) {
  RunConfig run;
  run.task = family.task();
  run.family = FamilyValue(family);
  return run;
}

std::optional<TrainConfig> share_of_process(TrainConfig train, std::int64_t processes) {
  std::int64_t samples = 0;
  if (__builtin_mul_overflow(train.batch_size, train.accumulate, &samples) || samples % processes != 0)
    return std::nullopt;
  const std::int64_t share = samples / processes;
  train.batch_size = std::min(train.batch_size, share);
  while (share % train.batch_size != 0) --train.batch_size;
  train.accumulate = share / train.batch_size;
  return train;
}

void require_one_micro_batch_each(const RunConfig& config, std::int64_t processes) {
  if (!config.optim.adamw.fused_update || config.train.accumulate <= processes) return;
  const std::string most =
      processes == 1 ? "1" : "at most " + std::to_string(processes) + ", the number of processes,";
  throw ConfigError(error_message("train.accumulate", "",
                                  most + " with optim.fused_update: true, which keeps no gradients to add to",
                                  std::to_string(config.train.accumulate),
                                  "a larger train.batch_size makes the same steps in fewer parts"));
}

TrainConfig per_rank_config(const RunConfig& config, int processes) {
  require_one_micro_batch_each(config, processes);
  if (processes == 1) return config.train;
  std::optional<TrainConfig> share = share_of_process(config.train, processes);
  if (!share) {
    throw ConfigError(
        error_message("train.batch_size",
                      std::to_string(config.train.batch_size) + " x train.accumulate " +
                          std::to_string(config.train.accumulate),
                      "samples of a step that " + std::to_string(processes) + " processes can share evenly",
                      std::to_string(config.train.batch_size * config.train.accumulate),
                      "change one of them, or the number of processes"));
  }
  share->accumulate *= processes;
  return *share;
}

RunLength length_of(const RunConfig& run, std::int64_t steps_per_epoch) {
  RunLength length{.steps_per_epoch = std::max<std::int64_t>(1, steps_per_epoch)};
  length.steps = length.of(run.train.epochs, run.train.steps);
  return length;
}

StepRates rates_of(const RunConfig& run, const RunLength& length) {
  const EpochSchedule& epochs = run.schedule_epochs;
  StepRates rates{.schedule = run.schedule};
  LrSchedule& schedule = rates.schedule;
  if (epochs.stepwise) {
    schedule.warmup_steps = length.of(epochs.warmup, schedule.warmup_steps);
    schedule.decay_steps = length.of(epochs.decay, schedule.decay_steps);
    schedule.cooldown_steps = length.of(epochs.cooldown, schedule.cooldown_steps);
    if (schedule.decay_steps == 0) schedule.decay_steps = length.steps;
  } else {
    rates.steps_per_epoch = length.steps_per_epoch;
    rates.late = epochs.late;
    schedule.warmup_steps = epochs.warmup;
    schedule.decay_steps = epochs.decay > 0 ? epochs.decay : run.train.epochs;
    schedule.cooldown_steps = epochs.cooldown;
  }
  if (schedule.warmup_start == 0 && schedule.warmup_steps > 0)
    schedule.warmup_start = schedule.peak / static_cast<double>(schedule.warmup_steps);
  return rates;
}

namespace config {

namespace {

void add_distill(DistillConfig& c, Section& init) {
  Section& distill = init.section_named("distill",
                                        "Distillation: adds to the loss the KL divergence of the model's "
                                        "predictions from those of a teacher with "
                                        "all heads active, T^2 KL(softmax(teacher / T) || softmax(model / "
                                        "T)), a mean over targets as the loss is.");
  distill.properties().without(FieldProperty::kHarmlessOnResume);  // its loss is part of every step
  distill.field("weight", c.weight, at_least(0), "Factor of the divergence. 0: no distillation.");
  distill.field("temperature", c.temperature, above(0), "T: divides the logits of both.");
  distill.field(
      "teacher", c.teacher,
      "`source`: the dense checkpoint of `init.from`, which stays as it is; it takes memory, and resuming "
      "needs it. `twin`: the model itself with all heads active and gates 1, as it is in each step.");
}

void add_init(InitConfig& c, Section& root) {
  Section& init =
      root.section_named("init",
                         "The checkpoint that a run starts from. It determines `model`; keys given there "
                         "must agree with it, except those that may change between two runs, such as "
                         "`dropout`, and `moh`. A resumed run continues from its own checkpoint.");
  init.properties().harmless_on_resume();
  init.field(
      "from", c.from,
      "A safetensors or PyTorch file, a Hugging Face folder, or a run's folder. Empty: random weights.");
  init.field("part", c.part,
             "The model to read from a PyTorch file with several: `model`, `ema`. Empty: the usual one.");
  init.field("new_rows", c.new_rows,
             "If `model.vocab_size` is larger than the checkpoint's: new rows of the embedding and of the "
             "output matrix are the `mean` of the old ones plus some noise, `normal` with standard deviation "
             "`model.init_std`, or `zeros`.");

  Section& moh = init.section_named(
      "moh",
      "Turns the dense model of the checkpoint into a Mixture-of-Head model with the routing of `model.moh`: "
      "how routers are initialised, and what is measured for that.");
  moh.field("router_start", c.moh.router_start,
            "Initial weights of a `learned` router: all `zero`, `random` (as without a checkpoint), or "
            "`calibrated`: fitted so that heads are ranked by the norm of their contribution to the layer's "
            "output, with gates near 1.");

  Section& calibration = moh.section_named(
      "calibration",
      "Measurements on the first batches of `data.train` before the first step: the importance of heads, "
      "initial weights of routers, and the KL divergence of the initial model from the dense one.");
  calibration.field("batches", c.moh.calibration.batches, at_least(0).capped(kMaxWidth),
                    "Number of batches of `train.batch_size` samples. 0: nothing is measured, which "
                    "`router_start: calibrated` and measured `shared_heads` do not allow.");
  add_distill(c.distill, init);
}

void describe_group(ParameterGroup& group, Section& s) {
  s.field("match", group.match,
          "Pattern, or list of patterns, of whole names of parameters: `*` "
          "stands for any characters, `?` for one. A pattern that matches nothing is refused.");
  s.field("learning_rate_scale", group.learning_rate_scale, above(0),
          "Factor of the learning rate of each step.");
  s.field("weight_decay", group.weight_decay, at_least(0),
          "Weight decay of the group's matrices. Not given: `optim.weight_decay`.");
  s.field("freeze", group.freeze,
          "Leave the parameters as they are: no gradients, no optimiser state, no work for them in the "
          "backward pass.");
}

void add_training(RunConfig& run, Section& root) {
  Section& train = root.section_named(
      "train",
      "Length and batch size of the training. A step processes `batch_size` * `accumulate` samples.");
  train
      .field("steps", run.train.steps, at_least(1, "steps").capped(kMaxSteps),
             "Number of updates of the weights.")
      .ends_decay();
  train
      .field("epochs", run.train.epochs, at_least(0, "epochs").capped(kMaxEpochs),
             "Length in epochs instead, for tasks that count them. 0: `steps`.")
      .ends_decay();
  train.field("batch_size", run.train.batch_size, at_least(1, "samples").capped(kMaxWidth),
              "Samples (sequences, images) of a micro-batch, which are computed together.");
  train.field("accumulate", run.train.accumulate, at_least(1).capped(kMaxWidth),
              "Micro-batches whose gradients are accumulated in a step: a larger batch in the same memory.");
  train
      .field("stop_after_seconds", run.train.stop_after_seconds, at_least(0, "seconds"),
             "Save a checkpoint and stop after this time; resume with `--resume`. 0: no limit.")
      .harmless_on_resume();

  Section& optim = root.section_named("optim", "The optimiser.");
  optim.field("name", run.optim.adamw.rule,
              "`adamw` (Loshchilov & Hutter 2019), `lion` (Chen et al. 2023, arXiv 2302.06675), `muon` "
              "(Jordan et al. 2024, with the step length of Moonlight, arXiv 2502.16982), which updates the "
              "matrices inside of layers, and leaves what remains to AdamW, or `adafactor` (Shazeer & Stern "
              "2018, arXiv 1804.04235), whose state of a matrix is a row and a column: docs/optimisers.md.");
  optim.field("learning_rate", run.schedule.peak, above(0),
              "Peak learning rate, reached at the end of the warmup.");
  optim.field(
      "betas", run.optim.adamw.betas, from_below(0, 1),
      "Decay rates of the running means of the gradient and of the squared gradient. Lion: of the mean whose "
      "sign is taken, and of the one that is kept.");
  optim.field("momentum", run.optim.adamw.momentum, from_below(0, 1),
              "Decay rate of the running mean of the gradient of a matrix that Muon updates.");
  optim.field("eps", run.optim.adamw.eps, above(0),
              "Added to the root of the mean squared gradient, in the denominator of the update.");
  optim.field("weight_decay", run.optim.adamw.weight_decay, at_least(0),
              "Decoupled weight decay of matrices; norm weights and other vectors have none.");
  optim.field(
      "clip_grad_norm", run.optim.adamw.clip_grad_norm, at_least(0),
      "Maximum global L2 norm of the gradients; larger gradients are rescaled to it. 0: no clipping.");

  optim
      .field("fused_update", run.optim.adamw.fused_update,
             "Update each weight within the backward pass, as soon as its gradient is complete, and free "
             "that gradient at once: the memory of all gradients is saved, and results are the same to the "
             "bit. Needs `clip_grad_norm: 0`, `guard.non_finite: stop`, no `guard.spike`, and one "
             "micro-batch in a step of each process: `train.accumulate: 1`, or at most the number of "
             "processes. A loss that is not finite changes no weight; a gradient that is not finite is found "
             "when weights of later layers are changed, and the run stops.")
      .harmless_on_resume();
  optim.list(
      "groups", run.optim.adamw.groups, &describe_group,
      "How groups of parameters are trained, by their names. A parameter belongs to the last group that "
      "matches it, which alone decides; those that none matches are trained as the keys above say. "
      "`[{match: \"*\", freeze: true}, {match: \"*.wg*.weight\"}]` trains the routers alone.");

  Section& schedule = root.section_named(
      "schedule",
      "The learning rate over time: a linear warmup to `optim.learning_rate`, a part at this peak, which "
      "`cooldown_steps` makes longer than nothing, and a decay. docs/schedules.md shows them.");
  schedule
      .field(
          "kind", run.schedule.kind,
          "The decay to `min_learning_rate`: at the part u of its steps, `cosine` leaves (1 + cos(pi u)) / "
          "2 of the peak, `linear` 1 - u, `sqrt` 1 - sqrt(u). `cosine_from_start`: a cosine that counts "
          "from the start of the run and not from the end of the warmup, as in timm. `constant`: no "
          "decay. `inverse_sqrt`: after t steps the peak times sqrt(`warmup_steps` / t), as Transformers "
          "for translation are trained.")
      .ends_decay();
  schedule.field("warmup_steps", run.schedule.warmup_steps, at_least(0, "steps").capped(kMaxSteps),
                 "Length of the warmup.");
  schedule.field("warmup_start", run.schedule.warmup_start, at_least(0),
                 "Learning rate of the first step. 0: `optim.learning_rate` / `warmup_steps`.");
  schedule.field("min_learning_rate", run.schedule.minimum, at_least(0),
                 "Learning rate at the end of the decay and after it; the lowest of `inverse_sqrt`.");
  schedule
      .field("decay_steps", run.schedule.decay_steps, at_least(0, "steps").capped(kMaxSteps),
             "Step, counted from the start of the run, at which the decay ends. 0: the last of the run.")
      .ends_decay();
  schedule
      .field("cooldown_steps", run.schedule.cooldown_steps, at_least(0, "steps").capped(kMaxSteps),
             "Length of the decay: the rate stays at the peak until so many steps before its end (warmup, "
             "stable, decay: WSD). 0: the decay begins with the end of the warmup. Of `cosine`, `linear` and "
             "`sqrt`.")
      .ends_decay();
  schedule.field("warmup_epochs", run.schedule_epochs.warmup, at_least(0, "epochs").capped(kMaxEpochs),
                 "Length of the warmup in epochs. 0: use `warmup_steps`.");
  schedule
      .field("decay_epochs", run.schedule_epochs.decay, at_least(0, "epochs").capped(kMaxEpochs),
             "End of the decay in epochs. 0: `decay_steps`.")
      .ends_decay();
  schedule
      .field("cooldown_epochs", run.schedule_epochs.cooldown, at_least(0, "epochs").capped(kMaxEpochs),
             "Length of the decay in epochs. 0: `cooldown_steps`.")
      .ends_decay();
  schedule.field("stepwise", run.schedule_epochs.stepwise,
                 "Change the rate with each step. `false`: once per epoch, by the number of the epoch; the "
                 "warmup is then `warmup_epochs`.");
  schedule.field("late", run.schedule_epochs.late,
                 "With `stepwise: false`: each epoch uses the previous epoch's learning rate (an off-by-one "
                 "of the paper's code: the first two epochs share the first rate).");

  Section& ema =
      root.section_named("ema", "A moving average of the weights, in float32, kept in checkpoints.");
  ema.field("decay", run.ema.decay, from_below(0, 1),
            "Each step moves the average towards the weights by 1 - `decay`. 0: no average.");
  ema.field("warmup", run.ema.warmup,
            "After t steps the decay is at most (1 + t) / (10 + t), so that the average of a short run, too, "
            "forgets the initial weights. `false`: `decay` from the first step on, as in DiT's and DeiT's "
            "code.");
  ema.field("evaluate", run.ema.evaluate,
            "Evaluations, and commands that load a checkpoint of the run, take the average; `false`: the "
            "weights.")
      .harmless_on_resume();
}

void add_reports(RunConfig& run, Section& root) {
  Section& log = root.section_named("log", "Lines on the console and in metrics.jsonl.");
  log.properties().harmless_on_resume();
  log.field("every", run.log.every, at_least(1, "steps").capped(kMaxSteps), "Steps between two lines.");
  log.field("tensorboard", run.log.tensorboard,
            "Also write the numbers of metrics.jsonl to `output.dir` as TensorBoard events.");

  Section& eval = root.section_named("eval", "The score on held-out data.");
  eval.properties().harmless_on_resume();
  eval.field("every", run.eval.every, at_least(0, "steps").capped(kMaxSteps),
             "Steps between two evaluations. 0: at the end only. With `checkpoint.keep_best`, checkpoints in "
             "between are evaluated, too, unless this is 0 and `every_epochs`, too.");
  eval.field("every_epochs", run.eval.every_epochs, at_least(0, "epochs").capped(kMaxEpochs),
             "Epochs between two evaluations. 0: `every`.");
  eval.field(
      "each_epoch_after", run.eval.each_epoch_after, at_least(0, "epochs").capped(kMaxEpochs),
      "After this many epochs, evaluate at the end of every epoch, as the paper's recipe does. 0: off.");
  eval.field("at_start", run.eval.at_start, "Also evaluate before the first step.");

  Section& checkpoint =
      root.section_named("checkpoint", "Checkpoints, from which an interrupted run resumes.");
  checkpoint.properties().harmless_on_resume();
  checkpoint.field("every", run.checkpoint.every, at_least(0, "steps").capped(kMaxSteps),
                   "Steps between two checkpoints. 0: at the end only.");
  checkpoint.field("every_epochs", run.checkpoint.every_epochs, at_least(0, "epochs").capped(kMaxEpochs),
                   "Epochs between two checkpoints. 0: `every`.");
  checkpoint.field("keep_last", run.checkpoint.keep_last, at_least(1, "checkpoints").capped(kMaxWidth),
                   "Number of newest checkpoints to keep.");
  checkpoint.field(
      "keep_best", run.checkpoint.keep_best,
      "Keep the checkpoint with the best validation score as well. Each checkpoint of `every` is then "
      "evaluated, unless `eval.every` is 0 (and `eval.every_epochs`): then only the last one is.");
  checkpoint.field("keep", run.checkpoint.keep, at_least(1, "steps").capped(kMaxSteps),
                   "Steps that get a checkpoint, whatever `every` says, which is never deleted: "
                   "`[400000, 2000000]`.");
  checkpoint.field(
      "asynchronous", run.checkpoint.asynchronous,
      "Write checkpoints while the next step runs its forward and backward passes; its update "
      "waits for the end of the writing, which therefore needs no copy of the weights. On a GPU the next "
      "step waits as a whole.");

  Section& guard = root.section_named("guard",
                                      "What to do if a loss or a gradient is NaN or infinite. The update is "
                                      "skipped, so the weights stay as they were.");
  guard.properties().harmless_on_resume();
  guard.field("non_finite", run.guard.non_finite, "`stop` the run, or `skip` the update of this step.");
  guard.field("max_skipped", run.guard.max_skipped, at_least(0, "steps").capped(kMaxSteps),
              "With `skip`: the run stops if more than this many steps in a row are skipped.");

  Section& spike =
      guard.section_named("spike",
                          "Skips the update of steps whose loss or gradient norm is far above the recent "
                          "mean, in all processes, so that one bad batch does no harm. Their samples count "
                          "as seen; more than `max_skipped` in a row end the run.");
  spike.field("loss", run.guard.spike.loss, at_least(0, "standard deviations"),
              "The loss may be above the mean of the window by this many of its standard deviations, which "
              "count as a hundredth of the mean at least. 0: no limit.");
  spike.field(
      "grad_norm", run.guard.spike.grad_norm, at_least(0, "standard deviations"),
      "The same for the global L2 norm of the gradients, before clipping: it also catches flipped bits "
      "of a broken processor or memory. 0: no limit.");
  spike.field("window", run.guard.spike.window, at_least(2, "steps").capped(10000),
              "Number of previous updates whose mean and standard deviation count. There is no limit before "
              "that many updates.");

  Section& profile = root.section_named("profile", "Traces of training steps.");
  profile.properties().harmless_on_resume();
  profile.field(
      "steps", run.profile.steps, at_least(1, "steps").capped(kMaxSteps),
      "The first and the last step, as in `[10, 12]`, of which `trace.json` in `output.dir` shows every "
      "op and every wait, for ui.perfetto.dev or chrome://tracing; other processes write "
      "`trace.rank1.json` and so on. With `cuda_graph` these steps are launched kernel by kernel.");

  Section& comm = root.section_named("comm", "Communication between the processes of a distributed run.");
  comm.properties().harmless_on_resume();
  comm.field(
      "backend", run.comm.backend,
      "How GPUs exchange messages (`device: cuda`). `nccl`: NCCL, each process on a GPU of its "
      "own. `host`: copies to host memory, which Open MPI or TCP sends, as without GPUs; processes may share "
      "a GPU, communication does not overlap with computation, and `cuda_graph` is refused. `auto`: `nccl`.");
  comm.field("timeout", run.comm.timeout, at_least(0, "seconds"),
             "Longest wait for other processes. After it the run ends with exit code 6 and names the missing "
             "ones. 0: no limit.");
  comm.field(
      "bucket_mib", run.comm.bucket_mib, at_least(1, "MiB").capped(kMaxWidth),
      "Size of the buckets in which gradients are summed during the backward pass. Does not change results.");
  comm.field("gradients", run.comm.gradients,
             "Communication dtype of gradients. `bfloat16` halves the bytes and rounds each process's part; "
             "the sums are made in float32.")
      .without(FieldProperty::kHarmlessOnResume);
  comm.field(
      "zero", run.comm.zero, from_up_to(0, 3),
      "Stage of ZeRO. 1: each process keeps and updates an equal part of the optimiser's state, of the "
      "master copies of bfloat16 weights and of their moving average. 2: it keeps that part of the "
      "gradients, too, which are summed after each micro-batch. 3: and of the weights, which are gathered "
      "where a layer reads them. Results differ by rounding.");
}

}  // namespace

Section describe(MohConfig& c) {
  Section s("moh",
            "Mixture-of-Head attention (arXiv 2410.11842): some heads are shared by all tokens; of the "
            "others, the routed heads, each token selects `top_k`.");
  s.properties().differs_freely().optional_with_weights();
  s.field("router", c.router, doc_of(RouterType::registry()));
  s.field("routing", c.routing, "The unit that a router keeps or leaves. " + doc_of(RoutingRule::registry()));
  s.field("routed", c.routed,
          "The rows of a token that exist in its selected heads alone: `queries`, or `queries_keys_values` "
          "(NAMOH, arXiv 2609.38832), where a head sees the tokens that selected it, and the KV cache "
          "stores these. Needs as many KV heads as heads. Language models only.");
  s.field("positions", c.positions,
          "Rotary positions with `routed: queries_keys_values`: those of the tokens in their `sequence`, or "
          "the numbers of the rows in their `head`.");
  s.field("shared_window", c.shared_window, at_least(0, "tokens").capped(kMaxWidth),
          "Tokens that a query of a shared head sees, itself included, with `routed: queries_keys_values`. "
          "0: all tokens before it.");
  s.field("num_shared", c.num_shared, at_least(0, "heads").capped(kMaxHeads),
          "Heads that are active for every token.");
  s.field("shared_heads", c.shared_heads, at_least(0).capped(kMaxHeads),
          "The shared heads: the `first` ones (with `within_groups` those of each group), or lists of their "
          "numbers, counted from 0. With `init.from` "
          "they can be selected in each layer by measurements: the heads with the largest mean output norm "
          "(`output_norm`), or those whose removal increases the loss most (`loss_increase`); the resulting "
          "lists replace the rule when the run starts.");
  s.field("active", c.active, at_least(0, "heads").capped(kMaxHeads),
          "Heads that are active for a token, the shared ones included: `active: 75%` is MoH-75%, whatever "
          "`num_shared` is. In place of `top_k`, which becomes `active` - `num_shared`; the resolved "
          "configuration has that number. 0: `top_k` says how many.");
  s.field("top_k", c.top_k, at_least(0, "heads").capped(kMaxHeads),
          "Routed heads that each token selects (K of the Top-K), on top of the shared ones. A share is one "
          "of all heads of the layer: with `num_shared: 50%` and `top_k: 25%`, 75% of them are active.");
  s.field("top_k_ratio", c.top_k_ratio, from_up_to(0, 1),
          "The same as a share of the routed heads of each layer, rounded, at least 1. 0: `top_k` says how "
          "many.");
  s.field("learn_shared_until", c.learn_shared_until, from_up_to(0, 1),
          "If not 0, training learns which `num_shared` heads of a layer are shared, by hard-concrete masks: "
          "nearly all at first, `num_shared` after half of this share of the training, and fixed when it is "
          "over. Image models only.");
  s.field("top_k_anneal_until", c.top_k_anneal_until, from_up_to(0, 1),
          "If not 0, K is annealed: training steps keep all routed heads at first, one fewer after each of "
          "equal times, and `top_k` when this share of the training is done. Evaluations keep `top_k` at any "
          "time.")
      .of_training();
  s.field(
      "gate_scaling", c.gate_scaling,
      "Weights of the selected heads. `code`: as the released code, about 1 each. `paper`: as the paper's "
      "equations, with a sum of at most 1.");
  s.field("two_stage", c.two_stage, "Weigh shared against routed heads, token by token, by a second router.");
  s.field(
      "straight_through", c.straight_through,
      "Gradients of the `query_norm` router, which are straight-through: from the `selected` heads, from "
      "`all` heads (which training then has to compute), or `none` except that of the load-balance loss.");
  s.field("balance_loss", c.balance_loss,
          "Form of the load-balance loss of a layer, with P_i the mean probability of routed head i, f_i the "
          "share of tokens that select it, and E the number of routed heads. `code`: E sum P_i f_i, which is "
          "`top_k` if balanced. `paper`: sum P_i f_i, which is `top_k` / E if balanced. `shares`: E sum P_i "
          "f_i / `top_k`, which is 1 if balanced (MoA). `cv`: the squared coefficient of variation of the "
          "heads' importance, sums of the gates of the selected heads as shares of a token, which is 0 if "
          "balanced. If only `gate_scaling` is given, its value holds here, too.")
      .of_training();
  s.field(
       "balance_scope", c.balance_scope,
       "Tokens over which the load-balance loss is defined: those of each `micro_batch`, as in the released "
       "code, or of the step's whole batch (`global`), on all processes. Then a step makes a forward pass of "
       "each micro-batch more, if there are several, to count which heads are selected.")
      .of_training();
  s.field("balance_layers", c.balance_layers,
          "The quantity that the weights of the load-balance loss and of the z-loss multiply: the `mean` "
          "over the layers with routed heads, as in the released code, or their `sum`, a weight for each "
          "layer (MoA).")
      .of_training();
  s.field("balance_weight", c.balance_weight, at_least(0), "Weight of the load-balance loss.").of_training();
  s.field("balance_bias", c.balance_bias, from_up_to(0, 1),
          "If not 0, loss-free balancing: each routed head has a bias, which is added to its probability for "
          "the selection and not for the gates. After each step the bias of a head with less than the mean "
          "load of the step, over all micro-batches and processes, rises by this much, and that of one with "
          "more falls by it. With or without the load-balance loss, which `balance_weight: 0` turns off.");
  s.field("router_precision", c.router_precision,
          "Element type of the matrices of `learned` routers: the `same` as the rest of the model, or "
          "`float32` in a bfloat16 run. Logits, gates and the selection are computed in float32 either way.");
  s.field("router_init", c.router_init,
          "Initial values of `learned` routers: `normal` as the other matrices, or `zeros` (MoA).")
      .of_training();
  s.field(
       "z_loss_weight", c.z_loss_weight, at_least(0),
       "Weight of the z-loss of `learned` routers, the mean over tokens of the squared logarithm of the sum "
       "of exponentials of the routed logits (MoA).")
      .of_training();
  return s;
}

void add_attention_gate(AttentionGate& gate, Section& model) {
  model
      .field("attention_gate", gate,
             "Sigmoid gates of the heads' outputs, before the output projection (Gated Attention): linear "
             "maps of the layer's input, a gate for each `head` of a token, or for each `element` of a head. "
             "Gates that are added to a checkpoint without them begin as its function.")
      .optional_with_weights();
}

Section describe_common(RunConfig& run, FamilyConfigs families) {
  Section root("", "");
  std::vector<std::string> tasks;
  for (const FamilyConfig* family : families) tasks.emplace_back(family->task());
  root.field("task", choice_of(run.task, std::move(tasks)), "The kind of model to train.");
  root.field("seed", run.seed, at_least(0),
             "Determines initial weights, data order and dropout: the same seed gives the same run.");
  root.field("device", run.device,
             "Device that trains the model: `cpu`, `cuda` (the first GPU) or `cuda:N`.");
  root.field("tf32", run.tf32,
             "On a GPU: compute float32 matrix multiplications on tensor cores, which round their inputs to "
             "TF32 (10-bit mantissa).");
  root.field("gemm_algorithms", run.gemm_algorithms,
             "File of cuBLASLt algorithms for matrix multiplications on a GPU. For one that it lacks, "
             "training times the algorithms that cuBLASLt proposes and adds the fastest; runs with the same "
             "file compute the same bits. Empty: the first proposal, which is the same in every run.");
  root.field("threads", run.threads, at_least(0).capped(static_cast<double>(kMaxThreads)),
             "Number of CPU threads. 0: OMP_NUM_THREADS if set, else one per processor.")
      .harmless_on_resume();
  root.field("cuda_graph", run.cuda_graph,
             "On a GPU: capture the training step as CUDA graphs and replay them. Same results without the "
             "launch overhead of each kernel; the memory of the graphs is not available to evaluation.")
      .harmless_on_resume();
  Section& precision = root.section_named(
      "precision", "Element types. `precision: bfloat16` is short for `precision: {weights: bfloat16}`.");
  precision.field("weights", run.precision,
                  "Type of weights, activations and matrix multiplications. With `bfloat16` the optimiser "
                  "keeps a float32 master copy of the weights.");
  precision.field("gradients", run.optim.adamw.gradients,
                  "Type of the gradients of bfloat16 weights, in which micro-batches are accumulated. "
                  "`bfloat16` takes half the memory and rounds the sum after each micro-batch, at a cost in "
                  "accuracy (docs/plan.md#gradients-in-bfloat16).");
  precision.allow_short_form([&run] { return run.optim.adamw.gradients == AdamWOptions().gradients; });
  Section& attention = root.section_named("attention", "How attention is computed on a GPU.");
  attention.field("backend", run.attention.backend,
                  "Kernels for dense attention in bfloat16: `cudnn`, `native` (moh's own), or `auto`: "
                  "cuDNN's where they are expected to be faster (Hopper and later) and support the case. "
                  "Attention of selected heads is always native. The choice is logged.");
  attention.field("deterministic", run.attention.deterministic,
                  "Gradients of attention have the same bits in every run. `false` also takes those kernels "
                  "of cuDNN that "
                  "add in any order, which are faster; moh's own never do.");
  Section& output = root.section_named(
      "output", "Where the run writes its files: metrics.jsonl, checkpoints, the resolved config.");
  output.properties().harmless_on_resume();
  output.field("dir", run.output.dir,
               "Folder of the run, created if missing. Default: that of the file below `configs`, as "
               "`runs/vit/quickstart` "
               "for configs/vit/quickstart.yaml, or the family (llm, vit, dit) and the name of the file, as "
               "`runs/llm/mine`.");
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

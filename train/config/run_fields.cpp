#include "train/config/run_fields.h"

#include "train/config/limits.h"

namespace moh {

namespace {

constexpr std::string_view kTaskNames[] = {"language_model"};
constexpr std::string_view kPrecisionNames[] = {"float32", "bfloat16"};
constexpr std::string_view kAttentionBackendNames[] = {"auto", "moh", "cudnn"};
constexpr std::string_view kRopeScalingNames[] = {"none", "linear", "llama3"};
constexpr config::NameAlias kPrecisionAliases[] = {
    {"fp32", "float32"}, {"f32", "float32"}, {"bf16", "bfloat16"}};
constexpr std::string_view kRecomputeNames[] = {"none", "layer"};
constexpr std::string_view kRouterNames[] = {"none", "learned", "query_norm"};
constexpr std::string_view kGateScalingNames[] = {"code", "paper"};
constexpr std::string_view kBalanceLossNames[] = {"code", "paper"};
constexpr std::string_view kRouterPrecisionNames[] = {"same", "float32"};
constexpr std::string_view kStraightThroughNames[] = {"none", "selected", "all"};
constexpr std::string_view kHeadRuleNames[] = {"first", "output_norm", "loss_increase", "learned"};
constexpr std::string_view kNewRowsNames[] = {"mean", "normal", "zeros"};
constexpr std::string_view kRouterStartNames[] = {"zero", "random", "calibrated"};
constexpr std::string_view kTokenizerNames[] = {"byte"};
constexpr std::string_view kOptimizerNames[] = {"adamw"};
constexpr std::string_view kScheduleNames[] = {"cosine", "constant"};
constexpr std::string_view kNonFiniteNames[] = {"stop", "skip"};

}  // namespace

std::span<const std::string_view> names_of(TaskKind) {
  return kTaskNames;
}
std::span<const std::string_view> names_of(Precision) {
  return kPrecisionNames;
}
std::span<const std::string_view> names_of(AttentionBackend) {
  return kAttentionBackendNames;
}
std::span<const std::string_view> names_of(BalanceLoss) {
  return kBalanceLossNames;
}
std::span<const std::string_view> names_of(RouterPrecision) {
  return kRouterPrecisionNames;
}
std::span<const std::string_view> names_of(RopeScalingKind) {
  return kRopeScalingNames;
}
std::span<const config::NameAlias> aliases_of(Precision) {
  return kPrecisionAliases;
}
std::span<const std::string_view> names_of(RecomputeLevel) {
  return kRecomputeNames;
}
std::span<const std::string_view> names_of(RouterChoice) {
  return kRouterNames;
}
std::span<const std::string_view> names_of(GateScalingChoice) {
  return kGateScalingNames;
}
std::span<const std::string_view> names_of(StraightThroughChoice) {
  return kStraightThroughNames;
}
std::span<const std::string_view> names_of(HeadRule) {
  return kHeadRuleNames;
}
std::span<const std::string_view> names_of(NewRows) {
  return kNewRowsNames;
}
std::span<const std::string_view> names_of(RouterStart) {
  return kRouterStartNames;
}
std::span<const std::string_view> names_of(TokenizerKind) {
  return kTokenizerNames;
}
std::span<const std::string_view> names_of(OptimizerKind) {
  return kOptimizerNames;
}
std::span<const std::string_view> names_of(ScheduleKind) {
  return kScheduleNames;
}
std::span<const std::string_view> names_of(NonFinitePolicy) {
  return kNonFiniteNames;
}

namespace config {

namespace {

constexpr double kMaxSteps = 1e12;
constexpr double kMaxThreads = 4096;

Section describe(OutputConfig& c) {
  Section s("output", "Where the run leaves its files: metrics.jsonl, checkpoints, the resolved config.");
  s.field("dir", c.dir,
          "Folder of the run, made when missing. Default: `runs/` and the name of the config file.");
  return s;
}

Section describe(RopeScaling& c) {
  Section s("rope_scaling", "Rotary positions stretched for texts longer than those of the pre-training.");
  s.field("kind", c.kind,
          "`linear`: all wavelengths times `factor`. `llama3`: the long ones only, with a blend between long "
          "and short (LLaMA 3.1).");
  s.field("factor", c.factor, at_least(1), "How far wavelengths are stretched.");
  s.field("low_freq_factor", c.low_freq_factor, above(0),
          "With `llama3`: wavelengths above `original_positions` / this are long.");
  s.field("high_freq_factor", c.high_freq_factor, above(0),
          "With `llama3`: wavelengths below `original_positions` / this are short, and stay.");
  s.field("original_positions", c.original_positions, at_least(1, "tokens").capped(kMaxLength),
          "With `llama3`: longest text of the pre-training.");
  return s;
}

Section describe(HeadMixtureConfig& c) {
  Section s("moh",
            "Mixture-of-Head attention (arXiv 2410.11842): of the heads that are not shared, each token "
            "keeps a few.");
  s.field("router", c.router,
          "`none`: every head is on, the plain model. `learned`: linear routers on the layer's input. "
          "`query_norm`: "
          "no parameters, the norms of the queries decide, and selected heads have weight 1 (MoH-LLaMA3).");
  s.field("shared", c.shared, at_least(0, "heads").capped(kMaxWidth), "Heads that are on for every token.");
  s.field("shared_heads", HeadSetRef{&c.shared_heads, names_of(HeadRule()).first(1)},
          at_least(0).capped(kMaxWidth),
          "Which heads these are, counted from 0: the `first` ones, or as many as `shared` says by number.");
  s.field("routed", c.routed, at_least(0, "heads").capped(kMaxWidth),
          "Heads that each token keeps of the others (K of the Top-K).");
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
      "share of the tokens. `code`: E sum P_i f_i, which is `routed` when balanced. `paper`: sum P_i f_i, "
      "`routed` / E when balanced. With `gate_scaling` alone given, the loss has its form.");
  s.field("balance_weight", c.balance_weight, at_least(0),
          "Weight of the load-balance loss, a mean over the layers that route.");
  s.field("router_precision", c.router_precision,
          "What the matrices of `learned` routers are stored in: the `same` as the rest of the model, or "
          "`float32` "
          "in a bfloat16 run. Logits, gates and the choice are computed in float32 either way.");
  return s;
}

}  // namespace

Section describe(ModelConfig& c, const std::vector<std::string>& presets) {
  Section s("model",
            "The decoder: RMSNorm, rotary positions, SwiGLU, no biases (LLaMA), with or without MoH.");
  std::vector<std::string> names{std::string(ModelConfig::kNoPreset)};
  names.insert(names.end(), presets.begin(), presets.end());
  s.field("preset", NameRef{&c.preset, std::move(names)},
          "A published model that sets all fields of this section; keys that are given, in whichever file, "
          "override "
          "it.");
  s.field("vocab_size", c.vocab_size, at_least(2, "tokens").capped(kMaxVocab), "Entries of the embedding.");
  s.field("layers", c.layers, at_least(1).capped(kMaxLayers), "Blocks of attention and MLP.");
  s.field("hidden", c.hidden, at_least(1).capped(kMaxWidth), "Width of the residual stream.");
  s.field("intermediate", c.intermediate, at_least(1).capped(kMaxWidth), "Width inside the MLP.");
  s.field("heads", c.heads, at_least(1).capped(kMaxWidth), "Query heads per layer.");
  s.field("kv_heads", c.kv_heads, at_least(0).capped(kMaxWidth),
          "Key and value heads, each shared by a group of query heads (GQA). 0: as many as `heads`.");
  s.field("head_dim", c.head_dim, at_least(0).capped(kMaxWidth), "Width of a head. 0: `hidden` / `heads`.");
  s.field("max_positions", c.max_positions, at_least(1, "tokens").capped(kMaxLength),
          "Longest text the model can see.");
  s.field("norm_eps", c.norm_eps, above(0), "Added to the mean square in RMSNorm.");
  s.field("rope_theta", c.rope_theta, above(0), "Base of the rotary positions' wavelengths.");
  s.field("tied_embeddings", c.tied_embeddings, "Use the embedding as output matrix too.");
  s.field("dropout", c.dropout, from_below(0, 1),
          "Share of the residual branches' outputs set to 0 in training.");
  s.field("init_std", c.init_std, above(0),
          "Standard deviation of the initial matrices; output projections of the blocks get it divided by "
          "the root of 2 * "
          "`layers`.");
  s.field("recompute", c.recompute,
          "What the backward pass computes again instead of keeping it in memory: `none`, or all inside of a "
          "`layer`.");
  s.section(describe(c.rope_scaling));
  s.section(describe(c.moh));
  return s;
}

namespace {

Section describe(CalibrationConfig& c) {
  Section s("calibration",
            "What is measured on the first batches of `data.train` before the first step: the importance of "
            "heads, the start of routers, and how far the start is from the dense model.");
  s.field("batches", c.batches, at_least(0).capped(kMaxWidth),
          "Batches of `train.batch_size` sequences. 0: nothing is measured, which only some choices allow.");
  s.field("mask_steps", c.mask_steps, at_least(1, "steps").capped(kMaxSteps),
          "With `shared_heads: learned`: steps that the masks are trained for, a batch each.");
  s.field("mask_learning_rate", c.mask_learning_rate, above(0),
          "With `shared_heads: learned`: learning rate of the masks' logits (Adam).");
  s.field("ridge", c.ridge, above(0),
          "With `router_start: calibrated`: penalty of the least squares, relative to the mean square of the "
          "inputs.");
  return s;
}

Section describe(InitMohConfig& c) {
  Section s(
      "moh",
      "Makes the dense model of the checkpoint a Mixture-of-Head model. The first five keys become those "
      "of `model.moh`, where all others of the routing are set.");
  s.field("router", c.router, "`model.moh.router`. `none`: the routing of the checkpoint stays.");
  s.field("shared", c.shared, at_least(0, "heads").capped(kMaxWidth), "`model.moh.shared`.");
  s.field("routed_top_k", c.routed_top_k, at_least(0, "heads").capped(kMaxWidth), "`model.moh.routed`.");
  s.field(
      "shared_heads", HeadSetRef{&c.shared_heads, names_of(HeadRule())}, at_least(0).capped(kMaxWidth),
      "`model.moh.shared_heads`, or chosen in each layer by what they do on data: the heads of the largest "
      "mean output (`output_norm`), those without which the loss grows most (`loss_increase`), those "
      "that trained masks keep (`learned`). The choice is written into `model.moh.shared_heads`.");
  s.field("straight_through", c.straight_through, "`model.moh.straight_through`.");
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
      "`vocab_size` (may grow), `max_positions`, `dropout`, `init_std`, `recompute` and `moh`. A resumed "
      "run goes on from its own checkpoint.");
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

Section describe(DataConfig& c) {
  Section s("data", "Text to train and to validate on.");
  s.field("train", c.train, "Text files, token files (`moh data tokenize`), or folders of them.");
  s.field("validation", c.validation,
          "The same, held out. Empty: a part of each training file is split off.");
  s.field("validation_fraction", c.validation_fraction, from_below(0, 1),
          "That part, at the end of each file. 0: train on everything and validate on nothing.");
  s.field("tokenizer", c.tokenizer, "How text becomes tokens. `byte`: one token per byte.");
  s.field("sequence_length", c.sequence_length, at_least(1, "tokens").capped(kMaxLength),
          "Length of the sequences the model is trained on.");
  return s;
}

Section describe(TrainConfig& c) {
  Section s("train", "How long, and how much at a time. A step sees `batch_size` * `accumulate` sequences.");
  s.field("steps", c.steps, at_least(1, "steps").capped(kMaxSteps), "Updates of the weights.");
  s.field("batch_size", c.batch_size, at_least(1, "sequences").capped(kMaxWidth),
          "Sequences that are computed together.");
  s.field("accumulate", c.accumulate, at_least(1).capped(kMaxWidth),
          "Batches whose gradients are added up for one step: a larger step in the same memory.");
  s.field("stop_after_seconds", c.stop_after_seconds, at_least(0, "seconds"),
          "Save a checkpoint and stop after this time, to be resumed. 0: no limit.");
  return s;
}

Section describe(OptimConfig& c) {
  Section s("optim", "The optimiser.");
  s.field("name", c.name, "`adamw` (Loshchilov & Hutter 2019).");
  s.field("learning_rate", c.learning_rate, above(0),
          "Peak learning rate, reached at the end of the warmup.");
  s.field("betas", c.betas, from_below(0, 1), "Decay of the running means of gradient and squared gradient.");
  s.field("eps", c.eps, above(0), "Added to the root of the mean squared gradient.");
  s.field("weight_decay", c.weight_decay, at_least(0),
          "Decoupled weight decay of matrices; norms and other vectors have none.");
  s.field("clip_grad_norm", c.clip_grad_norm, at_least(0),
          "Longest gradient, over all parameters; a longer one is scaled down to it. 0: no limit.");
  return s;
}

Section describe(ScheduleConfig& c) {
  Section s("schedule",
            "The learning rate over time: a linear warmup to `optim.learning_rate`, then a decay.");
  s.field("kind", c.kind, "After the warmup, `cosine` falls to `min_learning_rate`, `constant` stays.");
  s.field("warmup_steps", c.warmup_steps, at_least(0, "steps").capped(kMaxSteps), "Length of the warmup.");
  s.field("warmup_start", c.warmup_start, at_least(0), "Learning rate that the warmup begins with.");
  s.field("min_learning_rate", c.min_learning_rate, at_least(0),
          "Learning rate at the end of the cosine and after.");
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
  Section s("eval", "Loss on the validation text.");
  s.field("every", c.every, at_least(0, "steps").capped(kMaxSteps),
          "Steps between two evaluations. 0: at the end only.");
  s.field("at_start", c.at_start, "Evaluate before the first step, too: what the training begins with.");
  s.field("max_tokens", c.max_tokens, at_least(0, "tokens"),
          "Evaluate on the first of them only. 0: on all.");
  return s;
}

Section describe(CheckpointConfig& c) {
  Section s("checkpoint", "What a run that was stopped resumes from.");
  s.field("every", c.every, at_least(0, "steps").capped(kMaxSteps),
          "Steps between two checkpoints. 0: at the end only.");
  s.field("keep_last", c.keep_last, at_least(1, "checkpoints").capped(kMaxWidth),
          "How many of the newest are kept.");
  s.field("keep_best", c.keep_best, "Keep the one of the lowest validation loss as well.");
  return s;
}

Section describe(SampleConfig& c) {
  Section s("sample", "A text that the model writes when the training ends.");
  s.field("prompt", c.prompt, "How the text begins.");
  s.field("tokens", c.tokens, at_least(0, "tokens").capped(kMaxLength), "How long it goes on. 0: no sample.");
  s.field("temperature", c.temperature, at_least(0), "Divides the logits. 0: always the likeliest token.");
  s.field("top_k", c.top_k, at_least(0, "tokens").capped(kMaxVocab),
          "Draw among the likeliest only. 0: among all.");
  s.field("top_p", c.top_p, above_up_to(0, 1), "Draw among the likeliest whose probabilities sum to this.");
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
      "Whose kernels compute dense attention in bfloat16: `cudnn`, `moh`, or `auto`, cuDNN's where they are "
      "expected to be faster (Hopper and later) and compute the case. Attention of chosen heads is always "
      "moh's. The choice is logged.");
  return s;
}

}  // namespace

Section describe(RunConfig& run, const std::vector<std::string>& presets) {
  Section s("", "");
  s.field("task", run.task, "What is trained.");
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
  s.field("threads", run.threads, at_least(0).capped(kMaxThreads),
          "Threads of the CPU. 0: as OMP_NUM_THREADS says, else one per core.");
  s.field(
      "cuda_graph", run.cuda_graph,
      "On a GPU: record the training step as a CUDA graph, once, and replay it. The same results; saves the "
      "time to ask for each kernel, and the step gets memory that evaluation cannot share.");
  s.section(describe(run.attention));
  s.section(describe(run.output));
  s.section(describe(run.model, presets));
  s.section(describe(run.init));
  s.section(describe(run.data));
  s.section(describe(run.train));
  s.section(describe(run.optim));
  s.section(describe(run.schedule));
  s.section(describe(run.log));
  s.section(describe(run.eval));
  s.section(describe(run.checkpoint));
  s.section(describe(run.sample));
  s.section(describe(run.guard));
  return s;
}

}  // namespace config

}  // namespace moh

#include "train/trainer/config/run_config.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <utility>

#include "core/random.h"
#include "tests/train/trainer/config/config_folder.h"
#include "train/tokenizers/tokenizer.h"
#include "train/trainer/config/enum_names.h"

namespace moh {
namespace {

/// Converts to anything, so that T{AnyValue{}, AnyValue{}} compiles when T has at least two members.
struct AnyValue {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): it has to convert by itself
};

template <class T, std::size_t... kIndices>
constexpr bool has_members(std::index_sequence<kIndices...>) {
  return requires {
    T{(static_cast<void>(kIndices), AnyValue{})...};
  };
}

/// Members of an aggregate, counted by the number of initialisers it takes.
template <class T, std::size_t kCount = 1>
constexpr std::size_t num_members() {
  if constexpr (has_members<T>(std::make_index_sequence<kCount>())) {
    return num_members<T, kCount + 1>();
  } else {
    return kCount - 1;
  }
}

std::size_t num_keys(const config::Section& section) {
  return section.fields().size() + section.sections().size();
}

const config::Section& below(const config::Section& section, std::string_view name) {
  return *std::ranges::find(section.sections(), name, &config::Section::name);
}

TEST_CASE("run config: the field lists name every member of the structs") {
  RunConfig run = default_language_run();
  const config::Section root = config::describe(run, {});
  // The peak of the schedule is optim.learning_rate, and the family adds model, data, sample,
  // init.new_tokenizer and eval.max_tokens.
  CHECK(num_keys(root) == num_members<RunConfig>() - 2 + 3);
  const auto check = [](const config::Section& section, std::size_t members) {
    INFO(section.name());
    CHECK(num_keys(section) == members);
  };
  check(below(root, "attention"), num_members<AttentionConfig>());
  check(below(root, "output"), num_members<OutputConfig>());
  check(below(root, "train"), num_members<TrainConfig>());
  check(below(root, "optim"), num_members<OptimConfig>() - 1 + num_members<AdamWOptions>());
  check(below(root, "precision"), 2);  // of the weights, and AdamWOptions::gradients
  check(below(root, "schedule"), num_members<LrSchedule>() - 1 + num_members<EpochSchedule>());
  check(below(root, "ema"), num_members<EmaConfig>());
  check(below(root, "log"), num_members<LogConfig>());
  check(below(root, "eval"), num_members<EvalConfig>() + 1);
  check(below(root, "checkpoint"), num_members<CheckpointConfig>());
  check(below(root, "guard"), num_members<GuardConfig>());
  check(below(root, "data"),
        num_members<TextDataConfig>() - 1 + num_members<TextOptions>() - 1 + num_members<RecordOptions>());
  check(below(root, "sample"), num_members<SampleConfig>() - 1 + num_members<PickOptions>() + 1);
  const config::Section& model = below(root, "model");
  check(model, num_members<LlamaConfig>() + 1);  // and the preset
  check(below(model, "rope_scaling"), num_members<RopeScaling>());
  check(below(model, "moh"), num_members<MohConfig>());
  const config::Section& init = below(root, "init");
  check(init, num_members<InitConfig>() + 1);
  check(below(init, "moh"), num_members<InitMohConfig>());
  check(below(below(init, "moh"), "calibration"), num_members<CalibrationConfig>());
}

TEST_CASE("run config: keys are unique and documented") {
  RunConfig run = default_language_run();
  const config::Section root = config::describe(run, {});
  const std::vector<std::string> keys = config::all_keys(root);
  CHECK(std::set(keys.begin(), keys.end()).size() == keys.size());
  for (const config::Section& section : root.sections()) {
    INFO(section.name());
    CHECK_THAT(std::string(section.doc()), Catch::EndsWith("."));
    for (const config::Field& field : section.fields()) {
      INFO(field.name);
      CHECK_THAT(std::string(field.doc), Catch::EndsWith("."));
    }
  }
}

TEST_CASE("run config: every enumerator has a name") {
  CHECK(name_of(Precision::kBFloat16) == "bfloat16");
  CHECK(names_of(Precision()).size() == static_cast<std::size_t>(Precision::kBFloat16) + 1);
  CHECK(names_of(RopeScalingKind()).size() == static_cast<std::size_t>(RopeScalingKind::kDynamic) + 1);
  CHECK(names_of(RecomputeLevel()).size() == static_cast<std::size_t>(RecomputeLevel::kLayer) + 1);
  CHECK(names_of(GateScaling()).size() == static_cast<std::size_t>(GateScaling::kPaper) + 1);
  CHECK(names_of(RouterPrecision()).size() == static_cast<std::size_t>(RouterPrecision::kFloat32) + 1);
  CHECK(names_of(BalanceLoss()).size() == static_cast<std::size_t>(BalanceLoss::kCv) + 1);
  CHECK(names_of(StraightThrough()).size() == static_cast<std::size_t>(StraightThrough::kAll) + 1);
  CHECK(names_of(HeadRule()).size() == static_cast<std::size_t>(HeadRule::kLossIncrease) + 1);
  CHECK(names_of(NewRows()).size() == static_cast<std::size_t>(NewRows::kZeros) + 1);
  CHECK(names_of(RouterStart()).size() == static_cast<std::size_t>(RouterStart::kCalibrated) + 1);
  CHECK(names_of(UpdateRule()).size() == static_cast<std::size_t>(UpdateRule::kAdafactor) + 1);
  CHECK(names_of(LrSchedule::Kind()).size() == static_cast<std::size_t>(LrSchedule::Kind::kSqrt) + 1);
  CHECK(names_of(NonFinitePolicy()).size() == static_cast<std::size_t>(NonFinitePolicy::kSkip) + 1);
}

TEST_CASE("run config: data.train is all that must be given") {
  ConfigFolder folder;
  folder.write("name.yaml", "seed: 1\n");
  CHECK(folder.error("name.yaml") ==
        "name.yaml: data.train: expected text to train on, found no path; name files or folders: "
        "data.train=text.txt");
  const RunConfig run = folder.load("name.yaml", {"data.train=x"});
  CHECK(run.output.dir == "runs/llm/name");
  RunConfig expected = default_language_run();
  expected.seed = 1;
  expected.output.dir = "runs/llm/name";
  language_run(expected).data.train = unnamed_source({"x"});
  CHECK(print_resolved(run) == print_resolved(expected));
}

TEST_CASE("run config: a key that has become a constant is passed over with that value alone") {
  CHECK(
      print_resolved(load_text("seed: 3\ninit: {moh: {router_spread: 0.1, calibration: {ridge: 1e-3}}}\n")) ==
      print_resolved(load_text("seed: 3\n")));
  CHECK_THAT(error_of("init: {moh: {router_spread: 0.2}}\n"), Catch::Contains("init.moh.router_spread"));
  CHECK(print_resolved(load_text("seed: 3\ndata: {bin_dtype: none}\n")) ==
        print_resolved(load_text("seed: 3\n")));
  CHECK_THAT(error_of("data: {bin_dtype: uint16}\n"), Catch::Contains("data.bin_dtype"));
}

TEST_CASE("run config: short names of a precision are read, long ones are written") {
  for (const auto& [text, precision] : {std::pair{"bf16", Precision::kBFloat16},
                                        {"bfloat16", Precision::kBFloat16},
                                        {"fp32", Precision::kFloat32},
                                        {"f32", Precision::kFloat32}}) {
    INFO(text);
    const RunConfig run = load_text("precision: " + std::string(text) + "\n");
    CHECK(run.precision == precision);
    CHECK_THAT(print_resolved(run),
               Catch::Contains("\nprecision: " + std::string(name_of(precision)) + "\n"));
  }
  for (const config::NameAlias& other : aliases_of(Precision())) {
    const auto names = names_of(Precision());
    CHECK(std::ranges::count(names, other.name) == 1);
    CHECK(std::ranges::count(names, other.alias) == 0);
  }
}

TEST_CASE("run config: rope scaling is given as a whole") {
  const auto scaling = [](const std::string& text) { return "model: {rope_scaling: {" + text + "}}\n"; };
  CHECK(model_of(load_text(scaling("kind: linear, factor: 2"))).rope_scaling ==
        RopeScaling{RopeScalingKind::kLinear, 2});
  CHECK(error_of(scaling("factor: 2")) ==
        "a.yaml:1:32: model.rope_scaling.kind: expected a kind for model.rope_scaling.factor, found none; "
        "set it to linear, llama3, yarn or dynamic");
  CHECK(error_of(scaling("kind: linear")) ==
        "a.yaml:1:30: model.rope_scaling.factor: expected a number above 1, found 1; or set "
        "model.rope_scaling.kind: none");
  CHECK(error_of(scaling("kind: linear, factor: 2, low_freq_factor: 2")) ==
        "a.yaml:1:30: model.rope_scaling.kind: expected llama3 for model.rope_scaling.low_freq_factor, found "
        "linear");
  CHECK_THAT(error_of(scaling("kind: linear, factor: 2, original_positions: 64")),
             Catch::Contains("expected llama3 or yarn or dynamic for model.rope_scaling.original_positions"));
  CHECK_THAT(error_of(scaling("kind: dynamic, factor: 2, beta_fast: 4")),
             Catch::Contains("expected yarn for model.rope_scaling.beta_fast, found dynamic"));
  CHECK_THAT(error_of(scaling("kind: yarn, factor: 2, beta_fast: 1")),
             Catch::Contains("model.rope_scaling.beta_fast: expected more than beta_slow (1), found 1"));
  CHECK(model_of(load_text(scaling("kind: yarn, factor: 4, truncate: false"))).rope_scaling ==
        RopeScaling{.kind = RopeScalingKind::kYarn, .factor = 4, .truncate = false});
  CHECK(error_of(scaling("kind: llama3, factor: 8, high_freq_factor: 1")) ==
        "a.yaml:1:67: model.rope_scaling.high_freq_factor: expected more than low_freq_factor (1), found 1");
  CHECK(error_of(scaling("kind: longrope, factor: 8")) ==
        "a.yaml:1:30: model.rope_scaling.kind: expected one of none, linear, llama3, yarn, dynamic, found "
        "longrope");
}

/// Reads the resolved config back, without help from the command line.
RunConfig reload(const RunConfig& run) {
  ConfigFolder folder;
  folder.write("other.yaml", print_resolved(run));
  return folder.load("other.yaml");
}

TEST_CASE("run config: the resolved config reads back to the same struct") {
  const RunConfig run = load_text(
      "task: language_model\nseed: 9223372036854775807\nprecision: bfloat16\nthreads: 3\n"
      "device: cuda:1\ntf32: true\ngemm_algorithms: runs/a b.txt\nattention: {backend: cudnn}\n"
      "model: {preset: moh_llm_s_75, layers: 3, norm_eps: 0.1, rope_theta: 500000, kv_heads: 3, recompute: "
      "layer,\n"
      "        rope_scaling: {kind: llama3, factor: 32, low_freq_factor: 0.5, original_positions: 100},\n"
      "        moh: {num_shared: [0, 1, 12], top_k: [1, 2, 0], two_stage: false, gate_scaling: paper}}\n"
      "data: {validation: ['a b', \"c: d\", '#e', 'true', '-', '1'], tokenizer: byte}\n"
      "optim: {learning_rate: 3e-4, betas: [0.9, 0.3333333333333333]}\n"
      "schedule: {kind: constant}\n"
      "sample: {prompt: \"\\\"q\\\" \\\\ \\t\\n\\0\\x04\\e \\u00e9 \\U0001f3ad {[*&!|>'%@`, \", top_p: 0.5}\n"
      "guard: {non_finite: skip}\n");
  const RunConfig again = reload(run);
  CHECK(print_resolved(again) == print_resolved(run));
  CHECK(language_run(run).sample.prompt.find('\0') != std::string::npos);
}

TEST_CASE("run config: the form of the balance loss is that of the gates where only they are given") {
  const auto form = [](const std::string& keys) {
    return model_of(load_text("model: {moh: {router: learned, num_shared: 2, top_k: 2, " + keys + "}}\n"))
        .moh.balance_loss;
  };
  CHECK(form("two_stage: false") == BalanceLoss::kCode);
  CHECK(form("gate_scaling: paper") == BalanceLoss::kPaper);
  CHECK(form("gate_scaling: paper, balance_loss: code") == BalanceLoss::kCode);
  CHECK(form("balance_loss: paper") == BalanceLoss::kPaper);
  // Norms of queries have no scaling, but a balance loss of either form.
  const RunConfig run =
      load_text("model: {moh: {router: query_norm, num_shared: 2, top_k: 2, balance_loss: paper}}\n");
  CHECK(print_resolved(reload(run)) == print_resolved(run));
}

TEST_CASE("run config: any text survives the resolved config") {
  const std::string_view pieces[] = {"a",
                                     " ",
                                     "\n",
                                     "\t",
                                     "\\",
                                     "\"",
                                     "'",
                                     ":",
                                     ": ",
                                     "#",
                                     " #",
                                     "- ",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "&",
                                     "*",
                                     "!",
                                     "|",
                                     ">",
                                     "%",
                                     "@",
                                     "`",
                                     ",",
                                     "?",
                                     "~",
                                     "null",
                                     "0",
                                     "1e3",
                                     "<<",
                                     "---",
                                     "...",
                                     "\r",
                                     "\x01",
                                     "\x7f",
                                     "\xc2\x85",
                                     "\xe2\x80\xa8",
                                     "\xef\xbb\xbf",
                                     "\xf0\x9f\x8e\xad"};
  constexpr RandomKey kKey{1, 2};
  RunConfig run = load_text("seed: 1\n");
  for (std::uint64_t i = 0; i < 300; ++i) {
    language_run(run).sample.prompt.clear();
    for (std::uint64_t k = 0; k < i % 7; ++k) {
      language_run(run).sample.prompt += pieces[random_below(kKey, 8 * i + k, std::size(pieces))];
    }
    INFO(print_resolved(run));
    CHECK(language_run(reload(run)).sample.prompt == language_run(run).sample.prompt);
  }
}

TEST_CASE("run config: a preset fills in the model, given keys win wherever they stand") {
  ConfigFolder folder;
  folder.write("base.yaml", "model: {layers: 2}\ndata: {train: x}\n");
  folder.write("main.yaml", "include: base.yaml\nmodel: {preset: moh_llm_s_75, hidden: 192}\n");
  const RunConfig run = folder.load("main.yaml", {"model.moh.num_shared=1"});
  CHECK(language_run(run).preset == "moh_llm_s_75");
  CHECK(model_of(run).heads == 12);
  CHECK(model_of(run).layers == 2);
  CHECK(model_of(run).hidden == 192);
  CHECK(model_of(run).head_dim == 64);
  CHECK(model_of(run).moh.router == routers::kLearned);
  CHECK(model_of(run).moh.num_shared.at(1) == 1);
  CHECK(model_of(run).moh.top_k.at(0) == 6);
  CHECK(model_of(folder.load("main.yaml", {"model.preset=llm_s"})).moh.router == routers::kNone);
  CHECK(model_of(folder.load("main.yaml", {"model.preset=none", "model.moh.num_shared=0"})).heads ==
        LlamaConfig().heads);
  CHECK(print_resolved(reload(run)) == print_resolved(run));
}

TEST_CASE("run config: a precision alone is that of the weights, and is written so while it says all") {
  const RunConfig both = load_text("precision: {weights: bf16, gradients: bfloat16}\n");
  CHECK(both.precision == Precision::kBFloat16);
  CHECK(both.optim.adamw.gradients == Precision::kBFloat16);
  CHECK_THAT(print_resolved(both),
             Catch::Contains("\nprecision:\n  weights: bfloat16\n  gradients: bfloat16\n"));
  CHECK(print_resolved(reload(both)) == print_resolved(both));
  CHECK_THAT(print_resolved(load_text("precision: {weights: bfloat16}\n")),
             Catch::Contains("\nprecision: bfloat16\n"));
  ConfigFolder folder;
  folder.write("base.yaml", "precision: bfloat16\ndata: {train: x}\n");
  folder.write("main.yaml", "include: base.yaml\nprecision: {gradients: bfloat16}\n");
  CHECK(folder.load("main.yaml").precision == Precision::kBFloat16);
  CHECK(folder.load("main.yaml").optim.adamw.gradients == Precision::kBFloat16);
  const RunConfig overridden = folder.load("base.yaml", {"precision.gradients=bfloat16", "precision=bf16"});
  CHECK(overridden.optim.adamw.gradients == Precision::kBFloat16);
  CHECK(overridden.precision == Precision::kBFloat16);
}

struct RuleCase {
  std::string text;
  std::string message;  ///< without "a.yaml:"
};

TEST_CASE("run config: rules between fields point at what was written") {
  const RuleCase cases[] = {
      {"cuda_graph: true\n",
       "1:13: cuda_graph: expected false with device: cpu, found true; or set device: cuda"},
      {"attention: {backend: cudnn}\n",
       "1:22: attention.backend: expected cudnn with device: cuda and precision: bfloat16 alone, found "
       "device: "
       "cpu, precision: float32"},
      {"device: cuda\nattention: {backend: cudnn}\n",
       "2:22: attention.backend: expected cudnn with device: cuda and precision: bfloat16 alone, found "
       "device: "
       "cuda:0, precision: float32"},
      {"precision: {gradients: bfloat16}\n",
       "1:24: precision.gradients: expected float32 with precision.weights: float32, found bfloat16"},
      {"precision: {weights: fp16}\n",
       "1:22: precision.weights: expected one of float32 (or fp32, f32), bfloat16 (or bf16), found fp16; "
       "float16 is not "
       "supported; use bfloat16"},
      {"optim: {fused_update: true}\n",
       "1:23: optim.clip_grad_norm: expected 0 with optim.fused_update: true, which updates weights before "
       "all "
       "gradients are there, found 1"},
      {"optim: {fused_update: true, clip_grad_norm: 0}\nguard: {non_finite: skip}\n",
       "2:21: guard.non_finite: expected stop with optim.fused_update: true, which cannot take back weights "
       "that are updated, found skip"},
      {"optim: {fused_update: true, clip_grad_norm: 0}\nguard: {spike: {loss: 5}}\n",
       "2:23: guard.spike.loss: expected 0 with optim.fused_update: true, which cannot take back weights "
       "that "
       "are updated, found 5"},
      {"optim: {fused_update: true, clip_grad_norm: 0}\nguard: {spike: {grad_norm: 5}}\n",
       "2:28: guard.spike.grad_norm: expected 0 with optim.fused_update: true, which cannot take back "
       "weights "
       "that are updated, found 5"},
      {"comm: {zero: 4}\n", "1:14: comm.zero: expected an integer of at least 0 and at most 3, found 4"},
      {"model: {heads: 7}\n",
       "1:16: model.heads: expected a divisor of model.hidden (256), found 7; or set model.head_dim"},
      {"model: {hidden: 250}\n",
       "1:17: model.heads: expected a divisor of model.hidden (250), found 8; or set model.head_dim"},
      {"model: {hidden: 24}\n",
       "1:17: model.head_dim: expected an even number (rotary positions rotate pairs), found 3 (model.hidden "
       "/ "
       "model.heads)"},
      {"model: {head_dim: 5}\n",
       "1:19: model.head_dim: expected an even number (rotary positions rotate pairs), found 5"},
      {"model: {head_dim: 512}\n", "1:19: model.head_dim: expected at most 256, found 512"},
      {"tf32: true\n", "1:7: tf32: expected false with device: cpu, which has no TF32, found true"},
      {"model:\n  kv_heads: 3\n", "2:13: model.kv_heads: expected a divisor of model.heads (8), found 3"},
      {"model: {kv_heads: 16}\n", "1:19: model.kv_heads: expected a divisor of model.heads (8), found 16"},
      {"model: {moh: {num_shared: 2}}\n",
       "1:27: model.moh.router: expected a router for model.moh.num_shared and model.moh.top_k, found none; "
       "set "
       "model.moh.router: learned, or both counts to 0 for the dense model"},
      {"model: {moh: {router: learned}}\n",
       "1:23: model.moh.top_k: expected at least 1 of the 8 heads that are not shared, found 0 (layer 0); a "
       "head "
       "that no token can keep is dead; to have all active, share them all"},
      {"model: {moh: {router: learned, num_shared: 9}}\n",
       "1:44: model.moh.num_shared: expected at most model.heads (8), found 9 (layer 0)"},
      {"model: {moh: {router: learned, num_shared: 4, top_k: 5}}\n",
       "1:54: model.moh.top_k: expected at most 4, the heads that are not shared, found 5 (layer 0)"},
      {"model: {layers: 3, moh: {router: learned, num_shared: [8, 2, 8], top_k: [0, 1, 1]}}\n",
       "1:73: model.moh.top_k: expected at most 0, the heads that are not shared, found 1 (layer 2)"},
      {"model: {layers: 3, moh: {router: learned, num_shared: [1, 2], top_k: 2}}\n",
       "1:55: model.moh.num_shared: expected one value, or one per layer (model.layers is 3), found a list "
       "of 2"},
      {"model: {preset: moh_llm_s_75, moh: {num_shared: [2, 2, 2]}}\n",
       "1:49: model.moh.num_shared: expected one value, or one per layer (model.layers is 12), found a list "
       "of 3"},
      {"model: {preset: moh_llm_s_75, heads: 4, kv_heads: 4}\n",
       "1:38: model.moh.top_k: expected at most 1, the heads that are not shared, found 6 (layer 0)"},
      {"model: {preset: moh_llm_s_75, moh: {router: none}}\n",
       "1:45: model.moh.router: expected a router for model.moh.num_shared and model.moh.top_k, found none; "
       "set "
       "model.moh.router: learned, or both counts to 0 for the dense model"},
      {"model: {moh: {router: query_norm, num_shared: 7, top_k: 1}}\n",
       "1:47: model.moh.num_shared: expected at least 2 heads that are not shared (query_norm compares their "
       "norms), "
       "found 1 (layer 0)"},
      {"model: {moh: {router: query_norm, num_shared: 4, top_k: 2, gate_scaling: paper}}\n",
       "1:74: model.moh.gate_scaling: expected code with model.moh.router: query_norm, found paper; selected "
       "heads "
       "have weight 1 there; nothing is scaled"},
      {"optim: {learning_rate: 1e-4}\nschedule: {min_learning_rate: 1e-3, warmup_start: 2e-3}\n",
       "2:31: schedule.min_learning_rate: expected at most optim.learning_rate (1e-4), found 0.001\n"
       "a.yaml:2:51: schedule.warmup_start: expected at most optim.learning_rate (1e-4), found 0.002"},
      {"schedule: {warmup_steps: 50, decay_steps: 50}\n",
       "1:43: schedule.decay_steps: expected more than schedule.warmup_steps (50), or 0, found 50"},
      {"model: {max_positions: 100}\n",
       "1:24: data.sequence_length: expected at most model.max_positions (100), found 256"},
      {"model: {vocab_size: 255}\n",
       "1:21: model.vocab_size: expected at least 256, the tokens of data.tokenizer: byte, found 255"},
  };
  for (const RuleCase& c : cases) {
    INFO(c.text);
    CHECK(error_of(c.text) == "a.yaml:" + c.message);
  }
}

TEST_CASE("run config: rules say nothing about values that could not be read") {
  CHECK(error_of("model: {heads: seven, kv_heads: 3}\n") ==
        "a.yaml:1:16: model.heads: expected an integer of at least 1, found seven");
}

TEST_CASE("run config: per-layer heads") {
  const RunConfig run =
      load_text("model: {layers: 3, moh: {router: learned, num_shared: [8, 2, 0], top_k: [0, 1, 8]}}\n");
  CHECK(model_of(run).moh.num_shared.at(1) == 2);
  CHECK(model_of(run).moh.top_k.at(2) == 8);
  CHECK(model_of(load_text("model: {moh: {router: learned, num_shared: 8}}\n")).moh.num_shared.at(5) == 8);
}

TEST_CASE("run config: zeros that stand for another field") {
  const LlamaConfig model = spelt_out(model_of(load_text("model: {heads: 4, hidden: 64}\n")));
  CHECK(model.kv_heads == 4);
  CHECK(model.head_dim == 16);
}

}  // namespace
}  // namespace moh

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "core/cuda/backend.h"
#include "core/parallel.h"
#include "train/apps/bench/attention_bench.h"
#include "train/apps/bench/decode_bench.h"
#include "train/apps/bench/module_bench.h"
#include "train/apps/bench/op_bench.h"
#include "train/apps/bench/sample_bench.h"
#include "train/apps/bench/step_report.h"
#include "train/apps/cli/commands.h"
#include "train/families/diffusion/diffusion_run.h"
#include "train/families/language/language_run.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/task/load_model.h"

namespace moh::cli {

namespace {

/// Device, dtype and output format of a benchmark of kernels.
struct MachineArgs {
  std::string device = "cpu";
  std::string dtype = "f32";  ///< f32 or bf16
  std::int64_t threads = 0;
  bool json = false;
};

/// Arguments of the benchmarks of attention and of attention layers.
template <class Options>
struct AttentionArgs : MachineArgs {
  Options options;
  bool causal = false;
  bool full = false;  ///< with `causal`: both; neither: full
};

struct OpsArgs : MachineArgs {
  OpBenchOptions options;
};

/// `config`: configuration of the model to measure; empty: a default model with the sizes below.
struct DecodeArgs : RunArgs, MachineArgs {
  DecodeBenchOptions options;
  std::optional<std::int64_t> layers, hidden, heads, kv_heads, head_dim;  ///< instead of the model's
  std::vector<std::string> routings = {"heads"};
};

/// `beside`: further models, each a preset of the configuration or a configuration of its own.
struct SampleBenchArgs : RunArgs {
  SampleBenchOptions options;
  std::vector<std::string> beside;
  bool json = false;
};

struct StepArgs : RunArgs {
  StepBenchOptions options;
  bool json = false;
};

/// Sets the number of threads and opens the device before anything is printed; prints the name of a GPU above
/// the table. Returns the options with device and dtype filled in.
template <class Options>
Options opened(Options options, const MachineArgs& args) {
  set_num_threads(args.threads);
  options.device = parse_device(args.device);
  options.dtype = args.dtype == "bf16" ? DType::kBFloat16 : DType::kFloat32;
  open_device(options.device);
  if (options.device != kCpu && !args.json) std::cout << cuda::describe_device() << '\n';
  return options;
}
template <class Options>
Options opened(const AttentionArgs<Options>& args) {
  Options options = opened(args.options, args);
  options.causal.clear();
  if (args.full || !args.causal) options.causal.push_back(false);
  if (args.causal) options.causal.push_back(true);
  return options;
}

/// Prints each row at once, as they are seconds apart.
auto printer(bool json) {
  return [json, is_first = true](const Row& row) mutable {
    if (!json && std::exchange(is_first, false)) std::cout << row.table_head();
    std::cout << (json ? row.json() : row.table_line()) << std::flush;
  };
}

/// The model to measure: that of the configuration, or the default one, with the sizes given as options.
LlamaConfig decode_model(const DecodeArgs& args, const Families& families) {
  LlamaConfig model = args.options.model;
  if (!args.config.empty()) {
    model = spelt_out(language_run(with_first_heads(read_run(args, families, ConfigUse::kModel))).model);
  }
  if (args.heads) model.heads = model.kv_heads = *args.heads;
  for (const auto& [given, size] :
       {std::pair{&args.layers, &model.layers}, std::pair{&args.hidden, &model.hidden},
        std::pair{&args.kv_heads, &model.kv_heads}, std::pair{&args.head_dim, &model.head_dim}}) {
    if (*given) *size = **given;
  }
  return model;
}

int bench_attention(const AttentionArgs<AttentionBenchOptions>& args, const Families&) {
  run_attention_bench(opened(args), printer(args.json));
  return kDone;
}

int bench_module(const AttentionArgs<ModuleBenchOptions>& args, const Families&) {
  run_module_bench(opened(args), printer(args.json));
  return kDone;
}

int bench_decode(const DecodeArgs& args, const Families& families) {
  DecodeBenchOptions options = args.options;
  options.model = decode_model(args, families);
  options.routings.clear();
  for (const std::string& name : args.routings)
    options.routings.emplace_back(*RoutingRule::registry().find(name));
  run_decode_bench(opened(options, args), printer(args.json));
  return kDone;
}

/// The configuration of a model to measure. For a preset the first one's, with its name after all settings,
/// of which the last one counts.
RunArgs configuration_of(const std::string& model, const SampleBenchArgs& args) {
  if (std::ranges::count(DiffusionRun().presets(), model) == 0) return {model, args.overrides};
  RunArgs with_preset{args.config, args.overrides};
  with_preset.overrides.push_back("model.preset=" + model);
  return with_preset;
}

int bench_sample(const SampleBenchArgs& args, const Families& families) {
  std::vector<std::string> names = {args.config};
  names.insert(names.end(), args.beside.begin(), args.beside.end());
  std::vector<std::unique_ptr<Model>> models;
  std::vector<SampledModel> sampled;
  for (const std::string& name : names) {
    const RunConfig run =
        with_first_heads(read_run(configuration_of(name, args), families, ConfigUse::kModel));
    diffusion_run(run);  // throws for a run of another task
    set_num_threads(run.threads);
    open_configured_device(run, NewProducts::kFirstProposal);
    models.push_back(make_initialised_model(families.of(run), run));
    sampled.push_back({name, static_cast<const Dit*>(models.back().get())});
  }
  run_sample_bench(args.options, sampled, printer(args.json));
  return kDone;
}

int bench_step(const StepArgs& args, const Families& families) {
  const ConfigUse use = args.options.random_data ? ConfigUse::kModel : ConfigUse::kData;
  const RunConfig config = with_first_heads(read_run(args, families, use));
  set_num_threads(config.threads);
  const StepBenchRecord record = run_step_bench(config, families.of(config), args.options);
  if (args.json)
    write_json_line(std::cout, record, args.config, args.overrides);
  else
    write_table(std::cout, record);
  return kDone;
}

int bench_ops(const OpsArgs& args, const Families&) {
  run_op_bench(opened(args.options, args), printer(args.json));
  return kDone;
}

void add_device_and_dtype(CLI::App& command, MachineArgs& args) {
  command.add_option("--device", args.device, "cpu, cuda or cuda:N");
  command.add_option("--dtype", args.dtype, "Element type of the tensors")
      ->check(CLI::IsMember({"f32", "bf16"}));
}

void add_threads_and_json(CLI::App& command, MachineArgs& args) {
  command.add_option("--threads", args.threads, "CPU threads; 0: all processors");
  command.add_flag("--json", args.json, "Print JSON lines instead of a table");
}

void add_active(CLI::App& command, std::vector<double>& active) {
  command.add_option("--active", active, "Shares of the heads that each token selects, separated by commas")
      ->delimiter(',');
}

/// Adds the options shared by the benchmarks of attention and of attention layers.
template <class Options>
void add_attention_options(CLI::App& command, AttentionArgs<Options>& args) {
  Options& options = args.options;
  add_device_and_dtype(command, args);
  command.add_option("--batch", options.batch, "Sequences");
  command.add_option("--tokens", options.tokens, "Sequence lengths, separated by commas")->delimiter(',');
  command.add_option("--heads", options.heads, "Number of query heads");
  command.add_option("--kv-heads", options.kv_heads, "Number of KV heads; 0: as many as --heads");
  command.add_option("--head-dim", options.head_dim, "Width of a head");
  command.add_flag(
      "--within-groups", options.within_groups,
      "Also measure shares inside KV groups (routing: within_groups), where it is the same number "
      "of heads of each");
  command.add_flag("--routed-keys", options.routed_keys,
                   "Also measure shares with keys and values of the selected heads alone (routed: "
                   "queries_keys_values), with --causal");
  add_active(command, options.active);
  command.add_flag("--causal", args.causal, "Causal attention (default: full)");
  command.add_flag("--full", args.full, "Full attention; with --causal both are measured");
  command.add_option("--repeats", options.repeats, "Counted passes of each case");
  add_threads_and_json(command, args);
}

void add_bench_attention(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "attention", "Compare head-sparse with dense attention", bench_attention);
  add_attention_options(command, args);
  command.add_option("--window", args.options.window,
                     "Keys that a query sees at most (sliding window), with --causal; 0: no window");
  command.add_flag("--listed", args.options.listed,
                   "Also measure head lists that contain all heads: the overhead of lists");
  command.add_option(
      "--pooled", args.options.pooled,
      "Measure aggregated attention of TransNeXt: the tokens of a square image, each against a window "
      "of 3 x 3 and so many pooled tokens");
  command.footer(R"(Examples:
  moh bench attention
  moh bench attention --tokens 1024,2048,4096 --heads 16 --kv-heads 4 --head-dim 64 --causal --full --active 1.0,0.75,0.5 --json
  moh bench attention --device cuda --dtype bf16 --tokens 2048,8192 --causal --listed
  moh bench attention --tokens 1024,4096 --heads 32 --kv-heads 8 --head-dim 128 --causal --active 1.0,0.75,0.5 --within-groups
  moh bench attention --tokens 196 --pooled 49 --heads 12 --head-dim 24 --batch 16)");
}

void add_bench_module(const Commands& commands) {
  const auto [command, args] = add_command(
      commands, "module",
      "Compare a whole Mixture-of-Head attention layer, router to output projection, with a dense one",
      bench_module);
  add_attention_options(command, args);
  command.add_option("--width", args.options.width, "Width of the layer's input and output");
  command.footer(R"(Examples:
  moh bench module
  moh bench module --width 2048 --heads 32 --tokens 512 --active 1.0,0.5 --causal --json
  moh bench module --width 2048 --heads 32 --kv-heads 8 --tokens 1024 --causal --within-groups
  moh bench module --width 2048 --heads 32 --tokens 1024 --causal --routed-keys)");
}

void add_bench_step(const Commands& commands) {
  const auto [command, args] = add_command(
      commands, "step", "Measure steps of a training run: time, memory, share of the device's peak rate",
      bench_step);
  StepBenchOptions& options = args.options;
  add_run_arguments(command, args, /*required=*/true);
  command.add_option("--steps", options.steps, "Measured steps");
  command.add_option("--warmup", options.warmup, "Warm-up steps before the measured ones");
  command.add_flag("--random-data", options.random_data, "Synthetic data instead of data.train");
  command.add_flag("--profile", options.profile, "Then profile as many steps again, by op");
  command.add_flag("--kernels", options.kernels, "Then time as many steps again, by kernel of the GPU");
  command
      .add_flag("--no-peaks", options.no_peaks,
                "Leave out the device's peak rates, which take up to a second to measure")
      ->excludes("--kernels");
  command.add_flag("--json", args.json, "Print one JSON object instead of a table");
  command.footer(
      R"(Nothing is written: no run folder, no checkpoint. Device and number of threads are the keys `device` and `threads`.

Examples:
  moh bench step configs/llm/tiny_shakespeare_moh_50.yaml --random-data
  moh bench step configs/llm/moh_llm_s_50.yaml precision=float32 train.batch_size=1 train.accumulate=1 threads=2 --random-data --steps 20 --json
  moh bench step configs/llm/llm_s.yaml device=cuda train.accumulate=1 --random-data --profile
  moh bench step configs/llm/moh_llm_b_50.yaml device=cuda train.batch_size=4 train.accumulate=1 --random-data --kernels --json)");
}

void add_bench_decode(const Commands& commands) {
  const auto [command, args] = add_command(
      commands, "decode",
      "Compare generation of tokens after a long context by Mixture-of-Head and dense models", bench_decode);
  DecodeBenchOptions& options = args.options;
  add_run_arguments(command, args, /*required=*/false);
  command.add_option("--context", options.contexts, "Numbers of tokens in the KV cache, separated by commas")
      ->delimiter(',');
  add_active(command, options.active);
  command.add_option("--layers", args.layers, "Number of layers (6, or the configuration's)");
  command.add_option("--hidden", args.hidden, "Width of the model (768)");
  command.add_option("--heads", args.heads, "Number of query heads, and of KV heads (12)");
  command.add_option("--kv-heads", args.kv_heads, "Number of KV heads (as many as --heads)");
  command.add_option("--head-dim", args.head_dim, "Width of a head (64)");
  command
      .add_option(
          "--routing", args.routings,
          "Units that routers select: heads, groups (KV heads), within_groups (heads, as many of each KV "
          "head), or several")
      ->delimiter(',')
      ->check(CLI::IsMember({"heads", "groups", "within_groups"}));
  command.add_flag("--routed-keys", options.routed_keys,
                   "Also measure routed heads with keys and values of the selected heads alone (routed: "
                   "queries_keys_values)");
  command
      .add_flag("--configured", options.configured,
                "Measure the configuration's model as it is routed, beside the dense one of its sizes, in "
                "place of --active, --routing and --routed-keys")
      ->needs("config")
      ->excludes("--active", "--routing", "--routed-keys");
  command.add_option("--batch", options.batch, "Sequences");
  command.add_option("--tokens", options.tokens, "Tokens generated per pass");
  command.add_option("--repeats", options.repeats, "Counted passes of each case");
  add_device_and_dtype(command, args);
  add_threads_and_json(command, args);
  command.footer(
      R"(A configuration gives the sizes of the model alone; its weights here are random, its heads routed as --active says, or as it says with --configured.

Examples:
  moh bench decode
  moh bench decode --context 512,4096 --active 1.0,0.75,0.5 --threads 2 --json
  moh bench decode configs/llm/llm_s.yaml --context 2048 --layers 4
  moh bench decode --heads 32 --kv-heads 8 --head-dim 128 --hidden 4096 --layers 1 --dtype bf16
  moh bench decode --heads 32 --kv-heads 4 --routing heads,groups,within_groups --context 4096,16384
  moh bench decode configs/llm/moh_llm_s_50.yaml --configured --context 2048)");
}

void add_bench_sample(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "sample", "Compare image sampling by diffusion models", bench_sample);
  SampleBenchOptions& options = args.options;
  add_run_arguments(command, args, /*required=*/true);
  command
      .add_option("--beside", args.beside,
                  "A further model: a preset of the configuration, or a file; repeatable")
      ->type_name("PRESET|CONFIG")
      ->allow_extra_args(false);
  command.add_option("--batch-size", options.batch, "Images that are generated together");
  command.add_option("--cfg", options.sample.guidance, "Scale of classifier-free guidance; 1: no guidance")
      ->check(CLI::Range(0.0, 1000.0));
  command.add_option("--steps", options.sample.steps, "Steps of a pass, as in moh sample");
  command.add_option("--warmup", options.warmups, "Passes before the measured ones");
  command.add_option("--repeats", options.repeats, "Measured passes of each model, in turns");
  command.add_flag("--json", args.json, "Print JSON lines instead of a table");
  command.footer(
      R"(Weights are random; settings are for all models. scripts/bench_pytorch.py --cases dit_sample compares with PyTorch.

Examples:
  moh bench sample configs/dit/paper.yaml model.preset=dit_s_2 --beside moh_dit_s_2_75 device=cpu tf32=false threads=2
  moh bench sample configs/dit/paper.yaml model.preset=dit_xl_2 --beside moh_dit_xl_2_90 --batch-size 8 device=cuda precision=bfloat16 --json)");
}

void add_bench_ops(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "ops",
                  "Compare each op with the peak rates of the device: memory bandwidth, FLOP/s", bench_ops);
  OpBenchOptions& options = args.options;
  add_device_and_dtype(command, args);
  command
      .add_option("--only", options.only,
                  "Ops or models (matmul, LLM-S, TransNeXt-T, ...), separated by commas")
      ->delimiter(',')
      ->default_str("");
  command.add_option("--megabytes", options.megabytes,
                     "Size of each large tensor of the memory-bound ops, in MiB; should exceed the caches");
  command.add_option("--repeats", options.repeats, "Maximum of measured runs of each case");
  command.add_option("--seconds", options.seconds,
                     "Time limit of each case, of which at least three runs are measured");
  add_threads_and_json(command, args);
  command.footer(R"(Examples:
  moh bench ops
  moh bench ops --only rms_norm,swiglu,LLM-S --threads 1
  moh bench ops --dtype bf16 --megabytes 128 --json
  moh bench ops --device cuda --dtype bf16)");
}

}  // namespace

void add_bench(const Commands& commands) {
  const Commands bench = add_group(
      commands, "bench", "Measure speed: medians over repeats, ratios from alternating measurements");
  add_bench_attention(bench);
  add_bench_module(bench);
  add_bench_decode(bench);
  add_bench_step(bench);
  add_bench_sample(bench);
  add_bench_ops(bench);
}

}  // namespace moh::cli

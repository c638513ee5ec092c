#include <CLI/CLI.hpp>
#include <iostream>
#include <utility>

#include "core/cuda/backend.h"
#include "core/parallel.h"
#include "train/bench/attention_bench.h"
#include "train/bench/module_bench.h"
#include "train/bench/op_bench.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/cli/read_run.h"
#include "train/tasks/language/decode_bench.h"
#include "train/tasks/language/language_run.h"
#include "train/tools/bench/step_bench.h"

namespace moh::cli {

namespace {

/// Of `moh bench attention` and `moh bench module`.
template <class Options>
struct AttentionBenchArgs {
  Options options;  ///< device, dtype and causal come from the fields below
  std::string device = "cpu";
  std::string dtype = "f32";  ///< f32 or bf16
  bool causal = false;
  bool full = false;  ///< with `causal`: both; neither: full
  std::int64_t threads = 0;
  bool json = false;
};
using BenchAttentionArgs = AttentionBenchArgs<AttentionBenchOptions>;
using BenchModuleArgs = AttentionBenchArgs<ModuleBenchOptions>;

struct BenchStepArgs {
  std::string config;
  std::vector<std::string> overrides;  ///< key.path=value
  StepBenchOptions options;
  bool json = false;
};

struct BenchDecodeArgs {
  std::string config;                  ///< whose model is measured; empty: that of the options
  std::vector<std::string> overrides;  ///< key.path=value
  DecodeBenchOptions options;          ///< the model, device and dtype come from the other fields, too
  std::optional<std::int64_t> layers, hidden, heads, kv_heads, head_dim;  ///< instead of the model's
  std::string device = "cpu";
  std::string dtype = "f32";  ///< f32 or bf16
  std::int64_t threads = 0;
  bool json = false;
};

struct BenchOpsArgs {
  OpBenchOptions options;  ///< device and dtype come from the fields below
  std::string device = "cpu";
  std::string dtype = "f32";  ///< f32 or bf16
  std::int64_t threads = 0;
  bool json = false;
};

DType dtype_of(const std::string& name) {
  return name == "bf16" ? DType::kBFloat16 : DType::kFloat32;
}

/// Opens a device before anything is printed, and names a GPU above the table.
Device opened_device(const std::string& name, bool json) {
  const Device device = parse_device(name);
  open_device(device);
  if (device != kCpu && !json) std::cout << cuda::describe_device() << '\n';
  return device;
}

/// The options of the benchmarks of attention and of its layer; sets the number of threads.
template <class Args>
auto options_of(const Args& args) {
  set_num_threads(args.threads);
  auto options = args.options;
  options.device = opened_device(args.device, args.json);
  options.dtype = dtype_of(args.dtype);
  options.causal.clear();
  if (args.full || !args.causal) options.causal.push_back(false);
  if (args.causal) options.causal.push_back(true);
  return options;
}

/// A line of results, at once: they come seconds apart.
template <class Record>
void write(const Record& record, bool json) {
  if (json)
    write_json_line(std::cout, record);
  else
    write_table_line(std::cout, record);
  std::cout.flush();
}

/// The model to generate with: a configuration's, or the default one, with the sizes that were given.
LlamaConfig decode_model(const BenchDecodeArgs& args, const Families& families) {
  LlamaConfig model = args.options.model;
  if (!args.config.empty()) {
    model = spelt_out(language_run(read_run(args.config, args.overrides, families, ConfigUse::kModel)).model);
  }
  if (args.heads) model.heads = model.kv_heads = *args.heads;
  for (const auto& [given, size] :
       {std::pair{&args.layers, &model.layers}, std::pair{&args.hidden, &model.hidden},
        std::pair{&args.kv_heads, &model.kv_heads}, std::pair{&args.head_dim, &model.head_dim}}) {
    if (*given) *size = **given;
  }
  return model;
}

int bench_attention(const BenchAttentionArgs& args) {
  const AttentionBenchOptions options = options_of(args);
  if (!args.json) write_table_head(std::cout);
  run_attention_bench(options, [&](const AttentionBenchRecord& record) { write(record, args.json); });
  return kDone;
}

int bench_module(const BenchModuleArgs& args) {
  const ModuleBenchOptions options = options_of(args);
  if (!args.json) write_module_table_head(std::cout);
  run_module_bench(options, [&](const ModuleBenchRecord& record) { write(record, args.json); });
  return kDone;
}

int bench_step(const BenchStepArgs& args, const Families& families) {
  const ConfigUse use = args.options.random_data ? ConfigUse::kModel : ConfigUse::kData;
  const RunConfig config = read_run(args.config, args.overrides, families, use);
  set_num_threads(config.threads);
  StepBenchRecord record = run_step_bench(config, families.of(config), args.options);
  record.config = args.config;
  record.overrides = args.overrides;
  if (args.json)
    write_json_line(std::cout, record);
  else
    write_table(std::cout, record);
  return kDone;
}

int bench_decode(const BenchDecodeArgs& args, const Families& families) {
  set_num_threads(args.threads);
  DecodeBenchOptions options = args.options;
  options.model = decode_model(args, families);
  options.device = opened_device(args.device, args.json);
  options.dtype = dtype_of(args.dtype);
  if (!args.json) write_decode_table_head(std::cout);
  run_decode_bench(options, [&](const DecodeBenchRecord& record) { write(record, args.json); });
  return kDone;
}

int bench_ops(const BenchOpsArgs& args) {
  set_num_threads(args.threads);
  OpBenchOptions options = args.options;
  options.device = opened_device(args.device, args.json);
  options.dtype = dtype_of(args.dtype);
  if (!args.json) write_op_table_head(std::cout);
  run_op_bench(options, [&](const OpBenchRecord& record) { write(record, args.json); });
  return kDone;
}

/// Options that the benchmarks of attention and of its layer have in common.
template <class Args>
void add_attention_options(CLI::App& command, Args& args) {
  auto& options = args.options;
  command.add_option("--device", args.device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", args.dtype, "Element type")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command.add_option("--batch", options.batch, "Sequences")->capture_default_str();
  command.add_option("--tokens", options.tokens, "Lengths, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--heads", options.heads, "Query heads")->capture_default_str();
  command.add_option("--head-dim", options.head_dim, "Width of a head")->capture_default_str();
  command
      .add_option("--active", options.active,
                  "Shares of the heads that each token keeps, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_flag("--causal", args.causal, "Causal attention (default: full)");
  command.add_flag("--full", args.full, "Full attention, also beside --causal");
  command.add_option("--repeats", options.repeats, "Counted passes of each case")->capture_default_str();
  command.add_option("--threads", args.threads, "0: all processors")->capture_default_str();
  command.add_flag("--json", args.json, "One JSON object a line instead of a table");
}

void add_bench_attention(CLI::App& bench, Action& action) {
  CLI::App& command = *bench.add_subcommand("attention", "Head-sparse against dense attention");
  const auto args = std::make_shared<BenchAttentionArgs>();
  add_attention_options(command, *args);
  command.add_option("--kv-heads", args->options.kv_heads, "KV heads")->capture_default_str();
  command.add_flag("--listed", args->options.listed,
                   "Also all heads by way of lists: what the lists themselves cost");
  command.footer(
      "Examples:\n"
      "  moh bench attention\n"
      "  moh bench attention --tokens 1024,2048,4096 --heads 16 --kv-heads 16 --head-dim 64 --causal --full "
      "--active 1.0,0.75,0.5 --json\n"
      "  moh bench attention --device cuda --dtype bf16 --tokens 2048,8192 --causal --listed");
  command.callback([args, &action] { action = [args](const Families&) { return bench_attention(*args); }; });
}

void add_bench_module(CLI::App& bench, Action& action) {
  CLI::App& command = *bench.add_subcommand(
      "module", "A whole attention layer, router to output projection: Mixture-of-Head against dense");
  const auto args = std::make_shared<BenchModuleArgs>();
  add_attention_options(command, *args);
  command.add_option("--width", args->options.width, "Width of the layer's input and output")
      ->capture_default_str();
  command.footer(
      "Examples:\n"
      "  moh bench module\n"
      "  moh bench module --width 2048 --heads 32 --tokens 512 --active 1.0,0.5 --causal --json");
  command.callback([args, &action] { action = [args](const Families&) { return bench_module(*args); }; });
}

void add_bench_step(CLI::App& bench, Action& action) {
  CLI::App& command =
      *bench.add_subcommand("step", "Steps of a training run: time, memory, share of the machine's peak");
  const auto args = std::make_shared<BenchStepArgs>();
  StepBenchOptions& options = args->options;
  add_config_arguments(command, args->config, args->overrides);
  command.get_option("config")->required();
  command.add_option("--steps", options.steps, "Counted steps")->capture_default_str();
  command.add_option("--warmup", options.warmup, "Steps before them")->capture_default_str();
  command.add_flag("--random-data", options.random_data, "Random tokens instead of data.train");
  command.add_flag("--profile", options.profile, "After them as many steps with the time of each op");
  command.add_flag("--json", args->json, "One JSON object instead of a table");
  command.footer(
      "Nothing is written: no run folder, no checkpoint. Device and number of threads are the keys `device` "
      "and "
      "`threads`.\n\n"
      "Examples:\n"
      "  moh bench step configs/llm/tiny_shakespeare_moh_50.yaml --random-data\n"
      "  moh bench step configs/llm/moh_llm_s_50.yaml precision=float32 train.batch_size=1 "
      "train.accumulate=1 threads=2 --random-data --steps 20 --json\n"
      "  moh bench step configs/llm/llm_s.yaml device=cuda train.accumulate=1 --random-data --profile");
  command.callback(
      [args, &action] { action = [args](const Families& families) { return bench_step(*args, families); }; });
}

void add_bench_decode(CLI::App& bench, Action& action) {
  CLI::App& command = *bench.add_subcommand(
      "decode", "Generating token by token behind a long context: Mixture-of-Head against dense");
  const auto args = std::make_shared<BenchDecodeArgs>();
  DecodeBenchOptions& options = args->options;
  add_config_arguments(command, args->config, args->overrides);
  command.add_option("--context", options.contexts, "Tokens before those generated, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--active", options.active,
                  "Shares of the heads that each token keeps, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--layers", args->layers, "Layers (6, or the configuration's)");
  command.add_option("--hidden", args->hidden, "Width of the model (768)");
  command.add_option("--heads", args->heads, "Query heads, and KV heads (12)");
  command.add_option("--kv-heads", args->kv_heads, "KV heads (as many as --heads)");
  command.add_option("--head-dim", args->head_dim, "Width of a head (64)");
  command.add_option("--batch", options.batch, "Sequences")->capture_default_str();
  command.add_option("--tokens", options.tokens, "Tokens that a pass generates")->capture_default_str();
  command.add_option("--repeats", options.repeats, "Counted passes of each case")->capture_default_str();
  command.add_option("--device", args->device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", args->dtype, "Element type")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command.add_option("--threads", args->threads, "0: all processors")->capture_default_str();
  command.add_flag("--json", args->json, "One JSON object a line instead of a table");
  command.footer(
      "A configuration gives the sizes of the model alone; its weights here are random, its heads routed as "
      "--active says.\n\n"
      "Examples:\n"
      "  moh bench decode\n"
      "  moh bench decode --context 512,4096 --active 1.0,0.75,0.5 --threads 2 --json\n"
      "  moh bench decode configs/llm/llm_s.yaml --context 2048 --layers 4\n"
      "  moh bench decode --heads 32 --kv-heads 8 --head-dim 128 --hidden 4096 --layers 1 --dtype bf16");
  command.callback([args, &action] {
    action = [args](const Families& families) { return bench_decode(*args, families); };
  });
}

void add_bench_ops(CLI::App& bench, Action& action) {
  CLI::App& command =
      *bench.add_subcommand("ops", "Each op beside what the machine can do: copying memory, multiply-adds");
  const auto args = std::make_shared<BenchOpsArgs>();
  OpBenchOptions& options = args->options;
  command.add_option("--device", args->device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", args->dtype, "Element type")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command
      .add_option("--only", options.only, "Ops or models (matmul, LLM-S, DeiT-B, ...), separated by commas")
      ->delimiter(',');
  command
      .add_option("--megabytes", options.megabytes,
                  "Size of each large tensor of the ops that stream memory: larger than the caches")
      ->capture_default_str();
  command.add_option("--repeats", options.repeats, "Counted runs of each case at most")
      ->capture_default_str();
  command.add_option("--seconds", options.seconds, "No more runs of a case after that, but three at least")
      ->capture_default_str();
  command.add_option("--threads", args->threads, "0: all processors")->capture_default_str();
  command.add_flag("--json", args->json, "One JSON object a line instead of a table");
  command.footer(
      "Examples:\n"
      "  moh bench ops\n"
      "  moh bench ops --only rms_norm,swiglu,LLM-S --threads 1\n"
      "  moh bench ops --dtype bf16 --megabytes 128 --json\n"
      "  moh bench ops --device cuda --dtype bf16");
  command.callback([args, &action] { action = [args](const Families&) { return bench_ops(*args); }; });
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App& bench = *app.add_subcommand("bench", "Measure speed: medians of repeats, ratios within one run");
  bench.require_subcommand(1);
  add_bench_attention(bench, action);
  add_bench_module(bench, action);
  add_bench_decode(bench, action);
  add_bench_step(bench, action);
  add_bench_ops(bench, action);
}

}  // namespace moh::cli

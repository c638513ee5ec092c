#include <iostream>
#include <utility>

#include "core/cuda/backend.h"
#include "core/parallel.h"
#include "train/bench/attention_bench.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/config/load_run_config.h"
#include "train/tasks/llama_from_config.h"
#include "train/tasks/model_presets.h"

namespace moh::cli {

namespace {

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
  set_num_threads(static_cast<int>(args.threads));
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
LlamaConfig decode_model(const BenchDecodeArgs& args) {
  LlamaConfig model = args.options.model;
  if (!args.config.empty()) {
    std::vector<std::string> overrides = args.overrides;
    overrides.emplace_back("data.train=unread");
    model = llama_config_of(load_run_config(args.config, overrides, llama_model_presets()).model);
  }
  if (args.heads) model.heads = model.kv_heads = *args.heads;
  for (const auto& [given, size] :
       {std::pair{&args.layers, &model.layers}, std::pair{&args.hidden, &model.hidden},
        std::pair{&args.kv_heads, &model.kv_heads}, std::pair{&args.head_dim, &model.head_dim}}) {
    if (*given) *size = **given;
  }
  return model;
}

}  // namespace

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

int bench_step(const BenchStepArgs& args) {
  std::vector<std::string> overrides = args.overrides;
  // Every configuration names its text; what is named is not opened when the tokens are random.
  if (args.options.random_data) overrides.emplace_back("data.train=random");
  const RunConfig config = load_run_config(args.config, overrides, llama_model_presets());
  set_num_threads(static_cast<int>(config.threads));
  StepBenchRecord record = run_step_bench(config, args.options);
  record.config = args.config;
  record.overrides = args.overrides;
  if (args.json)
    write_json_line(std::cout, record);
  else
    write_table(std::cout, record);
  return kDone;
}

int bench_decode(const BenchDecodeArgs& args) {
  set_num_threads(static_cast<int>(args.threads));
  DecodeBenchOptions options = args.options;
  options.model = decode_model(args);
  options.device = opened_device(args.device, args.json);
  options.dtype = dtype_of(args.dtype);
  if (!args.json) write_decode_table_head(std::cout);
  run_decode_bench(options, [&](const DecodeBenchRecord& record) { write(record, args.json); });
  return kDone;
}

int bench_ops(const BenchOpsArgs& args) {
  set_num_threads(static_cast<int>(args.threads));
  OpBenchOptions options = args.options;
  options.device = opened_device(args.device, args.json);
  options.dtype = dtype_of(args.dtype);
  if (!args.json) write_op_table_head(std::cout);
  run_op_bench(options, [&](const OpBenchRecord& record) { write(record, args.json); });
  return kDone;
}

}  // namespace moh::cli

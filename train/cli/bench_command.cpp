#include <iostream>

#include "core/parallel.h"
#include "train/bench/attention_bench.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/config/load_run_config.h"
#include "train/tasks/llama_from_config.h"

namespace moh::cli {

int bench_attention(const BenchAttentionArgs& args) {
  set_num_threads(static_cast<int>(args.threads));
  AttentionBenchOptions options = args.options;
  options.device = parse_device(args.device);
  options.dtype = args.dtype == "bf16" ? DType::kBFloat16 : DType::kFloat32;
  options.causal.clear();
  if (args.full || !args.causal) options.causal.push_back(false);
  if (args.causal) options.causal.push_back(true);
  if (!args.json) write_table_head(std::cout);
  run_attention_bench(options, [&](const AttentionBenchRecord& record) {
    if (args.json)
      write_json_line(std::cout, record);
    else
      write_table_line(std::cout, record);
    std::cout.flush();
  });
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

}  // namespace moh::cli

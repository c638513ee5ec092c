#include <iostream>

#include "core/parallel.h"
#include "train/bench/attention_bench.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"

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

}  // namespace moh::cli

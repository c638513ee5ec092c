#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/analyze/analyze_heads.h"
#include "train/bench/attention_bench.h"
#include "train/bench/decode_bench.h"
#include "train/bench/module_bench.h"
#include "train/bench/op_bench.h"
#include "train/bench/step_bench.h"
#include "train/generate/token_picker.h"
#include "train/plan/plan_options.h"

/// What the commands of the `moh` program do, apart from how their arguments are parsed (cli.cpp). Each
/// returns an exit code (exit_code.h) or throws.
namespace moh::cli {

struct TrainArgs {
  std::string config;
  std::vector<std::string> overrides;  ///< key.path=value
  bool resume = false;                 ///< go on from the newest checkpoint in output.dir, if there is one
  bool overwrite = false;              ///< remove the run that is in output.dir
  bool allow_older = false;            ///< when the newest checkpoint is damaged, use the one before
  bool allow_changes = false;          ///< resume although the configuration changes what the steps compute
  std::string log_level;
};
int train(const TrainArgs& args);

struct EvalArgs {
  std::string checkpoint;
  std::vector<std::string> overrides;  ///< data=PATH or data.validation=PATH, and others
};
int eval(const EvalArgs& args);

struct AnalyzeArgs {
  std::string checkpoint;
  std::vector<std::string> overrides;  ///< data=PATH, any number of times, and settings of the run
  std::vector<std::string> sources;    ///< NAME=PATH
  AnalyzeOptions options;              ///< sequence_length and batch_size come from the run
  std::string out;                     ///< JSON file; empty: none
};
int analyze(const AnalyzeArgs& args);

struct GenerateArgs {
  std::string checkpoint;
  std::string prompt;
  std::int64_t tokens = 256;
  PickOptions pick;
  std::uint64_t seed = 0;
  std::int64_t threads = 0;
  std::string device;  ///< empty: that of the training run
};
int generate(const GenerateArgs& args);

struct ConfigArgs {
  std::string config;
  std::vector<std::string> overrides;
  bool reference = false;  ///< print the reference of all keys instead
};
int config(const ConfigArgs& args);

struct PlanArgs {
  std::string config;
  std::vector<std::string> overrides;  ///< key.path=value
  PlanOptions options;                 ///< memory_bytes and peak come from the fields below
  std::string memory;                  ///< "141GB"; empty: not known
  std::string peak;                    ///< TFLOP/s or a GPU's name; empty: not known
  bool json = false;
};
int plan(const PlanArgs& args);

struct TokenizeArgs {
  std::vector<std::string> inputs;
  std::string output;
  std::string tokenizer = "byte";
};
int data_tokenize(const TokenizeArgs& args);

struct DataInfoArgs {
  std::string file;
  bool verify = false;  ///< read all of it and compare the checksum
};
int data_info(const DataInfoArgs& args);

struct CheckpointInfoArgs {
  std::string path;
  std::string part;  ///< of a PyTorch file
  bool json = false;
  bool hash = false;  ///< read all of it and print the hash of its contents
  bool all = false;   ///< one line per tensor
};
int checkpoint_info(const CheckpointInfoArgs& args);

struct ConvertArgs {
  std::string from;
  std::string to;
  std::string format;          ///< hf, safetensors or moh; empty: by the name of `to`
  std::string part;            ///< of a PyTorch file
  std::string dtype = "keep";  ///< keep, float32, bfloat16 or float16
  std::string shard_size;      ///< "5GB"; empty: one file
  std::string config;          ///< a run's YAML that describes the model
  bool allow_differences = false;
  bool overwrite = false;
};
int convert(const ConvertArgs& args);

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
int bench_attention(const BenchAttentionArgs& args);
int bench_module(const BenchModuleArgs& args);

struct BenchStepArgs {
  std::string config;
  std::vector<std::string> overrides;  ///< key.path=value
  StepBenchOptions options;
  bool json = false;
};
int bench_step(const BenchStepArgs& args);

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
int bench_decode(const BenchDecodeArgs& args);

struct BenchOpsArgs {
  OpBenchOptions options;  ///< device and dtype come from the fields below
  std::string device = "cpu";
  std::string dtype = "f32";  ///< f32 or bf16
  std::int64_t threads = 0;
  bool json = false;
};
int bench_ops(const BenchOpsArgs& args);

}  // namespace moh::cli

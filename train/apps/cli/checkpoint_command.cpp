#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/error.h"
#include "train/apps/cli/commands.h"
#include "train/base/log/progress.h"
#include "train/trainer/task/stored_model.h"
#include "train/weights/describe_weights.h"
#include "train/weights/load_weights.h"

namespace moh::cli {

namespace {

struct CheckpointInfoArgs {
  std::string path;
  std::string part;  ///< of a PyTorch file
  bool json = false;
  bool hash = false;  ///< read all of it and print the hash of its contents
  bool all = false;   ///< one line per tensor
};

/// A line about the model that the configuration next to the tensors describes; the reason, if moh does not
/// support it, as its tensors can be listed nevertheless.
std::string model_line(const StoredModel& stored) {
  try {
    const FamilyConfig* const config = stored.config();
    return config != nullptr ? stored.families().of(*config).weight_names().describe(*config) : "";
  } catch (const ConfigError& error) {
    return std::string("not supported by moh: ") + error.what();
  }
}

std::string hash_of(const WeightFile& weights) {
  std::uint64_t total = 0;
  for (const WeightInfo& tensor : weights.tensors()) total += tensor.bytes;
  ByteProgress progress("hashing", total);
  std::string hash = content_hash(weights, [&](std::uint64_t bytes) { progress.add(bytes); });
  progress.finish();
  return hash;
}

int checkpoint_info(const CheckpointInfoArgs& args, const Families& families) {
  const StoredModel stored(args.path, families, args.part);
  WeightSummary summary{&stored.weights(), model_line(stored), std::nullopt};
  if (args.hash) summary.hash = hash_of(stored.weights());
  std::fputs((args.json ? to_json(summary) : describe(summary, args.all)).c_str(), stdout);
  return kDone;
}

}  // namespace

void add_checkpoint_commands(const Commands& commands) {
  const Commands checkpoint = add_group(commands, "checkpoint", "Inspect files of weights");
  const auto [info, args] =
      add_command(checkpoint, "info", "Print the tensors of a file or folder of weights", checkpoint_info);
  info.add_option(
          "path", args.path,
          "safetensors file, index of a sharded one, PyTorch file, Hugging Face folder, run folder, or one "
          "step's folder")
      ->required();
  info.add_option("--part", args.part, "The model to read from a PyTorch file: model, ema, ...");
  info.add_flag("--hash", args.hash, "Read everything and print a hash of names, types, shapes and elements");
  info.add_flag("--all", args.all,
                "One line per tensor, instead of one for tensors that differ in the layer only");
  info.add_flag("--json", args.json, "Print one JSON object");
  info.footer(R"(The hash does not depend on the format: a converted file shows the same.

Examples:
  moh checkpoint info runs/llm/quickstart
  moh checkpoint info llama3-8b/ --hash
  moh checkpoint info model.pth --part ema --json)");
}

}  // namespace moh::cli

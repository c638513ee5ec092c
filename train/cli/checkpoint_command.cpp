#include <cstdio>

#include "core/error.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/metrics/status_line.h"
#include "train/weights/describe_weights.h"
#include "train/weights/stream_tensor.h"

namespace moh::cli {

namespace {

/// What the configuration beside the tensors says, also when moh has no such model: the tensors can be looked
/// at all the same.
std::string model_line(const ModelLocation& location) {
  try {
    const std::optional<ModelConfig> config = read_model_config(location);
    return config ? describe_model(*config) : "";
  } catch (const ConfigError& error) {
    return std::string("not known to moh: ") + error.what();
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

}  // namespace

int checkpoint_info(const CheckpointInfoArgs& args) {
  const ModelLocation location = locate_model(args.path);
  const auto weights = open_weights(location, args.part);
  WeightSummary summary{weights.get(), model_line(location), std::nullopt};
  if (args.hash) summary.hash = hash_of(*weights);
  std::fputs((args.json ? to_json(summary) : describe(summary, args.all)).c_str(), stdout);
  return kDone;
}

}  // namespace moh::cli

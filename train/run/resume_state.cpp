#include "train/run/resume_state.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/sharded_state.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

using Identity = std::vector<std::pair<std::string, std::string>>;

/// What checkpoints of earlier versions do not say of themselves: which autoencoder made the latents.
constexpr std::string_view kNotInEarlierVersions = "autoencoder";

void check_identity(const std::string& where, const Identity& expected, const Identity& saved) {
  for (const auto& entry : expected) {
    const auto found = std::ranges::find(saved, entry.first, &Identity::value_type::first);
    if (found != saved.end() && found->second == entry.second) continue;
    if (found == saved.end() && entry.first == kNotInEarlierVersions) continue;
    throw CheckpointError(
        error_message(where, entry.first, entry.second, found == saved.end() ? "none" : found->second));
  }
}

}  // namespace

TrainState first_state(std::int64_t seed, const Task& task, const StoredCheckpoint* resume_from) {
  TrainState state;
  if (resume_from != nullptr) {
    state = train_state_of(*resume_from);
    check_identity("checkpoint " + checkpoint_folder_name(resume_from->step()), task.identity(),
                   state.identity);
  }
  state.seed = seed;
  state.identity = task.identity();
  state.data = task.data_contents();
  return state;
}

void load_optimizer_state(const AdamW& optimizer, const StoredCheckpoint& checkpoint) {
  const std::vector<NamedTensor> wanted = optimizer.state();
  for (const NamedTensor& state : wanted) {
    if (!state.name.starts_with("exp_avg.")) continue;
    const auto has = [&](const StoredTensors& file) { return file.find(state.name) != nullptr; };
    if (std::ranges::any_of(checkpoint.optimizer(), has)) continue;
    throw CheckpointError(error_message("checkpoint " + checkpoint_folder_name(checkpoint.step()),
                                        "optim.groups",
                                        "the optimiser's state of every parameter that is trained now",
                                        "none for " + state.name + ", whose parameter was frozen",
                                        "freeze what was frozen, or begin a new run with init.from"));
  }
  if (optimizer.shards() != nullptr || checkpoint.optimizer().size() > 1)
    return load_parts("optimizer state", checkpoint.optimizer(), optimizer.state_parts());
  if (optimizer.frozen().empty()) return load_exactly("optimizer state", checkpoint.optimizer(), wanted);
  load_named("optimizer state", checkpoint.optimizer(), wanted);
}

void load_average(const WeightAverage& average, const AdamW& optimizer, const StoredCheckpoint& checkpoint) {
  if (checkpoint.average().empty()) {
    throw CheckpointError(error_message("checkpoint " + checkpoint_folder_name(checkpoint.step()), "",
                                        "the moving average of the weights (ema.decay)", "none",
                                        "resume with ema.decay=0, as the run began"));
  }
  load_parts("moving average", checkpoint.average(), optimizer.parts_of(average.trained()));
}

}  // namespace moh

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moh {

class StoredCheckpoint;

/// The facts that training found out about a model besides its configuration (Task::identity), by name: the
/// names of its classes, the hash of its tokenizer.
using TrainedIdentity = std::vector<std::pair<std::string, std::string>>;

/// The state that a run needs, besides tensors, to resume. There is no generator state: random numbers are a
/// function of the seed and the step.
struct TrainState {
  std::int64_t step = 0;             ///< finished steps
  std::int64_t samples = 0;          ///< consumed samples: the data position
  std::int64_t items = 0;            ///< consumed items, in the unit of the task
  std::int64_t optimizer_steps = 0;  ///< updates; below `step` by the number of skipped ones
  std::int64_t skipped_in_row = 0;   ///< steps skipped since the last update
  double elapsed_seconds = 0;        ///< of training, over all processes of the run
  std::optional<double> best_score;  ///< of the evaluations so far
  std::vector<double> recent_losses, recent_grad_norms;  ///< what guard.spike compares with, oldest first
  std::vector<std::string> selections;  ///< RouterWatch::churn(), at the last checkpoint that was due
  bool average_warmup = false;          ///< the decay of the moving average began lower (ema.warmup)
  bool evaluation_due = false;          ///< a signal interrupted the evaluation after this step
  std::int64_t seed = 0;
  TrainedIdentity identity;                               ///< of the task
  std::vector<std::pair<std::string, std::string>> data;  ///< Task::data_contents()
};

std::string to_json(const TrainState& state);

/// Throws CheckpointError naming `where` and the field when the text is not what to_json writes.
TrainState train_state_from_json(std::string_view text, std::string_view where);

/// The state stored in a checkpoint. Throws CheckpointError.
TrainState train_state_of(const StoredCheckpoint& checkpoint);

/// trainer.json of a checkpoint that holds a model only: converted from another format, not saved by a run.
std::string model_only_json(const TrainedIdentity& identity);
/// Whether a checkpoint holds a model only.
bool is_model_only(const StoredCheckpoint& checkpoint);
/// TrainState::identity of a run's checkpoint, or what a conversion kept of it. Throws CheckpointError.
TrainedIdentity trained_identity(const StoredCheckpoint& checkpoint);

}  // namespace moh

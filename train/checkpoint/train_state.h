#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moh {

class StoredCheckpoint;

/// What a run needs, besides tensors, to resume. There is no generator state: random numbers are a function
/// of the seed and the step.
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
  bool evaluation_due = false;          ///< a signal interrupted the evaluation after this step
  std::int64_t seed = 0;
  std::vector<std::pair<std::string, std::string>> identity;  ///< of the task
  std::vector<std::pair<std::string, std::string>>
      data;  ///< Task::data_contents(); of earlier versions empty
};

std::string to_json(const TrainState& state);

/// Throws CheckpointError naming `where` and the field when the text is not what to_json writes.
TrainState train_state_from_json(std::string_view text, std::string_view where);

/// The state stored in a checkpoint. Throws CheckpointError.
TrainState train_state_of(const StoredCheckpoint& checkpoint);

}  // namespace moh

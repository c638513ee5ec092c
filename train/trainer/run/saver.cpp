#include "train/trainer/run/saver.h"

#include <string>
#include <utility>

#include "autograd/between_ops.h"
#include "core/error.h"
#include "core/late_tensor.h"
#include "core/threads.h"
#include "train/base/io/error_words.h"
#include "train/base/log/logging.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/run/checkpoint_writer.h"
#include "train/trainer/run/sharded_parameters.h"
#include "train/trainer/run/step_trace.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

std::unique_ptr<CheckpointWriter> open_writer(const RunParts& run, bool sharded) {
  if (sharded) return sharded_checkpoint_writer(run.checkpoints, run.processes);
  if (!run.processes.is_rank0()) return nullptr;
  return whole_checkpoint_writer(*run.checkpoints);
}

void warn_of_refused_thread(const std::string& reason) {
  log_warning(reason + "; the training waits while this checkpoint is written");
}

}  // namespace

Saver::Saver(const RunParts& run, const AdamW& optimizer, const WeightAverage* average)
    : run_(run),
      optimizer_(optimizer),
      average_(average),
      // Sharded parameters are gathered by the thread that trains.
      asynchronous_(run.config.checkpoint.asynchronous && run.config.device == kCpu &&
                    run.config.comm.zero < 3),
      sharded_(optimizer.shards()->divided()),
      writer_(open_writer(run, sharded_)) {}

Saver::~Saver() {
  if (sharded_) return;  // the others may have ended
  try {
    finish();
  } catch (const std::exception& error) {  // after another one, which ends the run
    log_error(error_words(error));
  }
}

void Saver::start(const TrainState& state, std::optional<double> score) {
  MOH_CHECK(writer_ && !writing_.valid(), "finish() comes between two saves");
  step_ = state.step;
  writer_->begin(contents_of(state, score), optimizer_);
  const auto write = [this] { writer_->write(); };
  if (asynchronous_) {
    writing_ = start_async_or_defer({"checkpoint.asynchronous"}, write, warn_of_refused_thread);
  } else {
    writing_ = std::async(std::launch::deferred, write);
    finish();
  }
}

/// The averages of all parameters. Where parameters are sharded, each is gathered when it is read; where the
/// state alone is, this is a collective.
std::vector<NamedTensor> Saver::average_to_write() {
  if (average_ == nullptr) return {};
  if (run_.sharded == nullptr) return average_->state();
  const MemoryPurposeScope purpose(MemoryPurpose::kOptimizer);
  std::vector<NamedTensor> whole;
  std::vector<Variable> leaves;
  std::vector<Tensor> own;
  const std::vector<Variable> trained = optimizer_.trained();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const auto& [name, part] = average_->trained()[i];
    whole.push_back({name, late_tensor(trained[i].shape(), part.dtype(), part.device())});
    leaves.emplace_back(whole.back().tensor);
    own.push_back(part.reshape({part.numel()}));
  }
  sharded_average_ = std::make_unique<ShardedParameters>(run_.sharded->shards(), leaves,
                                                         std::vector<Tensor>(), std::move(own));
  whole.insert(whole.end(), optimizer_.frozen().begin(), optimizer_.frozen().end());
  return whole;
}

/// But for the optimiser's state. Processes other than the first have the tensors alone, which they read when
/// it does.
CheckpointContents Saver::contents_of(const TrainState& state, std::optional<double> score) {
  CheckpointContents contents;
  contents.average = average_to_write();
  contents.model = tensors_of(run_.task.model().parameters());
  if (run_.sharded) contents.after_read = BetweenOps::reached;
  if (!run_.processes.is_rank0()) return contents;
  const Task& task = run_.task;
  contents.step = state.step;
  contents.metric = score;
  contents.higher_is_better = task.score().higher_is_better;
  contents.trainer_json = to_json(state);
  contents.files = task.files();
  contents.config_yaml = run_.config_yaml;
  return contents;
}

void Saver::finish() {
  if (!writing_.valid()) return;
  const WaitScope wait(kWaitForCheckpoint);
  try {
    std::exchange(writing_, {}).get();
    const std::filesystem::path folder = writer_->publish();
    sharded_average_ = nullptr;
    if (!folder.empty()) log_debug("step " + std::to_string(step_) + ": saved " + folder.string());
  } catch (const StorageError&) {
    if (run_.processes.is_rank0()) run_.folder.require_in_place();  // where it is gone, that is the reason
    throw;
  }
}

}  // namespace moh

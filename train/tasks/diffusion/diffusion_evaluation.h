#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "models/diffusion/dit.h"
#include "train/tasks/diffusion/diffusion_batch.h"
#include "train/tasks/diffusion/diffusion_starts.h"
#include "train/tasks/task.h"

namespace moh {

/// Noisy samples of held-out pictures, in order, as batches of an evaluation (evaluation_batches). The last
/// one may have fewer. The label of a broken picture is kIgnoredTarget.
class HeldOutSamples {
 public:
  using Batch = DiffusionBatch;

  /// `broken` may be null with OnError::kStop.
  HeldOutSamples(HeldOutStartsPtr starts, const DitConfig& model, std::int64_t batch_size, OnError on_error,
                 std::shared_ptr<BrokenPictures> broken);

  const HeldOutStarts& starts() const { return *starts_; }
  std::int64_t size() const;
  std::int64_t rows(std::int64_t batch) const;
  DiffusionBatch begin(std::int64_t batch) const { return samples_.begin(rows(batch)); }
  void make(DiffusionBatch& batch, std::int64_t number, std::int64_t row) const;
  static void finish(DiffusionBatch&) {}

 private:
  HeldOutStartsPtr starts_;
  NoisySamples samples_;
  std::int64_t batch_size_;
  OnError on_error_;
  std::shared_ptr<BrokenPictures> broken_;
};

/// Evaluates a model on all pictures of `data`, made by `workers` threads, each at one step of the process
/// with noise of its own, the same in every evaluation (NoisySamples::make_held_out): the loss, the score,
/// and its two parts. Returns nothing if `stop` returned true. The processes take batches in turns; the
/// result does not depend on their number.
std::optional<Evaluation> evaluate_diffusion_model(const Dit& model, const HeldOutSamples& data, int workers,
                                                   StopEvaluation stop, Communicator& processes);

}  // namespace moh

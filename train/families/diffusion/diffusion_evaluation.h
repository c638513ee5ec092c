#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "models/diffusion/dit.h"
#include "train/families/diffusion/diffusion_batch.h"
#include "train/families/diffusion/diffusion_starts.h"
#include "train/trainer/task/data/spread_subset.h"
#include "train/trainer/task/task.h"

namespace moh {

/// How held-out pictures are evaluated.
struct HeldOutOptions {
  std::int64_t batch_size = 1;
  OnError on_error = OnError::kStop;
  std::int64_t most = 0;     ///< pictures, if there are more (SpreadSubset); 0: all
  bool labels_count = true;  ///< false: of a model that was trained without labels
};

/// Noisy samples of held-out pictures, in order, as batches of an evaluation (evaluation_batches). The last
/// one may have fewer. The label of a broken picture is kIgnoredTarget.
class HeldOutSamples {
 public:
  using Batch = DiffusionBatch;

  /// `broken` may be null with OnError::kStop.
  HeldOutSamples(HeldOutStartsPtr starts, const DitConfig& model, const DiffusionConfig& trained,
                 const HeldOutOptions& options, std::shared_ptr<BrokenPictures> broken);

  DiffusionObjective objective() const { return samples_.trained().objective; }
  /// The held-out pictures that are evaluated.
  const SpreadSubset& pictures() const { return pictures_; }
  std::int64_t size() const;
  std::int64_t rows(std::int64_t batch) const;
  DiffusionBatch begin(std::int64_t batch) const { return samples_.begin(rows(batch)); }
  void make(DiffusionBatch& batch, std::int64_t number, std::int64_t row) const;
  static void finish(DiffusionBatch&) {}

 private:
  HeldOutStartsPtr starts_;
  SpreadSubset pictures_;
  NoisySamples samples_;
  HeldOutOptions options_;
  std::int64_t no_class_;
  std::shared_ptr<BrokenPictures> broken_;
};

/// Evaluates a model on the pictures of `data`, made by `workers` threads, each at one step of the process
/// with noise of its own, the same in every evaluation (NoisySamples::make_held_out): the loss, the score,
/// and its two parts. Returns nothing if `stop` returned true. The processes take batches in turns; the
/// result does not depend on their number.
std::optional<Evaluation> evaluate_diffusion_model(const Dit& model, const HeldOutSamples& data, int workers,
                                                   StopEvaluation stop, Communicator& processes);

}  // namespace moh

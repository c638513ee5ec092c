#pragma once

#include <cstdint>

namespace moh {

/// How the samples of an epoch are chosen.
struct SampleOrderOptions {
  /// Times that each chosen picture comes in an epoch, which then has about a third of the pictures in three
  /// views for 3 (repeated augmentation, Hoffer et al. 2020, arXiv 1901.09335; DeiT's sampler).
  std::int64_t repeats = 1;
  /// Ranks whose order and groups are followed on one: DeiT and the released MoH-ViT train on 8, whose views
  /// of a picture then fall into different groups.
  std::int64_t groups = 1;
};

/// The picture of each sample. Sample g of a run is a function of (seed, epoch, index) with epoch = g /
/// samples_per_epoch() and index = g % samples_per_epoch(), so the position in the data is one number.
///
/// An epoch is a random permutation of the pictures; each is repeated `repeats` times in a row, and the list
/// is dealt to the groups in turns. A step has `step_samples` samples: those of the first group, then of the
/// second and so on, each the next of its own. Pictures that do not fill a last step are left out, others in
/// each epoch; with repeats, an epoch has as many samples as there are pictures, rounded down to 256.
class SampleOrder {
 public:
  /// Throws ValueError for numbers below 1, and where groups do not divide a step. An epoch of fewer samples
  /// than a step is allowed without repeats and groups: steps then reach into the next.
  SampleOrder(std::int64_t pictures, std::int64_t step_samples, std::uint64_t seed,
              const SampleOrderOptions& options = {});

  std::int64_t samples_per_epoch() const { return samples_per_epoch_; }
  std::int64_t epoch_of(std::int64_t sample) const { return sample / samples_per_epoch_; }
  std::int64_t index_of(std::int64_t sample) const { return sample % samples_per_epoch_; }
  /// Samples of a step that are mixed with one another.
  std::int64_t group_samples() const { return step_samples_ / options_.groups; }
  /// The number of the sample's picture. sample >= 0.
  std::int64_t picture_of(std::int64_t sample) const;

 private:
  std::int64_t pictures_, step_samples_;
  std::uint64_t seed_;
  SampleOrderOptions options_;
  std::int64_t samples_per_epoch_ = 0;
};

}  // namespace moh

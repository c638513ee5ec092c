#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/random.h"
#include "models/module.h"

namespace moh {

/// The shared heads of a layer, learned while the model trains: hard-concrete masks (ops/moh/head_masks.h)
/// that first leave nearly all heads shared, then fewer, and at half of their time as many as are wanted.
/// When it is over, the heads with the largest scores are shared from then on.
/// Parameters: `shared_mask.score` [H], and `shared_mask.shared` [H], 0 everywhere until then, afterwards 1
/// for the shared heads; float32 (float64 in a float64 model). So a checkpoint has all that there is. On a
/// GPU the host reads them when it sets the progress for the first time and when the heads are fixed, and
/// whenever it is asked for heads(); a training pass reads nothing there.
class SharedMasks : public Module {
 public:
  /// `until`: the share of the training for which they learn, above 0, at most 1. Throws ValueError unless
  /// 0 < num_shared < heads.
  SharedMasks(std::int64_t heads, std::int64_t num_shared, double until, Placement placement);

  /// Tells that this share of the training is done, and fixes the heads when their time is over. Returns
  /// whether they were fixed by this call.
  bool set_progress(double share);
  /// Whether the masks are still learning.
  bool learning() const { return !fixed() && progress_ < until_; }
  /// The masks of one forward pass, [H]: while learning().
  Variable draw(Generator& generator) const;
  /// The shared heads, ascending: those that were fixed, or before that those that would be fixed now.
  std::vector<std::int64_t> heads() const;

 private:
  bool fixed() const;
  std::vector<std::int64_t> best() const;
  void expect_unmasked();

  std::int64_t num_shared_;
  double until_, progress_ = 0;
  Variable score_, shared_;
  Tensor
      unmasked_;  // the expected number of them at this progress; of a captured step on a GPU, in one place
  std::optional<bool> known_fixed_ = {};  // on a GPU, from the first set_progress() on
};

}  // namespace moh

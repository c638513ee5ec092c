#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/layers/attention_observer.h"
#include "train/moh/analyze/feature_rank.h"
#include "train/moh/analyze/head_similarity.h"
#include "train/moh/analyze/head_use.h"
#include "train/moh/analyze/layer_heads.h"
#include "train/moh/analyze/token_heads.h"
#include "train/tasks/analysis_inputs.h"

namespace moh {

/// What is known of a model before its heads are watched.
struct WatchedModel {
  std::vector<LayerHeads> layers;
  std::int64_t vocab_size = 0;  ///< 0 where tokens have no ids
};

/// Watches the heads of a model over any number of forward passes and keeps sums only: memory does not grow
/// with the text. Per layer it is that of (H d)^2 + 6 H^2 numbers of 8 bytes.
class HeadAnalysis : public AttentionObserver {
 public:
  /// One layer. What only a router decides, use and tokens, is missing in a dense one.
  struct Layer {
    LayerHeads heads;
    HeadUseCounter use;
    HeadSimilarity similarity;
    std::optional<HeadMoments> moments;  ///< this and what follows: once a pass has been watched
    Tensor output;                       ///< the weight of the output projection
  };

  /// Inputs come from so many sources; the heads of the tokens of some ids are counted.
  HeadAnalysis(const WatchedModel& model, std::int64_t sources, std::vector<std::int32_t> ids);

  /// Before each forward pass.
  void begin(AnalysisPass pass);
  /// Throws NumericError when the layer computed something that is not finite.
  void observe(const AttentionTrace& trace) override;

  const std::vector<Layer>& layers() const { return layers_; }
  const TokenHeads& tokens() const { return token_heads_; }

 private:
  void compare(Layer& layer, const AttentionTrace& trace, const Tensor& heads,
               std::span<const std::uint8_t> selected) const;

  std::vector<Layer> layers_;
  TokenHeads token_heads_;

  AnalysisPass pass_;  // that is under way
};

/// Which heads the tokens of a pass use, [B, T, H], on the CPU: ones in a dense layer.
std::vector<std::uint8_t> selection_of(const AttentionTrace& trace);

}  // namespace moh

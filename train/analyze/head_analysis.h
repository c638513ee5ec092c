#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/layers/attention_observer.h"
#include "train/analyze/feature_rank.h"
#include "train/analyze/head_similarity.h"
#include "train/analyze/head_use.h"
#include "train/analyze/layer_heads.h"
#include "train/analyze/token_heads.h"

namespace moh {

/// What is known of a model before its heads are watched.
struct WatchedModel {
  std::vector<LayerHeads> layers;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
};

/// Watches the heads of a model over any number of forward passes and keeps sums only: memory does not grow
/// with the text. Per layer it is that of (H d)^2 + 6 H^2 numbers of 8 bytes.
class HeadAnalysis : public AttentionObserver {
 public:
  /// One layer. What only a router decides, use and tokens, is missing in a dense one.
  struct Layer {
    LayerHeads heads;
    HeadUseCounter use;
    HeadMoments moments;
    HeadSimilarity similarity;
    Tensor output;  ///< the weight of the output projection, once a pass has been watched
  };

  HeadAnalysis(const WatchedModel& model, std::int64_t labels, std::vector<TokenId> tokens);

  /// Before each forward pass: its tokens [B, T], the label of each [B T], and the sequences whose heads are
  /// compared, one flag each.
  void begin(const Tensor& tokens, std::vector<std::int32_t> labels, std::vector<bool> for_similarity);
  /// Throws NumericError when the layer computed something that is not finite.
  void observe(const AttentionTrace& trace) override;

  const std::vector<Layer>& layers() const { return layers_; }
  const TokenHeads& tokens() const { return token_heads_; }

 private:
  void compare(Layer& layer, const AttentionTrace& trace, const Tensor& heads,
               std::span<const std::uint8_t> selected) const;

  std::vector<Layer> layers_;
  TokenHeads token_heads_;

  // Of the pass that is under way.
  Tensor tokens_;
  std::vector<std::int32_t> labels_;
  std::vector<bool> for_similarity_;
};

/// Which heads the tokens of a pass use, [B, T, H], on the CPU: ones in a dense layer.
std::vector<std::uint8_t> selection_of(const AttentionTrace& trace);

}  // namespace moh

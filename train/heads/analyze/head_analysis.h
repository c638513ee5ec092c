#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/layers/attention_observer.h"
#include "train/comm/communicator.h"
#include "train/heads/analyze/feature_rank.h"
#include "train/heads/analyze/head_similarity.h"
#include "train/heads/analyze/head_use.h"
#include "train/heads/analyze/layer_heads.h"
#include "train/heads/analyze/token_heads.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

/// The facts that HeadAnalysis needs about the model that it observes.
struct WatchedModel {
  std::vector<LayerHeads> layers;
  std::int64_t vocab_size = 0;  ///< 0 where tokens have no ids
};

/// Accumulates statistics of a model's heads over any number of forward passes. Only sums are kept, so memory
/// does not grow with the number of tokens: per layer (H d)^2 + 6 H^2 numbers of 8 bytes.
class HeadAnalysis : public AttentionObserver {
 public:
  /// One layer. `use` stays empty in a dense layer, which has no router.
  struct Layer {
    LayerHeads heads;
    HeadUseCounter use;
    HeadSimilarity similarity;
    std::optional<HeadMoments> moments;  ///< from the first observed pass on
    Tensor output;                       ///< likewise: the weight of the output projection, [D, H d]
  };

  /// `sources`: number of sources of the inputs; `ids`: tokens to list in tokens().
  HeadAnalysis(const WatchedModel& model, std::int64_t sources, std::vector<std::int32_t> ids);

  /// To be called before each forward pass.
  void begin(AnalysisPass pass);
  /// Throws NumericError when the layer's head outputs are not finite.
  void observe(const AttentionTrace& trace) override;

  /// Adds what the other processes have observed, each of them in at least one pass. A collective.
  void add_of_all(Communicator& processes);

  const std::vector<Layer>& layers() const { return layers_; }
  const TokenHeads& tokens() const { return token_heads_; }

 private:
  /// The sources of a layer's tokens, whose number may be the layer's own.
  std::vector<std::int32_t> sources_of_tokens(const AttentionTrace& trace) const;
  void compare(Layer& layer, const AttentionTrace& trace, const Tensor& heads,
               std::span<const std::uint8_t> selected) const;

  std::vector<Layer> layers_;
  TokenHeads token_heads_;

  AnalysisPass pass_;  // the current one
};

/// The sequences of a pass: B, or those that are packed into one.
std::int64_t sequences_in(const AnalysisPass& pass, const AttentionTrace& trace);

/// Whether the tokens of a pass select each head, [B, T, H], on the CPU: all ones in a dense layer.
std::vector<std::uint8_t> selection_of(const AttentionTrace& trace);
/// Likewise as a tensor of uint8.
Tensor selected_of(const AttentionTrace& trace);

}  // namespace moh

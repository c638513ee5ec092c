#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/layers/attention_observer.h"
#include "models/layers/head_routing.h"
#include "tests/golden/golden_case.h"

namespace moh::test {

/// Keeps what the attention layers of a forward pass show, in order.
class LayerTraces : public AttentionObserver {
 public:
  struct Layer {
    Tensor heads;                      ///< [B, T, H, d], times the gate
    std::optional<HeadChoice> choice;  ///< absent in a dense layer
  };

  void observe(const AttentionTrace& trace) override;
  const Layer& operator[](std::size_t i) const { return layers_.at(i); }
  std::size_t size() const { return layers_.size(); }

 private:
  std::vector<Layer> layers_;
};

/// Heads of a layer as the reference counts them: S shared ones, E routed ones of which K are selected.
struct HeadCounts {
  std::int64_t heads = 0, shared = 0, top_k = 0;
};

/// From the shapes of `attention`.head_weights and of `router`.gates and .topk_indices, which a layer without
/// routed heads has not got.
HeadCounts head_counts(const GoldenCase& golden, const std::string& attention, const std::string& router);

/// Checks probabilities and selection of a router that chose by itself against those of the reference. Where
/// gates tie, the reference's own choice is one of several: there any is right that leaves no larger gate.
void check_router(const GoldenCase& golden, const std::string& router, const Routing& own);

/// The selection to impose on a layer, [N, K] int32, where results cannot be compared otherwise: where heads
/// tie, within the file's smallest gap, at the border of the choice, and their gates are not zero. Undefined
/// elsewhere: the layer has to choose by itself.
Tensor imposed_choice(const GoldenCase& golden, const std::string& router);

}  // namespace moh::test

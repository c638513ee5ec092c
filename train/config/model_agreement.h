#pragma once

#include <string>
#include <vector>

#include "train/config/run_config.h"

namespace moh {

/// A key whose value is not that of the model that a run begins with.
struct ModelDisagreement {
  std::string key;  ///< "model.layers"
  std::string expected, found;
};

/// Where `model` differs from `source` in what a checkpoint decides: everything but the routing and what may
/// change between two runs (dropout, recompute, init_std, max_positions, a larger vocab_size).
std::vector<ModelDisagreement> disagreements(ModelConfig model, ModelConfig source);

}  // namespace moh

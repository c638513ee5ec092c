#pragma once

#include <cstdint>

#include "ops/rope/rope_scaling.h"
#include "train/weights/hf/config_json.h"

namespace moh {

/// The rotary embedding that a config.json describes.
struct HfRope {
  double theta = 10000;
  RopeScaling scaling;

  bool operator==(const HfRope&) const = default;
};

/// Reads it: transformers 4 writes `rope_theta` and `rope_scaling`, transformers 5 `rope_parameters`; some
/// files have both, which have to agree. `max_positions` is max_position_embeddings, from which kinds without
/// a number of their own stretch. Throws CheckpointError for what is damaged, ConfigError for kinds and keys
/// that moh does not have.
HfRope read_hf_rope(const ConfigJson& json, std::int64_t max_positions);

}  // namespace moh

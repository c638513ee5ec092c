#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/layers/attention_gate.h"
#include "models/layers/moh_config.h"
#include "models/recompute_level.h"

namespace moh {

/// A diffusion transformer (Peebles & Xie 2023, arXiv 2212.09748), dense or Mixture-of-Head (arXiv
/// 2410.11842).
struct DitConfig {
  std::int64_t image_size = 32;  ///< side of the pictures, or latents, in cells
  std::int64_t patch_size = 2;
  std::int64_t channels = 4;  ///< 4 of latents, 3 of pixels
  std::int64_t classes = 1000;
  std::int64_t layers = 12;
  std::int64_t hidden = 384;
  PerLayer heads = 6;
  std::int64_t head_dim = 0;  ///< 0: hidden / heads. heads * head_dim may differ from hidden
  std::int64_t mlp_ratio = 4;
  bool learn_variance = true;  ///< as many outputs again, that say the variance of a step
  AttentionGate attention_gate = AttentionGate::kNone;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  MohConfig moh;

  /// Number of the class that stands for none: the last row of the label table.
  std::int64_t no_class() const { return classes; }
  std::int64_t out_channels() const { return channels * (learn_variance ? 2 : 1); }
  std::int64_t head_width() const { return head_dim > 0 ? head_dim : hidden / heads.at(0); }

  bool operator==(const DitConfig&) const = default;
};

/// Reports values that are out of range or inconsistent.
void check(const DitConfig& config, ConfigFaults& faults);
/// Throws ValueError for the first fault that check() reports.
void require_valid(const DitConfig& config);

/// Routing of all layers.
std::vector<HeadRoutingOptions> routing_of(const DitConfig& config);

/// A published model, by name.
struct DitPreset {
  std::string_view name;
  DitConfig config;
  std::string_view origin;  ///< source of the sizes
};
/// dit_s_2 to dit_xl_8, and moh_dit_s_2_90 to moh_dit_xl_2_75.
const std::vector<DitPreset>& dit_presets();

}  // namespace moh

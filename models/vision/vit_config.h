#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/layers/attention_gate.h"
#include "models/layers/moh_config.h"
#include "models/recompute_level.h"

namespace moh {

/// The tokens that the classifier of a vision transformer reads.
enum class VitPooling {
  kClassToken,  ///< a learned token that attends to the image's
  kMean,        ///< the mean of the image's tokens; there is no class token
};

/// A vision transformer (Dosovitskiy et al. 2021, arXiv 2010.11929; DeiT: Touvron et al. 2021, arXiv
/// 2012.12877).
struct VitConfig {
  std::int64_t image_size = 224;  ///< side of the images that the position embeddings are for
  std::int64_t patch_size = 16;
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  std::int64_t layers = 12;
  std::int64_t hidden = 384;
  std::int64_t heads = 6;
  std::int64_t head_dim = 0;    ///< 0: hidden / heads. heads * head_dim may differ from hidden
  bool single_kv_head = false;  ///< all heads share one key and one value head (multi-query attention, MoA)
  std::int64_t mlp_ratio = 4;
  VitPooling pooling = VitPooling::kClassToken;
  double norm_eps = 1e-6;
  double drop_path = 0;  ///< of the last layer; rates grow linearly from 0
  AttentionGate attention_gate = AttentionGate::kNone;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  MohConfig moh;

  std::int64_t head_width() const { return head_dim > 0 ? head_dim : hidden / heads; }

  bool operator==(const VitConfig&) const = default;
};

/// Reports values that are out of range or inconsistent.
void check(const VitConfig& config, ConfigFaults& faults);
/// Throws ValueError for the first fault that check() reports.
void require_valid(const VitConfig& config);

/// Routing of all layers.
std::vector<HeadRoutingOptions> routing_of(const VitConfig& config);

/// A published model, by name.
struct VitPreset {
  std::string_view name;
  VitConfig config;
  std::string_view origin;  ///< source of the sizes
};
/// deit_small and deit_base.
const std::vector<VitPreset>& vit_presets();

}  // namespace moh

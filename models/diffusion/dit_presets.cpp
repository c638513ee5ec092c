#include <utility>

#include "models/diffusion/dit_config.h"

namespace moh {

namespace {

constexpr std::string_view kDit = "arXiv 2212.09748 and its released code";
constexpr std::string_view kMohDit = "arXiv 2410.11842 and its released MoH-DiT";

DitConfig small(std::int64_t patch_size) {
  return {.patch_size = patch_size};
}

DitConfig base(std::int64_t patch_size) {
  return {.patch_size = patch_size, .hidden = 768, .heads = 12};
}

DitConfig large(std::int64_t patch_size) {
  return {.patch_size = patch_size, .layers = 24, .hidden = 1024, .heads = 16};
}

DitConfig extra_large(std::int64_t patch_size) {
  return {.patch_size = patch_size, .layers = 28, .hidden = 1152, .heads = 16};
}

/// So many layers in succession with the same counts.
struct Layers {
  std::size_t count = 0;
  std::int64_t heads = 0, num_shared = 0, top_k = 0;
};

/// The counts of all layers; their heads are as wide as those of `config`.
DitConfig routed(DitConfig config, const std::vector<Layers>& parts) {
  std::vector<std::int64_t> heads, num_shared, top_k;
  for (const Layers& part : parts) {
    heads.insert(heads.end(), part.count, part.heads);
    num_shared.insert(num_shared.end(), part.count, part.num_shared);
    top_k.insert(top_k.end(), part.count, part.top_k);
  }
  config.head_dim = config.head_width();
  config.heads = std::move(heads);
  config.moh.router = routers::kLearned;
  config.moh.num_shared = std::move(num_shared);
  config.moh.top_k = std::move(top_k);
  return config;
}

}  // namespace

const std::vector<DitPreset>& dit_presets() {
  static const std::vector<DitPreset> presets = {
      {"dit_s_2", small(2), kDit},
      {"dit_s_4", small(4), kDit},
      {"dit_s_8", small(8), kDit},
      {"dit_b_2", base(2), kDit},
      {"dit_b_4", base(4), kDit},
      {"dit_b_8", base(8), kDit},
      {"dit_l_2", large(2), kDit},
      {"dit_l_4", large(4), kDit},
      {"dit_l_8", large(8), kDit},
      {"dit_xl_2", extra_large(2), kDit},
      {"dit_xl_4", extra_large(4), kDit},
      {"dit_xl_8", extra_large(8), kDit},
      {"moh_dit_s_2_90", routed(small(2), {{8, 6, 3, 2}, {4, 6, 6, 0}}), kMohDit},
      {"moh_dit_s_2_75", routed(small(2), {{2, 6, 2, 1}, {4, 6, 3, 1}, {4, 6, 3, 2}, {2, 6, 6, 0}}), kMohDit},
      {"moh_dit_b_2_90", routed(base(2), {{5, 12, 6, 4}, {5, 12, 7, 4}, {2, 12, 12, 0}}), kMohDit},
      {"moh_dit_b_2_75", routed(base(2), {{2, 12, 4, 2}, {8, 12, 6, 3}, {2, 12, 12, 0}}), kMohDit},
      {"moh_dit_l_2_90", routed(large(2), {{8, 8, 8, 0}, {8, 16, 16, 0}, {8, 24, 16, 3}}), kMohDit},
      {"moh_dit_l_2_75", routed(large(2), {{8, 8, 8, 0}, {8, 16, 8, 4}, {8, 24, 12, 4}}), kMohDit},
      {"moh_dit_xl_2_90", routed(extra_large(2), {{9, 8, 8, 0}, {10, 16, 16, 0}, {9, 24, 16, 3}}), kMohDit},
      {"moh_dit_xl_2_75", routed(extra_large(2), {{9, 8, 8, 0}, {10, 16, 10, 2}, {9, 24, 14, 2}}), kMohDit},
  };
  return presets;
}

}  // namespace moh

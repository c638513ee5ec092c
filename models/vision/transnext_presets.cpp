#include <utility>

#include "models/vision/transnext_config.h"

namespace moh {

namespace {

constexpr std::string_view kTransNext = "arXiv 2311.17132 and its released code";
constexpr std::string_view kMohVit = "arXiv 2410.11842 and its released MoH-ViT";
constexpr std::string_view kProposed =
    "arXiv 2410.11842, the 28M model of its discussion; lists as of moh_vit_small_75, 75.2% active";

constexpr std::string_view kFewerHeads =
    "the dense baseline of the moh_ preset of this name: as many heads as it has active";
constexpr std::string_view kNoShared =
    "arXiv 2410.11842, table 5: 75.3% active; lists as proposed, not published";
constexpr std::string_view kExperts =
    "arXiv 2410.11842, its discussion: two feed-forward experts, top-1; gates as proposed, not published";

TransNextConfig tiny() {
  TransNextConfig config;
  config.drop_path = 0.25;
  return config;
}

TransNextConfig small() {
  TransNextConfig config;
  config.depths = {5, 5, 22, 5};
  config.drop_path = 0.45;
  return config;
}

TransNextConfig base() {
  TransNextConfig config;
  config.dims = {96, 192, 384, 768};
  config.heads = {4, 8, 16, 32};
  config.depths = {5, 5, 23, 5};
  config.drop_path = 0.60;
  return config;
}

/// Shared and kept routed heads of each stage.
TransNextConfig routed(TransNextConfig config, std::vector<std::int64_t> num_shared,
                       std::vector<std::int64_t> top_k) {
  config.moh.router = routers::kLearned;
  config.moh.num_shared = std::move(num_shared);
  config.moh.top_k = std::move(top_k);
  return config;
}

TransNextConfig with_experts(TransNextConfig config) {
  config.experts = 2;
  return config;
}

/// A model with fewer heads in each stage, each as wide as before (24).
TransNextConfig with_heads(TransNextConfig config, std::vector<std::int64_t> heads) {
  config.head_dim = config.dims[0] / config.heads[0];
  config.heads = std::move(heads);
  return config;
}

}  // namespace

const std::vector<TransNextPreset>& transnext_presets() {
  static const std::vector<TransNextPreset> presets = {
      {"transnext_tiny", tiny(), kTransNext},
      {"transnext_small", small(), kTransNext},
      {"transnext_base", base(), kTransNext},
      {"moh_vit_tiny_75", routed(tiny(), {3, 6, 3, 4}, {0, 0, 6, 12}), kProposed},
      {"transnext_tiny_moe2", with_experts(tiny()), kExperts},
      {"moh_vit_tiny_75_moe2", with_experts(routed(tiny(), {3, 6, 3, 4}, {0, 0, 6, 12})), kExperts},
      {"moh_vit_small_80", routed(small(), {3, 6, 3, 8}, {0, 0, 6, 12}), kMohVit},
      {"moh_vit_small_75", routed(small(), {3, 6, 3, 4}, {0, 0, 6, 12}), kMohVit},
      {"moh_vit_base_75", routed(base(), {4, 8, 4, 5}, {0, 0, 8, 16}), kMohVit},
      {"moh_vit_base_50", routed(base(), {2, 2, 2, 4}, {2, 4, 6, 8}), kMohVit},
      {"moh_vit_small_75_no_shared", routed(small(), {0, 0, 0, 0}, {2, 5, 9, 18}), kNoShared},
      {"dense_vit_tiny_75", with_heads(tiny(), {3, 6, 9, 16}), kFewerHeads},
      {"dense_vit_small_80", with_heads(small(), {3, 6, 9, 20}), kFewerHeads},
      {"dense_vit_small_75", with_heads(small(), {3, 6, 9, 16}), kFewerHeads},
      {"dense_vit_base_75", with_heads(base(), {4, 8, 12, 21}), kFewerHeads},
      {"dense_vit_base_50", with_heads(base(), {4, 6, 8, 12}), kFewerHeads},
  };
  return presets;
}

}  // namespace moh

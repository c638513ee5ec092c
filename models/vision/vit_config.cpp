#include "models/vision/vit_config.h"

#include <string>
#include <utility>

#include "ops/attention/attention.h"

namespace moh {

namespace {

/// Checks sizes and their divisibility. Returns whether there is no fault.
bool check_sizes(const VitConfig& c, ConfigFaults& faults) {
  const std::size_t before = faults.all().size();
  for (const auto& [field, value] : {std::pair<std::string_view, std::int64_t>{"image_size", c.image_size},
                                     {"patch_size", c.patch_size},
                                     {"channels", c.channels},
                                     {"classes", c.classes},
                                     {"layers", c.layers},
                                     {"hidden", c.hidden},
                                     {"heads", c.heads},
                                     {"mlp_ratio", c.mlp_ratio}}) {
    if (value < 1) faults.add({field}, "1 or more", number_text(value));
  }
  if (faults.all().size() != before) return false;
  if (c.image_size % c.patch_size != 0) {
    faults.add({"patch_size", "image_size"},
               "a divisor of " + faults.key("image_size") + " (" + number_text(c.image_size) + ")",
               number_text(c.patch_size));
  }
  if (c.head_dim < 0 || c.head_dim > kMostHeadDim) {
    faults.add({"head_dim"}, "0 to " + number_text(kMostHeadDim), number_text(c.head_dim));
  } else if (c.head_dim == 0 && (c.hidden % c.heads != 0 || c.hidden / c.heads > kMostHeadDim)) {
    faults.add({"heads", "hidden", "head_dim"},
               "a divisor of " + faults.key("hidden") + " (" + number_text(c.hidden) +
                   "), for heads of at most " + number_text(kMostHeadDim),
               number_text(c.heads), "or set " + faults.key("head_dim"));
  }
  return faults.all().size() == before;
}

}  // namespace

void check(const VitConfig& c, ConfigFaults& faults) {
  if (!check_sizes(c, faults)) return;
  if (!(c.norm_eps > 0)) faults.add({"norm_eps"}, "a number above 0", number_text(c.norm_eps));
  if (!(c.drop_path >= 0 && c.drop_path < 1))
    faults.add({"drop_path"}, "0 or more, below 1", number_text(c.drop_path));
  check(c.moh, {c.layers, c.heads}, faults);
}

void require_valid(const VitConfig& config) {
  ConfigFaults faults;
  check(config, faults);
  faults.throw_first("vit");
}

std::vector<HeadRoutingOptions> routing_of(const VitConfig& c) {
  std::vector<HeadRoutingOptions> layers;
  for (std::int64_t i = 0; i < c.layers; ++i) layers.push_back(routing_of(c.moh, c.heads, i));
  return layers;
}

const std::vector<VitPreset>& vit_presets() {
  constexpr std::string_view kDeit = "arXiv 2012.12877 and its released code";
  static const std::vector<VitPreset> presets = {
      {"deit_small", {.hidden = 384, .heads = 6, .drop_path = 0.1}, kDeit},
      {"deit_base", {.hidden = 768, .heads = 12, .drop_path = 0.1}, kDeit},
  };
  return presets;
}

}  // namespace moh

#include "models/diffusion/dit_config.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ops/attention/attention.h"

namespace moh {

namespace {

bool check_counts(const DitConfig& c, ConfigFaults& faults) {
  const std::size_t before = faults.all().size();
  for (const auto& [field, value] : {std::pair<std::string_view, std::int64_t>{"image_size", c.image_size},
                                     {"patch_size", c.patch_size},
                                     {"channels", c.channels},
                                     {"classes", c.classes},
                                     {"layers", c.layers},
                                     {"hidden", c.hidden},
                                     {"mlp_ratio", c.mlp_ratio}}) {
    if (value < 1) faults.add({field}, "1 or more", number_text(value));
  }
  return faults.all().size() == before;
}

bool check_heads(const DitConfig& c, ConfigFaults& faults) {
  const std::size_t before = faults.all().size();
  const std::vector<std::int64_t>& each = c.heads.each;
  if (!each.empty() && static_cast<std::int64_t>(each.size()) != c.layers) {
    faults.add({"heads", "layers"},
               "one value, or one per layer (" + faults.key("layers") + " is " + number_text(c.layers) + ")",
               "a list of " + number_text(static_cast<std::int64_t>(each.size())));
    return false;
  }
  const std::int64_t fewest = each.empty() ? c.heads.every : std::ranges::min(each);
  if (fewest < 1) {
    faults.add({"heads"}, "1 or more", number_text(fewest));
  } else if (c.head_dim < 0 || c.head_dim > kMostHeadDim) {
    faults.add({"head_dim"}, "0 to " + number_text(kMostHeadDim), number_text(c.head_dim));
  } else if (c.head_dim == 0 && !each.empty()) {
    faults.add({"head_dim", "heads"}, "the width of a head, where " + faults.key("heads") + " is a list",
               "0");
  } else if (c.head_dim == 0 && (c.hidden % fewest != 0 || c.hidden / fewest > kMostHeadDim)) {
    faults.add({"heads", "hidden"},
               "a divisor of " + faults.key("hidden") + " (" + number_text(c.hidden) +
                   "), for heads of at most " + number_text(kMostHeadDim),
               number_text(fewest), "or set " + faults.key("head_dim"));
  }
  return faults.all().size() == before;
}

}  // namespace

void check(const DitConfig& c, ConfigFaults& faults) {
  if (!check_counts(c, faults) || !check_heads(c, faults)) return;
  if (c.image_size % c.patch_size != 0) {
    faults.add({"patch_size", "image_size"},
               "a divisor of " + faults.key("image_size") + " (" + number_text(c.image_size) + ")",
               number_text(c.patch_size));
  }
  if (c.hidden % 4 != 0) {
    faults.add({"hidden"}, "a multiple of 4, for sines and cosines of rows and columns",
               number_text(c.hidden));
  }
  check(c.moh, {.layers = c.layers, .heads = c.heads, .sources = {.condition = true}}, faults);
}

void require_valid(const DitConfig& config) {
  ConfigFaults faults;
  check(config, faults);
  faults.throw_first("dit");
}

std::vector<HeadRoutingOptions> routing_of(const DitConfig& c) {
  std::vector<HeadRoutingOptions> layers;
  for (std::int64_t i = 0; i < c.layers; ++i) layers.push_back(routing_of(c.moh, c.heads.at(i), i));
  return layers;
}

}  // namespace moh

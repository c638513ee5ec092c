#include "models/active_heads.h"

#include <cstdio>

namespace moh {

void HeadCounts::add(std::int64_t layer_shared, std::int64_t layer_kept, std::int64_t layer_routed) {
  ++layers;
  shared += layer_shared;
  kept += layer_kept;
  routed += layer_routed;
  alike = alike && shared == layers * layer_shared && kept == layers * layer_kept &&
          routed == layers * layer_routed;
}

HeadCounts head_counts(std::span<const HeadRoutingOptions> layers) {
  HeadCounts counts;
  for (const HeadRoutingOptions& layer : layers) {
    const RouterOptions& router = layer.router;
    counts.add(router.num_shared, router.top_k, router.heads - router.num_shared);
  }
  return counts;
}

std::string describe(const HeadCounts& counts) {
  const std::int64_t each = counts.alike && counts.layers > 0 ? counts.layers : 1;
  const double all = static_cast<double>(counts.shared + counts.routed);
  const double active = all > 0 ? static_cast<double>(counts.shared + counts.kept) / all : 1;
  std::string text = std::to_string(counts.shared / each) + " shared + " +
                     std::to_string(counts.kept / each) + " of " + std::to_string(counts.routed / each);
  if (!counts.alike) text += " in " + std::to_string(counts.layers) + " layers";
  char percent[32];
  std::snprintf(percent, sizeof percent, " = %.3g%%", 100 * active);
  return text + percent;
}

}  // namespace moh

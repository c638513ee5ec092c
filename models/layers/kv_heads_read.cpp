#include "models/layers/kv_heads_read.h"

#include <map>
#include <vector>

namespace moh {

namespace {

/// C(of - without, kept) / C(of, kept): the share of the sets of `kept` units that have none of `without`.
double share_without(std::int64_t without, std::int64_t kept, std::int64_t of) {
  double share = 1;
  for (std::int64_t i = 0; i < kept; ++i) {
    const std::int64_t left = of - without - i;
    if (left <= 0) return 0;
    share *= static_cast<double>(left) / static_cast<double>(of - i);
  }
  return share;
}

}  // namespace

double kv_heads_read(const HeadRoutingOptions& options, std::int64_t kv_heads) {
  if (!options.kind->routes()) return static_cast<double>(kv_heads);
  const RouterOptions& router = options.router;
  const HeadKinds units = head_kinds(options);
  const std::int64_t group = options.query_heads() / kv_heads;
  const auto kv_head_of = [&](std::int64_t unit) { return unit * options.unit_heads / group; };
  std::vector<bool> always(static_cast<std::size_t>(kv_heads));
  for (const std::int64_t unit : units.shared) always[static_cast<std::size_t>(kv_head_of(unit))] = true;
  // Routed units of each KV head, by the part of the router's order that they are in.
  std::vector<std::map<std::int64_t, std::int64_t>> routed(static_cast<std::size_t>(kv_heads));
  for (std::size_t i = 0; i < units.routed.size(); ++i) {
    const std::int64_t part = static_cast<std::int64_t>(i) / router.group_routed();
    ++routed[static_cast<std::size_t>(kv_head_of(units.routed[i]))][part];
  }
  double read = 0;
  for (std::size_t head = 0; head < always.size(); ++head) {
    double unread = 1;
    for (const auto& [part, count] : routed[head])
      unread *= share_without(count, router.group_top_k(), router.group_routed());
    read += always[head] ? 1 : 1 - unread;
  }
  return read;
}

}  // namespace moh

#include "ops/moh/router_options.h"

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace moh {

namespace {

[[noreturn]] void refuse(std::string_view what, std::string_view expected, std::int64_t found) {
  throw ValueError(error_message("route_heads", what, expected, std::to_string(found)));
}

}  // namespace

Tensor head_order(std::int64_t heads, std::span<const std::int64_t> shared_heads, Device device) {
  std::vector<bool> is_shared(static_cast<std::size_t>(heads));
  for (const std::int64_t head : shared_heads) {
    if (head < 0 || head >= heads || is_shared[static_cast<std::size_t>(head)]) {
      throw ValueError(error_message("head_order", "shared_heads",
                                     "heads from 0 to " + std::to_string(heads - 1) + ", each once",
                                     std::to_string(head)));
    }
    is_shared[static_cast<std::size_t>(head)] = true;
  }
  std::vector<std::int32_t> order;
  for (const bool wanted : {true, false}) {
    for (std::size_t head = 0; head < is_shared.size(); ++head) {
      if (is_shared[head] == wanted) order.push_back(static_cast<std::int32_t>(head));
    }
  }
  return tensor_of<std::int32_t>({heads}, order).to(device);
}

RouterWidths router_widths(const RouterOptions& o) {
  if (o.heads < 1) refuse("heads", "1 or more", o.heads);
  if (o.num_shared < 0 || o.num_shared > o.heads)
    refuse("num_shared", "0 to " + std::to_string(o.heads), o.num_shared);
  const std::int64_t experts = o.heads - o.num_shared;
  if (o.top_k < 0 || o.top_k > experts) {
    refuse("top_k", "0 to " + std::to_string(experts) + " (the routed heads)", o.top_k);
  }
  if (o.top_k == 0 && experts > 0 && o.scaling != GateScaling::kBinary)
    refuse("num_shared", std::to_string(o.heads) + " when no head is routed", o.num_shared);
  if (o.groups < 1 || experts % o.groups != 0)
    refuse("groups", "a divisor of the " + std::to_string(experts) + " routed heads", o.groups);
  if (o.top_k % o.groups != 0)
    refuse("top_k", "a multiple of the " + std::to_string(o.groups) + " groups", o.top_k);
  RouterWidths widths;
  widths.routed = o.top_k > 0 ? experts : 0;
  if (o.scaling == GateScaling::kBinary || o.scaling == GateScaling::kShares) return widths;
  widths.shared = o.num_shared > 1 ? o.num_shared : 0;
  widths.type = o.two_stage && o.num_shared > 0 && o.top_k > 0 ? 2 : 0;
  return widths;
}

double balance_factor(const RouterOptions& o) {
  const auto experts = static_cast<double>(o.group_routed()), groups = static_cast<double>(o.groups);
  switch (o.balance_loss) {
    case BalanceLoss::kCv:
    case BalanceLoss::kCode:
      return experts / groups;
    case BalanceLoss::kPaper:
      return 1 / groups;
    case BalanceLoss::kShares:
      return o.top_k > 0 ? experts / static_cast<double>(o.group_top_k()) / groups : 0;
  }
  fail_check(__FILE__, __LINE__, "balance_loss", "an unknown form");
}

}  // namespace moh

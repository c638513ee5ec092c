#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "tests/ops/op_cases.h"

namespace moh::test {

/// Logits of a router, its selection, and what router_statistics says of them.
struct RouterStatisticsCase {
  Tensor routed, types, top;
  double weight = 0, margin = 0;
};

/// Tokens, routed heads, and how many of these are kept: none, one, odd numbers, all, more than a block.
inline constexpr std::array<std::tuple<std::int64_t, std::int64_t, std::int64_t>, 6> kRouterStatisticsSizes{
    {{0, 3, 1}, {1, 2, 1}, {7, 5, 3}, {300, 24, 8}, {33, 4, 4}, {2, 1, 1}}};

/// Logits are rounded, so that there are ties; they go to the lowest head.
inline RouterStatisticsCase router_statistics_case(std::int64_t tokens, std::int64_t heads, std::int64_t kept,
                                                   DType dtype) {
  const Tensor routed = normal({tokens, heads}), types = normal({tokens, 2});
  for (std::int64_t i = 0; i < routed.numel(); ++i)
    routed.data<double>()[i] = std::round(4 * routed.data<double>()[i]) / 4;
  const Tensor top = empty({tokens, kept}, DType::kInt32);
  RouterStatisticsCase result{routed.to(dtype), types.to(dtype), top, 0, 0};
  std::vector<std::int32_t> order(static_cast<std::size_t>(heads));
  for (std::int64_t n = 0; n < tokens; ++n) {
    const double* z = routed.data<double>() + n * heads;
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return z[a] > z[b]; });
    std::copy_n(order.begin(), kept, top.data<std::int32_t>() + n * kept);
    const double* t = types.data<double>() + 2 * n;
    const auto share = 1 / static_cast<double>(tokens);
    result.weight += share * std::exp(t[1]) / (std::exp(t[0]) + std::exp(t[1]));
    const auto last = static_cast<std::size_t>(kept - 1);
    if (kept < heads) result.margin += share * (z[order[last]] - z[order[last + 1]]);
  }
  return result;
}

}  // namespace moh::test

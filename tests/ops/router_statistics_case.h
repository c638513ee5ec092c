#pragma once

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "ops/moh/head_router.h"
#include "tests/ops/op_cases.h"
#include "tests/support/same_bits.h"

namespace moh::test {

/// Logits of a router, its selection, and the statistics of these (Routing::statistics).
struct RouterStatisticsCase {
  Tensor routed, types, top;
  double weight = 0, margin = 0;
};

struct RouterStatisticsSizes {
  std::int64_t tokens, heads, kept, groups;
};
/// No token, one, odd numbers, all heads kept, more than a block, groups.
inline constexpr std::array<RouterStatisticsSizes, 8> kRouterStatisticsSizes{{{0, 3, 1, 1},
                                                                              {1, 2, 1, 1},
                                                                              {7, 5, 3, 1},
                                                                              {300, 24, 8, 1},
                                                                              {33, 4, 4, 1},
                                                                              {2, 1, 1, 1},
                                                                              {300, 24, 8, 8},
                                                                              {7, 9, 6, 3}}};

/// Logits are rounded, so that there are ties; they go to the lowest head.
inline RouterStatisticsCase router_statistics_case(const RouterStatisticsSizes& sizes, DType dtype) {
  const auto [tokens, heads, kept, groups] = sizes;
  const Tensor routed = normal({tokens, heads}), types = normal({tokens, 2});
  for (std::int64_t i = 0; i < routed.numel(); ++i)
    routed.data<double>()[i] = std::round(4 * routed.data<double>()[i]) / 4;
  const Tensor top = empty({tokens, kept}, DType::kInt32);
  RouterStatisticsCase result{routed.to(dtype), types.to(dtype), top, 0, 0};
  const std::int64_t size = heads / groups, of_group = kept / groups;
  std::vector<std::int32_t> order(static_cast<std::size_t>(size));
  for (std::int64_t n = 0; n < tokens; ++n) {
    const double* z = routed.data<double>() + n * heads;
    const auto last = static_cast<std::size_t>(of_group - 1);
    for (std::int64_t g = 0; g < groups; ++g) {
      std::iota(order.begin(), order.end(), static_cast<std::int32_t>(g * size));
      std::ranges::stable_sort(order, [z](std::int32_t a, std::int32_t b) { return z[a] > z[b]; });
      std::copy_n(order.begin(), of_group, top.data<std::int32_t>() + n * kept + g * of_group);
      if (of_group < size)
        result.margin += (z[order[last]] - z[order[last + 1]]) / static_cast<double>(tokens * groups);
    }
    const double* t = types.data<double>() + 2 * n;
    const auto share = 1 / static_cast<double>(tokens);
    result.weight += share * std::exp(t[1]) / (std::exp(t[0]) + std::exp(t[1]));
  }
  return result;
}

/// Checks the routing of the case on a device, with logits in three tensors and in one.
inline void check_router_statistics(const RouterStatisticsSizes& sizes, DType dtype, Device device) {
  INFO(sizes.tokens << " tokens, " << sizes.kept << " of " << sizes.heads << " heads, " << sizes.groups
                    << " groups");
  const RouterStatisticsCase c = router_statistics_case(sizes, dtype);
  RouterOptions options{.heads = sizes.heads + 1, .num_shared = 1, .top_k = sizes.kept};
  options.groups = sizes.groups;
  const Variable routed(c.routed.to(device)), types(c.types.to(device));
  const Tensor both = empty({sizes.tokens, sizes.heads + 2}, dtype);
  for (std::int64_t n = 0; n < sizes.tokens; ++n) {
    both.slice(n, n + 1).reshape({sizes.heads + 2}).slice(0, sizes.heads).copy_from(c.routed.select(n));
    both.slice(n, n + 1)
        .reshape({sizes.heads + 2})
        .slice(sizes.heads, sizes.heads + 2)
        .copy_from(c.types.select(n));
  }
  for (const Routing& found : {route_heads({}, routed, types, sizes.tokens, options),
                               route_heads_packed(Variable(both.to(device)), options)}) {
    CHECK(same_bits(found.top.to(kCpu), c.top));
    const Tensor statistics = found.statistics.to(kCpu).to(DType::kFloat64);
    CHECK(statistics.data<double>()[0] == Approx(c.weight).epsilon(1e-5));
    CHECK(statistics.data<double>()[1] == Approx(c.margin).epsilon(1e-5));
  }
  const Routing untyped =
      route_heads({}, routed, {}, sizes.tokens,
                  {.heads = sizes.heads, .num_shared = 0, .top_k = sizes.kept, .groups = sizes.groups});
  CHECK(untyped.statistics.slice(0, 1).to(kCpu).item() == 0);
  const Routing given =
      route_heads({}, routed, types, sizes.tokens, options, {}, c.top.to(device));  // not the logits' choice
  CHECK(given.statistics.slice(1, 2).to(kCpu).item() == 0);
}

}  // namespace moh::test

// Routing::statistics: how the router decides, on average over the tokens.

#include <catch2/catch.hpp>

#include "ops/moh/head_router.h"
#include "tests/ops/router_statistics_case.h"

using namespace moh;
using namespace moh::test;

TEST_CASE("moh: weights of the two-stage router and margins of the selection are means over the tokens") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const RouterStatisticsSizes& sizes : kRouterStatisticsSizes)
      check_router_statistics(sizes, dtype, kCpu);
  }
}

TEST_CASE("moh: the margin is that over the first head that is refused, also where logits are equal") {
  const Tensor z = tensor_of<float>({3, 4}, {0, 3, 1, 2, 5, 5, 5, 4, 1, 1, 1, 1});
  const Routing r = route_heads({}, Variable(z), {}, 3, {.heads = 4, .num_shared = 0, .top_k = 2});
  CHECK(r.statistics.slice(1, 2).item() == Approx(1.0 / 3));  // 2 - 1, 5 - 5, 1 - 1
}

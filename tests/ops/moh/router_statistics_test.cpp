#include "ops/moh/router_statistics.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/router_statistics_case.h"

using namespace moh;
using namespace moh::test;

TEST_CASE("ops: weights of the two-stage router and margins of the selection are means over the tokens") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const RouterStatisticsSizes& sizes : kRouterStatisticsSizes) {
      INFO(sizes.tokens << " tokens, " << sizes.kept << " of " << sizes.heads << " heads, " << sizes.groups
                        << " groups");
      const RouterStatisticsCase c = router_statistics_case(sizes, dtype);
      const Tensor found = router_statistics(c.routed, c.types, c.top, sizes.groups).to(DType::kFloat64);
      CHECK(found.data<double>()[0] == Approx(c.weight).epsilon(1e-5));
      CHECK(found.data<double>()[1] == Approx(c.margin).epsilon(1e-5));
      CHECK(router_statistics(Tensor(), c.types, Tensor()).slice(1, 2).item() == 0);
      CHECK(router_statistics(c.routed, Tensor(), c.top, sizes.groups).slice(0, 1).item() == 0);
    }
  }
}

TEST_CASE("ops: the margin is that over the first head that is refused, also where logits are equal") {
  const Tensor z = tensor_of<float>({3, 4}, {0, 3, 1, 2, 5, 5, 5, 4, 1, 1, 1, 1});
  const Tensor top = tensor_of<std::int32_t>({3, 2}, {1, 3, 0, 1, 0, 1});
  CHECK(router_statistics(z, Tensor(), top).slice(1, 2).item() == Approx(1.0 / 3));  // 2 - 1, 5 - 5, 1 - 1
}

TEST_CASE("ops: router statistics refuse what does not fit") {
  const Tensor z = normal({3, 4}), top = full({3, 2}, 0, DType::kInt32);
  CHECK_THROWS_AS(router_statistics(Tensor(), Tensor(), Tensor()), ValueError);
  CHECK_THROWS_AS(router_statistics(z, normal({3, 3}), top), ShapeError);
  CHECK_THROWS_AS(router_statistics(z, Tensor(), full({2, 2}, 0, DType::kInt32)), ShapeError);
  CHECK_THROWS_AS(router_statistics(z, normal({3, 2}).to(DType::kFloat32), top), DTypeError);
  CHECK_THROWS_WITH(router_statistics(z, Tensor(), top, 3),
                    "router_statistics: groups: expected a divisor of E and K, found 3");
  CHECK_THROWS_WITH(router_statistics(z, Tensor(), Tensor()),
                    "router_statistics: top: expected the kept heads of routed_logits, found none");
}

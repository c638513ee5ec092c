#include "ops/moh/head_slots.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/error.h"

using namespace moh;

namespace {

std::vector<std::int32_t> slots_of(const std::vector<std::uint8_t>& selected, std::int64_t groups,
                                   std::int64_t per_group) {
  const auto heads = static_cast<std::int64_t>(selected.size());
  const Tensor slots = head_slots(tensor_of<std::uint8_t>({1, 1, heads}, selected), groups, per_group);
  REQUIRE(slots.shape() == Shape{1, 1, groups, per_group});
  const auto numbers = slots.span<std::int32_t>();
  return {numbers.begin(), numbers.end()};
}

}  // namespace

TEST_CASE("ops: slots are the selected heads of each group, ascending") {
  CHECK(slots_of({0, 1, 1, 0, 1, 0, 0, 1}, 2, 2) == std::vector<std::int32_t>{1, 2, 4, 7});
  CHECK(slots_of({0, 1, 1, 0, 0, 1}, 3, 1) == std::vector<std::int32_t>{1, 2, 5});
  CHECK(slots_of({1, 1, 1, 1}, 2, 2) == std::vector<std::int32_t>{0, 1, 2, 3});
  CHECK(slots_of({1, 0, 1, 1, 0, 0}, 1, 3) == std::vector<std::int32_t>{0, 2, 3});
}

TEST_CASE("ops: where a group has too few selected heads, its lowest others fill the slots") {
  CHECK(slots_of({0, 0, 0, 1, 0, 1, 1, 0}, 2, 2) == std::vector<std::int32_t>{0, 3, 5, 6});
  CHECK(slots_of({0, 0, 0, 0}, 2, 1) == std::vector<std::int32_t>{0, 2});
}

TEST_CASE("ops: slots refuse what does not fit") {
  const Tensor selected = full({2, 3, 4}, 1, DType::kUInt8);
  CHECK_THROWS_WITH(head_slots(selected, 2, 1),
                    "head_slots: selected: expected 1 heads of each group at most, found 2");
  CHECK_THROWS_WITH(head_slots(selected, 3, 1),
                    "head_slots: groups: expected a divisor of the 4 heads, found 3");
  CHECK_THROWS_AS(head_slots(selected, 2, 3), ValueError);
  CHECK_THROWS_AS(head_slots(selected, 2, 0), ValueError);
  CHECK_THROWS_AS(head_slots(full({2, 4}, 1, DType::kUInt8), 2, 1), ShapeError);
  CHECK_THROWS_AS(head_slots(full({2, 3, 4}, 1, DType::kInt32), 2, 1), DTypeError);
  CHECK(head_slots(empty({2, 0, 4}, DType::kUInt8), 2, 1).shape() == Shape{2, 0, 2, 1});
}

#include "ops/attention/head_lists.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/tensor.h"

using namespace moh;

namespace {

std::int32_t row(std::int32_t position, std::int32_t local_head) {
  return position | local_head << 20;
}

}  // namespace

TEST_CASE("ops: head lists hold the selected pairs by position, then head") {
  // Two sequences of three tokens with four heads on two KV heads.
  const Tensor selected = tensor_of<std::uint8_t>({2, 3, 4}, {1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0,   0,  //
                                                              0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 255, 0});
  const HeadLists lists = build_head_lists(selected, 2);
  const auto offsets = lists.offsets.span<std::int64_t>();
  CHECK(std::vector<std::int64_t>(offsets.begin(), offsets.end()) ==
        std::vector<std::int64_t>{0, 3, 6, 6, 8});
  const auto rows = lists.rows.span<std::int32_t>();
  CHECK(std::vector<std::int32_t>(rows.begin(), rows.end()) ==
        std::vector<std::int32_t>{row(0, 0), row(2, 0), row(2, 1), row(0, 0), row(0, 1), row(1, 1), row(1, 0),
                                  row(2, 0)});
  CHECK(lists.num_rows() == 8);
  CHECK(lists.heads == 4);
  CHECK(lists.kv_heads == 2);
}

TEST_CASE("ops: head lists of nothing are empty") {
  CHECK(build_head_lists(zeros({2, 5, 4}, DType::kUInt8), 4).num_rows() == 0);
  CHECK(build_head_lists(zeros({0, 5, 4}, DType::kUInt8), 4).offsets.numel() == 1);
  CHECK(build_head_lists(zeros({3, 0, 4}, DType::kUInt8), 1).offsets.numel() == 4);
}

TEST_CASE("ops: head lists refuse what a row cannot hold") {
  CHECK_THROWS_WITH(
      build_head_lists(zeros({1, 1 << 20, 1}, DType::kUInt8), 1),
      "build_head_lists: tokens: expected fewer than 2^20 per sequence, found 1048576; split the "
      "sequence");
  const HeadLists longest = build_head_lists(full({1, (1 << 20) - 1, 1}, 1, DType::kUInt8), 1);
  CHECK(longest.rows.data<std::int32_t>()[(1 << 20) - 2] == (1 << 20) - 2);
  CHECK_THROWS_AS(build_head_lists(zeros({1, 1, 4096}, DType::kUInt8), 1), ValueError);
  CHECK_THROWS_AS(build_head_lists(zeros({1, 2, 4}, DType::kUInt8), 3), ShapeError);
  CHECK_THROWS_AS(build_head_lists(zeros({2, 4}, DType::kUInt8), 1), ShapeError);
  CHECK_THROWS_AS(build_head_lists(zeros({1, 2, 4}, DType::kInt32), 1), DTypeError);
}

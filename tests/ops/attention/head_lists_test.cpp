#include "ops/attention/head_lists.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/random.h"
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

TEST_CASE("ops: head lists of any sizes hold what a plain loop finds") {
  struct Heads {
    std::int64_t heads, kv_heads;
  };
  for (const auto& [heads, kv_heads] :
       {Heads{1, 1}, {3, 3}, {12, 12}, {17, 17}, {6, 3}, {16, 4}, {24, 2}, {70, 1}, {130, 1}}) {
    for (const std::int64_t tokens : {1, 9, 64, 133}) {
      const std::int64_t batch = 2, group = heads / kv_heads;
      const Tensor selected = empty({batch, tokens, heads}, DType::kUInt8);
      auto* const bytes = selected.data<std::uint8_t>();
      for (std::int64_t i = 0; i < selected.numel(); ++i) {
        const std::uint64_t random = random_below({1, 2}, static_cast<std::uint64_t>(i), 512);
        bytes[i] = random < 256 ? static_cast<std::uint8_t>(random) : 0;  // any number but 0 selects
      }
      std::vector<std::int32_t> rows;
      std::vector<std::int64_t> offsets = {0};
      for (std::int64_t l = 0; l < batch * kv_heads; ++l) {
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (std::int64_t h = 0; h < group; ++h) {
            if (bytes[(l / kv_heads * tokens + t) * heads + l % kv_heads * group + h] != 0)
              rows.push_back(row(static_cast<std::int32_t>(t), static_cast<std::int32_t>(h)));
          }
        }
        offsets.push_back(static_cast<std::int64_t>(rows.size()));
      }
      const HeadLists lists = build_head_lists(selected, kv_heads);
      INFO(heads << " heads, " << kv_heads << " KV heads, " << tokens << " tokens");
      CHECK(std::ranges::equal(lists.offsets.span<std::int64_t>(), offsets));
      CHECK(std::ranges::equal(lists.rows.span<std::int32_t>(), rows));
    }
  }
}

TEST_CASE("ops: head lists of nothing are empty") {
  CHECK(build_head_lists(zeros({2, 5, 0}, DType::kUInt8), 1).offsets.numel() == 3);
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

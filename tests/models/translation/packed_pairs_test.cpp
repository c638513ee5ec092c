#include "models/translation/packed_pairs.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/error.h"

using namespace moh;

namespace {

template <class T>
std::vector<T> numbers(const Tensor& tensor) {
  return {tensor.data<T>(), tensor.data<T>() + tensor.numel()};
}

using Ids = std::vector<std::int64_t>;
using Ranges = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("packed pairs: tokens, places and ranges of keys of sentences one after the other") {
  const std::vector<std::int32_t> sources[] = {{5, 6, 2}, {2}}, targets[] = {{1, 7}, {1, 8, 9}};
  const std::vector<SentencePair> pairs = {{sources[0], targets[0]}, {sources[1], targets[1]}};
  const PackedPairs packed = pack_pairs(pairs);
  CHECK(numbers<std::int64_t>(packed.source) == Ids{5, 6, 2, 2});
  CHECK(numbers<std::int64_t>(packed.target) == Ids{1, 7, 1, 8, 9});
  CHECK(numbers<std::int64_t>(packed.source_positions) == Ids{0, 1, 2, 0});
  CHECK(numbers<std::int64_t>(packed.target_positions) == Ids{0, 1, 0, 1, 2});
  CHECK(numbers<std::int32_t>(packed.source_starts) == Ranges{0, 0, 0, 3});
  CHECK(numbers<std::int32_t>(packed.source_ends) == Ranges{3, 3, 3, 4});
  CHECK(numbers<std::int32_t>(packed.target_starts) == Ranges{0, 0, 2, 2, 2});
  CHECK(numbers<std::int32_t>(packed.memory_starts) == Ranges{0, 0, 3, 3, 3});
  CHECK(numbers<std::int32_t>(packed.memory_ends) == Ranges{3, 3, 4, 4, 4});
  CHECK(packed.source_starts.shape() == Shape{1, 4});
  CHECK(packed.memory_ends.shape() == Shape{1, 5});
  CHECK(packed.longest_source == 3);
  CHECK(packed.longest_target == 3);
  CHECK(packed.mean_source == (3 * 3 + 1 * 1) / 4.0);
  CHECK(packed.mean_target == (1 + 2 + 1 + 2 + 3) / 5.0);
  CHECK(packed.mean_memory == (2 * 3 + 3 * 1) / 5.0);
  CHECK(packed.to(kCpu).target.shares_storage_with(packed.target));
}

TEST_CASE("packed pairs: sources by themselves have no targets") {
  const PackedPairs packed = pack_sources(tensor_of<std::int64_t>({3}, {4, 2, 2}), Ids{2, 1});
  CHECK(numbers<std::int32_t>(packed.source_ends) == Ranges{2, 2, 3});
  CHECK(!packed.target.defined());
  CHECK(!packed.to(kCpu).target.defined());
}

TEST_CASE("packed pairs: sentences without a token, and lengths of other tokens, are refused") {
  const std::vector<std::int32_t> some = {1, 2};
  CHECK_THROWS_WITH(pack_pairs({}), "translation: target: expected one sentence or more, found none");
  const std::vector<SentencePair> no_source = {{some, some}, {{}, some}}, no_target = {{some, {}}};
  CHECK_THROWS_WITH(pack_pairs(no_source),
                    "translation: source: expected sentences of one token or more, found 0 in sentence 1");
  CHECK_THROWS_WITH(pack_pairs(no_target),
                    "translation: target: expected sentences of one token or more, found 0 in sentence 0");
  CHECK_THROWS_AS(pack_sources(tensor_of<std::int64_t>({3}, {4, 2, 2}), Ids{2, 2}), ShapeError);
}

#include "ops/attention/cache_append.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Appends `tokens` tokens at `length` and looks at every element of the cache, by the definition.
template <class T>
void check_append(const Shape& tokens, std::int64_t capacity, std::int64_t length) {
  const std::int64_t count = tokens[1], heads = tokens[2], d = tokens[3];
  INFO(to_string(tokens) << " at " << length << " of " << capacity << ", " << dtype_name(dtype_of<T>()));
  const Tensor k = normal(tokens, 1).to(dtype_of<T>()), v = normal(tokens, 2).to(dtype_of<T>());
  const Shape shape{tokens[0], heads, capacity, d};
  const Tensor k_before = normal(shape, 3).to(dtype_of<T>()), v_before = normal(shape, 4).to(dtype_of<T>());
  const Tensor k_cache = k_before.clone(), v_cache = v_before.clone();
  append_to_cache(k, v, k_cache, v_cache, length);
  bool right = true;
  for (std::int64_t i = 0; i < k_cache.numel(); ++i) {
    const std::int64_t c = i % d, t = i / d % capacity - length, head = i / d / capacity % heads;
    const std::int64_t b = i / d / capacity / heads;
    const bool is_new = t >= 0 && t < count;
    const std::int64_t from = is_new ? ((b * count + t) * heads + head) * d + c : i;
    const auto same = [&](const Tensor& cache, const Tensor& x) {
      return cache.data<T>()[i] == x.data<T>()[from];
    };
    right = right && same(k_cache, is_new ? k : k_before) && same(v_cache, is_new ? v : v_before);
  }
  CHECK(right);
}

}  // namespace

TEST_CASE("ops: tokens are appended to the rows of their heads, and nothing else changes", "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    for (const std::int64_t length : {0, 1, 5}) {
      check_append<float>({2, 3, 4, 8}, 8, length);
      check_append<bfloat16>({3, 1, 2, 5}, 6, length);
      check_append<double>({1, 2, 1, 1}, 9, length);
    }
  }
  check_append<float>({2, 4, 3, 8}, 4, 0);        // full at once
  check_append<float>({2, 0, 3, 8}, 4, 4);        // nothing, to a full cache
  check_append<float>({0, 1, 3, 8}, 4, 0);        // no sequence
  check_append<float>({1, 300, 16, 64}, 301, 1);  // a prompt, by several threads
}

TEST_CASE("ops: what does not fit into a cache is refused, and the cache is as it was") {
  const Tensor k = normal({1, 2, 3, 8}), cache = normal({1, 3, 6, 8}, 5), before = cache.clone();
  CHECK_THROWS_WITH(append_to_cache(k, k, cache, cache, 5),
                    "append_to_cache: tokens: expected at most the capacity of 6, found 7");
  CHECK_THROWS_AS(append_to_cache(k, k, cache, cache, -1), ShapeError);
  CHECK_THROWS_AS(append_to_cache(k, normal({1, 1, 3, 8}), cache, cache, 0), ShapeError);
  CHECK_THROWS_AS(append_to_cache(k, k, normal({1, 6, 3, 8}), cache, 0), ShapeError);
  CHECK_THROWS_AS(append_to_cache(k, k, cache, normal({1, 3, 7, 8}), 0), ShapeError);
  CHECK_THROWS_AS(append_to_cache(k, k, cache, cache.to(DType::kFloat32), 0), DTypeError);
  CHECK(std::memcmp(cache.raw(), before.raw(), cache.bytes()) == 0);
}

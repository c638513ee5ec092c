#include "ops/attention/decode.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/attention/reference.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kSpare = 3;  // tokens of capacity behind the filled ones

/// A cache [B, G, capacity, d] with room for more; what is not filled is NaN, so that reading it shows.
Tensor cache_of(const Tensor& x) {
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), heads = x.dim(2), d = x.dim(3);
  const std::int64_t capacity = tokens + kSpare;
  Tensor cache = full({batch, heads, capacity, d}, std::nan(""), x.dtype());
  for (std::int64_t row = 0; row < batch * tokens * heads; ++row) {
    const std::int64_t b = row / heads / tokens, t = row / heads % tokens, head = row % heads;
    std::copy_n(x.data<double>() + row * d, d,
                cache.data<double>() + ((b * heads + head) * capacity + t) * d);
  }
  return cache;
}

Tensor decode(const AttentionInputs& in, const AttentionOptions& mask, DType dtype) {
  const Tensor k = cache_of(in.k).to(dtype), v = cache_of(in.v).to(dtype);
  const HeadLists lists = in.gates.defined() ? build_head_lists(in.selected, in.k.dim(2)) : HeadLists{};
  return attention_decode(in.q.to(dtype), k, v, in.k.dim(1), in.gates, lists, mask);
}
Tensor decode(const AttentionInputs& in, bool causal, DType dtype) {
  return decode(in, AttentionOptions{.causal = causal}, dtype);
}

AttentionInputs rounded(AttentionInputs in, DType dtype) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) *x = x->to(dtype).to(DType::kFloat64);
  return in;
}

void check_decode(const AttentionSizes& sizes, double share, const AttentionOptions& mask, DType dtype,
                  double tolerance) {
  const AttentionInputs in = rounded(attention_inputs(sizes, share), dtype);
  AttentionOptions options = mask;
  options.query_offset = sizes.keys - sizes.queries;
  const Tensor expected = reference_attention(in, options, zeros_like(in.q)).out;
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    INFO(sizes.queries << " queries, " << sizes.keys << " keys, width " << sizes.head_dim << ", share "
                       << share << ", window " << mask.window << ", " << dtype_name(dtype) << ", "
                       << cpu_isa_name(isa));
    const Tensor found = decode(in, mask, dtype).to(DType::kFloat64);
    double worst = 0;
    for (std::int64_t i = 0; i < found.numel(); ++i) {
      const double error = std::abs(found.data<double>()[i] - expected.data<double>()[i]);
      worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
    }
    CHECK(worst <= tolerance);
  }
}

// One query and several, either side of the switch to the kernel of training; parts that end with the keys,
// one before and one after; grouped heads.
const std::vector<AttentionSizes> decode_sizes = {
    {2, 1, 1, 2, 2, 8},    {1, 1, 65, 4, 2, 64},  {2, 3, 3, 2, 1, 24},   {1, 1, 512, 2, 2, 5},
    {1, 4, 513, 2, 1, 40}, {1, 7, 1030, 1, 1, 1}, {1, 9, 130, 4, 2, 72}, {3, 0, 4, 2, 2, 8},
};

}  // namespace

TEST_CASE("ops: decoding agrees with plain loops", "[every_isa]") {
  for (const AttentionSizes& sizes : decode_sizes) {
    for (double share : {-1.0, 0.0, 0.5}) {
      for (const AttentionOptions& mask :
           {AttentionOptions{}, {.causal = false}, {.window = 1}, {.window = 60}, {.window = 512}}) {
        // Outputs are means of values of magnitude about 3.
        check_decode(sizes, share, mask, DType::kFloat64, 1e-12);
        check_decode(sizes, share, mask, DType::kFloat32, 8e-6);
        check_decode(sizes, share, mask, DType::kBFloat16, 3 * 1.8 * 0x1p-8);
      }
    }
  }
}

TEST_CASE("ops: decoding has the same bits with any number of threads") {
  const AttentionInputs in = attention_inputs({2, 1, 2000, 4, 2, 32}, 0.7);
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor one = decode(in, true, DType::kFloat32);
  for (int count : {2, 5}) {
    set_num_threads(count);
    const Tensor many = decode(in, true, DType::kFloat32);
    CHECK(std::memcmp(one.raw(), many.raw(), one.bytes()) == 0);
  }
  set_num_threads(threads);
}

TEST_CASE("ops: decoding reads only the KV heads of selected heads") {
  for (std::int64_t queries : {1, 9}) {
    const AttentionInputs in = attention_inputs({1, queries, 100, 4, 2, 8}, 1.0);
    for (std::int64_t i = 0; i < in.selected.numel(); ++i) {
      in.selected.data<std::uint8_t>()[i] = i % 4 >= 2;  // the heads of KV head 1
    }
    for (const Tensor& x : {in.k, in.v}) {  // KV head 0 would poison whatever reads it
      for (std::int64_t row = 0; row < 200; row += 2) {
        std::fill_n(x.data<double>() + row * 8, 8, std::numeric_limits<double>::quiet_NaN());
      }
    }
    CHECK(decode(in, true, DType::kFloat32).all_finite());
  }
}

TEST_CASE("ops: decoding reads no keys before the window") {
  constexpr std::int64_t kKeys = 1300, kWindow = 70;
  for (std::int64_t queries : {1, 3, 9}) {
    INFO(queries << " queries");
    const AttentionInputs in = attention_inputs({1, queries, kKeys, 2, 1, 8}, -1);
    const Tensor expected = decode(in, {.window = kWindow}, DType::kFloat32);
    const std::int64_t first = kKeys - queries + 1 - kWindow;  // key of the first query
    for (const Tensor& x : {in.k, in.v})
      std::fill_n(x.data<double>(), first * 8, std::numeric_limits<double>::quiet_NaN());
    const Tensor found = decode(in, {.window = kWindow}, DType::kFloat32);
    CHECK(std::memcmp(found.raw(), expected.raw(), expected.bytes()) == 0);
  }
}

TEST_CASE("ops: decoding refuses what does not fit") {
  const Tensor q = normal({1, 2, 4, 8}), cache = normal({1, 2, 6, 8});
  CHECK_THROWS_WITH(
      attention_decode(q, cache, cache, 7, {}, {}, {}),
      "attention_decode: num_keys: expected at least the 2 queries, at most the capacity of 6, found 7");
  CHECK_THROWS_AS(attention_decode(q, cache, cache, 1, {}, {}, {}), ShapeError);
  CHECK_THROWS_AS(attention_decode(q, cache, normal({1, 2, 5, 8}), 5, {}, {}, {}), ShapeError);
  CHECK_THROWS_AS(attention_decode(q, cache.to(DType::kFloat32), cache, 5, {}, {}, {}), DTypeError);
  CHECK_THROWS_WITH(attention_decode(q, cache, cache, 5, normal({1, 2, 4}), {}, {}),
                    "attention_decode: gates and lists: expected both or none, found gates alone");
  const HeadLists of_one_token = build_head_lists(full({1, 1, 4}, 1, DType::kUInt8), 2);
  CHECK_THROWS_AS(attention_decode(q, cache, cache, 5, {}, of_one_token, {}), ShapeError);
  CHECK_THROWS_WITH(attention_decode(q, cache, cache, 5, normal({1, 2, 4}), of_one_token, {}),
                    Catch::Contains("lists: batch, tokens, heads, KV heads: expected [1, 2, 4, 2]"));
  CHECK_THROWS_AS(attention_decode(q, cache, cache, 5, {}, {}, {.query_offset = 1}), ValueError);
  CHECK_THROWS_WITH(attention_decode(q, cache, cache, 5, {}, {}, {.dropout = 0.5}),
                    "attention_decode: dropout: expected none: it is for training, found 0.500000");
  const Tensor ones = full({1, 2}, 1, DType::kInt32);
  for (const AttentionOptions& mask : {AttentionOptions{.document_starts = ones},
                                       AttentionOptions{.causal = false, .document_ends = ones}}) {
    CHECK_THROWS_WITH(
        attention_decode(q, cache, cache, 5, {}, {}, mask),
        "attention_decode: documents: expected none: a cache holds one document, found a tensor");
  }
}

#include <cstring>

#include "core/random.h"
#include "ops/attention/cache_append.h"
#include "ops/attention/decode.h"
#include "ops/attention/head_lists.h"
#include "ops/moh/head_router.h"
#include "ops/moh/query_norm.h"
#include "ops/moh/scale_heads.h"
#include "train/bench/op_cases/families.h"
#include "train/bench/op_cases/parts.h"

namespace moh::op_cases {

namespace {

constexpr std::int64_t kShared = 2, kRouted = kHeads - kShared, kKept = 6;  // half the heads are on
constexpr std::int64_t kTokens = 2048;                                      // of a sequence

Tensor random_heads(Placement placement, std::int64_t bytes) {
  return random_tensor({count_for(placement.dtype, bytes, kHeads * kHeadDim), kHeads, kHeadDim}, placement,
                       1);
}

StreamingCase make_query_norm(Placement placement, std::int64_t bytes) {
  const Tensor q = random_heads(placement, bytes);
  const Tensor d_logits =
      random_tensor({q.dim(0), kRouted}, {accumulate_dtype(placement.dtype), placement.device}, 2);
  return {.shape = to_string(q.shape()),
          .forward_bytes = bytes_of(q) + bytes_of(d_logits),
          .backward_bytes = 2 * bytes_of(q) + bytes_of(d_logits),
          .forward = [=] { return std::vector{query_norm_logits(input(q), kShared)}; },
          .seeds = {d_logits}};
}

StreamingCase make_scale_heads(Placement placement, std::int64_t bytes) {
  const Tensor x = random_heads(placement, bytes);
  const Tensor scales = full({kHeads}, 0.5, placement.dtype, placement.device);
  return {.shape = to_string(x.shape()),
          .forward_bytes = 2 * bytes_of(x),
          .backward_bytes = 3 * bytes_of(x),
          .forward = [=] { return std::vector{scale_heads(input(x), input(scales))}; },
          .seeds = {random_tensor(x.shape(), placement, 2)}};
}

/// The router is float32 in every precision. Forward reads the logits and writes the probabilities of the
/// routed heads, the choice, gates, and selection; backward reads the probabilities of all kinds, the choice
/// and the gates' gradients, and writes those of the logits.
StreamingCase make_route_heads(Placement placement, std::int64_t bytes) {
  const Placement single(DType::kFloat32, placement.device);
  const std::int64_t tokens = count_for(DType::kFloat32, bytes, kHeads);
  const Tensor shared = random_tensor({tokens, kShared}, single, 1),
               routed = random_tensor({tokens, kRouted}, single, 2);
  const Tensor kinds = random_tensor({tokens, 2}, single, 3),
               d_gates = random_tensor({tokens, kHeads}, single, 4);
  const RouterOptions options{.heads = kHeads, .num_shared = kShared, .top_k = kKept};
  const double logits = bytes_of(shared) + bytes_of(routed) + bytes_of(kinds);
  const double choice = static_cast<double>(tokens * kKept) * sizeof(std::int32_t);
  const double selection = static_cast<double>(tokens * kHeads);
  return {.shape = to_string(d_gates.shape()),
          .forward_bytes = logits + bytes_of(routed) + choice + bytes_of(d_gates) + selection,
          .backward_bytes = 2 * logits + choice + bytes_of(d_gates),
          .forward =
              [=] {
                const Routing routing =
                    route_heads(input(shared), input(routed), input(kinds), tokens, options);
                return std::vector{routing.gates, routing.balance};
              },
          .seeds = {d_gates, full({}, 0.01, DType::kFloat32, placement.device)}};
}

/// Every sequence selects the same random half of its pairs. The lists are twice as large as the selection.
StreamingCase make_head_lists(Placement placement, std::int64_t bytes) {
  const std::int64_t pairs = kTokens * kHeads, batch = count_for(DType::kInt32, bytes, pairs / 2);
  const Tensor selected = empty({batch, kTokens, kHeads}, DType::kUInt8);
  auto* const to = selected.data<std::uint8_t>();
  double chosen = 0;
  for (std::int64_t i = 0; i < pairs; ++i)
    chosen += to[i] = random_uniform({1, 5}, static_cast<std::uint64_t>(i)) < 0.5F;
  for (std::int64_t b = 1; b < batch; ++b) std::memcpy(to + b * pairs, to, static_cast<std::size_t>(pairs));
  return {.shape = to_string(selected.shape()),
          .forward_bytes = bytes_of(selected) + static_cast<double>(batch) * chosen * sizeof(std::int32_t),
          .forward = [on_device = selected.to(placement.device)] {
            build_head_lists(on_device, kHeads);
            return std::vector<Variable>();
          }};
}

/// Keys and values of a prompt are read and written behind what is there.
StreamingCase make_append(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kLength = 7;
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor k = random_tensor({1, tokens, kHeads, kHeadDim}, placement, 1),
               v = random_tensor(k.shape(), placement, 2);
  const Tensor k_cache = zeros({1, kHeads, kLength + tokens, kHeadDim}, placement.dtype, placement.device);
  const Tensor v_cache = zeros(k_cache.shape(), placement.dtype, placement.device);
  return {.shape = to_string(k.shape()), .forward_bytes = 4 * bytes_of(k), .forward = [=] {
            append_to_cache(k, v, k_cache, v_cache, kLength);
            return std::vector<Variable>();
          }};
}

/// One token of 8 sequences with all heads on: the cache is read once.
StreamingCase make_decode(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kBatch = 8;
  const std::int64_t keys = count_for(placement.dtype, bytes, kBatch * kHeads * kHeadDim);
  const Tensor k = random_tensor({kBatch, kHeads, keys, kHeadDim}, placement, 1),
               v = random_tensor(k.shape(), placement, 2);
  const Tensor q = random_tensor({kBatch, 1, kHeads, kHeadDim}, placement, 3);
  return {.shape = to_string(k.shape()), .forward_bytes = 2 * bytes_of(k), .forward = [=] {
            attention_decode(q, k, v, keys, {}, {}, {});
            return std::vector<Variable>();
          }};
}

}  // namespace

std::vector<StreamingFamily> of_heads() {
  return {family("query_norm_logits", make_query_norm), family("route_heads", make_route_heads),
          family("build_head_lists", make_head_lists),  family("scale_heads", make_scale_heads),
          family("append_to_cache", make_append),       family("attention_decode", make_decode)};
}

}  // namespace moh::op_cases

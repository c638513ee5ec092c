#include <cstring>

#include "core/random.h"
#include "ops/attention/cache_append.h"
#include "ops/attention/decode.h"
#include "ops/attention/head_lists.h"
#include "ops/moh/gather_heads.h"
#include "ops/moh/head_router.h"
#include "ops/moh/head_sequences.h"
#include "ops/moh/mix_experts.h"
#include "ops/moh/query_norm.h"
#include "ops/moh/scale_heads.h"
#include "ops/moh/sigmoid_gate.h"
#include "ops/moh/sigmoid_top_k.h"
#include "ops/shape/reshape.h"
#include "train/apps/bench/op_cases.h"

namespace moh::op_cases {

namespace {

constexpr std::int64_t kShared = 2, kRouted = kHeads - kShared, kKept = 6;  // half of them active
constexpr std::int64_t kSequenceTokens = 2048;                              // per sequence

StreamingCase make_query_norm(Placement placement, std::int64_t bytes) {
  const Tensor q = random_items({kHeads, kHeadDim}, placement, bytes);
  const double logits =
      static_cast<double>(q.dim(0) * kRouted) * static_cast<double>(dtype_size(accumulate_dtype(q.dtype())));
  return {to_string(q.shape()), bytes_of(q) + logits, 2 * bytes_of(q) + logits,
          [=] { return query_norm_logits(input(q), kShared); }};
}

/// Routing is float32 whatever the dtype. Forward reads the logits and writes the probabilities of the routed
/// heads, their indices in order, the gates and the selection; backward reads all probabilities, the indices
/// and the gradient of the gates, and writes the gradient of the logits.
StreamingCase make_route_heads(Placement placement, std::int64_t bytes) {
  const Placement single(DType::kFloat32, placement.device);
  const std::int64_t tokens = count_for(DType::kFloat32, bytes, kHeads);
  const Tensor shared = random_tensor({tokens, kShared}, single, 1),
               routed = random_tensor({tokens, kRouted}, single, 2);
  const Tensor kinds = random_tensor({tokens, 2}, single, 3);
  const RouterOptions options{.heads = kHeads, .num_shared = kShared, .top_k = kKept};
  const double logits = bytes_of(shared) + bytes_of(routed) + bytes_of(kinds);
  const double choice = static_cast<double>(tokens * kKept) * sizeof(std::int32_t);
  const double gates = static_cast<double>(tokens * kHeads) * sizeof(float);
  const double selection = static_cast<double>(tokens * kHeads);
  return {to_string(Shape{tokens, kHeads}), logits + bytes_of(routed) + choice + gates + selection,
          2 * logits + choice + gates, [=] {
            const Routing routing = route_heads(input(shared), input(routed), input(kinds), tokens, options);
            return std::vector{routing.gates, routing.balance};
          }};
}

/// Every sequence selects the same random half of its (token, head) pairs. The lists take twice the memory of
/// the selection.
StreamingCase make_head_lists(Placement placement, std::int64_t bytes) {
  const std::int64_t pairs = kSequenceTokens * kHeads, batch = count_for(DType::kInt32, bytes, pairs / 2);
  const Tensor selected = empty({batch, kSequenceTokens, kHeads}, DType::kUInt8);
  auto* const to = selected.data<std::uint8_t>();
  double chosen = 0;
  for (std::int64_t i = 0; i < pairs; ++i)
    chosen += to[i] = random_uniform({1, 5}, static_cast<std::uint64_t>(i)) < 0.5F;
  for (std::int64_t b = 1; b < batch; ++b) std::memcpy(to + b * pairs, to, static_cast<std::size_t>(pairs));
  const double lists = static_cast<double>(batch) * chosen * sizeof(std::int32_t);
  return {to_string(selected.shape()), bytes_of(selected) + lists, 0,
          [on_device = selected.to(placement.device)] { build_head_lists(on_device, kHeads); }};
}

/// Reads the keys and values of a prompt and writes them to a cache that already has kLength tokens.
StreamingCase make_append(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kLength = 7;
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor k = random_tensor({1, tokens, kHeads, kHeadDim}, placement, 1),
               v = random_tensor(k.shape(), placement, 2);
  const Tensor k_cache = zeros({1, kHeads, kLength + tokens, kHeadDim}, placement.dtype, placement.device);
  const Tensor v_cache = zeros(k_cache.shape(), placement.dtype, placement.device);
  return {to_string(k.shape()), 4 * bytes_of(k), 0,
          [=] { append_to_cache(k, v, k_cache, v_cache, kLength); }};
}

/// Decodes one token of each of 8 sequences with all heads active: the cache is read once.
StreamingCase make_decode(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kBatch = 8;
  const std::int64_t keys = count_for(placement.dtype, bytes, kBatch * kHeads * kHeadDim);
  const Tensor k = random_tensor({kBatch, kHeads, keys, kHeadDim}, placement, 1),
               v = random_tensor(k.shape(), placement, 2);
  const Tensor q = random_tensor({kBatch, 1, kHeads, kHeadDim}, placement, 3);
  return {to_string(k.shape()), 2 * bytes_of(k), 0, [=] { attention_decode(q, k, v, keys, {}, {}, {}); }};
}

constexpr std::int64_t kSlotGroups = kHeads / 2;  // of two heads, of which a token computes one

/// Slots of a random head of each group, [1, T, kSlotGroups, 1].
Tensor some_slots(std::int64_t tokens, Device device) {
  const Tensor slots = empty({1, tokens, kSlotGroups, 1}, DType::kInt32);
  for (std::int64_t i = 0; i < slots.numel(); ++i)
    slots.data<std::int32_t>()[i] = static_cast<std::int32_t>(
        2 * (i % kSlotGroups) + (random_uniform({1, 6}, static_cast<std::uint64_t>(i)) < 0.5F));
  return slots.to(device);
}

/// Forward reads and writes the queries of the slots; backward reads their gradients and writes those of all
/// heads.
StreamingCase make_gather(Placement placement, std::int64_t bytes) {
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor x = random_tensor({1, tokens, kHeads, kHeadDim}, placement, 1);
  const Tensor slots = some_slots(tokens, placement.device);
  const double of_slots = bytes_of(x) / 2 + bytes_of(slots);
  return {to_string(x.shape()), of_slots + bytes_of(x) / 2, of_slots + bytes_of(x),
          [=] { return gather_heads(input(x), slots); }};
}

/// Forward reads the outputs of the slots and writes those of all heads; backward reads the slots' outputs
/// and their gradients, and writes other gradients.
StreamingCase make_scatter(Placement placement, std::int64_t bytes) {
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor y = random_tensor({1, tokens, kSlotGroups, kHeadDim}, placement, 1);
  const Tensor gates = random_tensor({1, tokens, kHeads}, Placement(DType::kFloat32, placement.device), 2);
  const Tensor slots = some_slots(tokens, placement.device);
  const double factors = bytes_of(gates) + bytes_of(slots);
  return {to_string(y.shape()), 3 * bytes_of(y) + factors, 3 * bytes_of(y) + factors + bytes_of(gates),
          [=] { return scatter_heads(input(y), input(gates), slots); }};
}

/// Forward reads the outputs of the slots, and writes them with their sum; backward reads these gradients and
/// the outputs, and writes gradients.
StreamingCase make_append_sum(Placement placement, std::int64_t bytes) {
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor y = random_tensor({1, tokens, kSlotGroups, kHeadDim}, placement, 1);
  const Tensor gates = random_tensor({1, tokens, kHeads}, Placement(DType::kFloat32, placement.device), 2);
  const Tensor slots = some_slots(tokens, placement.device);
  const double with_sum = bytes_of(y) * (kSlotGroups + 1) / kSlotGroups,
               factors = bytes_of(gates) + bytes_of(slots);
  return {to_string(y.shape()), bytes_of(y) + with_sum + factors,
          2 * bytes_of(y) + with_sum + factors + bytes_of(gates),
          [=] { return append_slot_sum(input(y), input(gates), slots); }};
}

/// The pairs of random heads of each token, half of them, as sequences of the heads.
HeadSequences half_of_heads(std::int64_t tokens, Device device) {
  const Tensor selected = zeros({1, tokens, kHeads}, DType::kUInt8);
  for (std::int64_t i = 0; i < tokens * kSlotGroups; ++i)
    selected.data<std::uint8_t>()[2 * i + (random_uniform({1, 7}, static_cast<std::uint64_t>(i)) < 0.5F)] = 1;
  return head_sequences(build_head_lists(selected.to(device), kHeads, kSlotGroups));
}

/// Forward reads and writes the rows of the pairs; backward reads their gradients, and writes those of all
/// heads twice, zeros first.
StreamingCase make_gather_pairs(Placement placement, std::int64_t bytes) {
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor x = random_tensor({1, tokens, kHeads, kHeadDim}, placement, 1);
  const HeadSequences sequences = half_of_heads(tokens, placement.device);
  const double of_rows = bytes_of(x) / 2 + bytes_of(sequences.pairs);
  return {to_string(x.shape()), of_rows + bytes_of(x) / 2, of_rows + 1.5 * bytes_of(x),
          [=] { return gather_pairs(input(x), sequences); }};
}

/// Forward reads the rows and writes those of all heads, zeros first; backward reads rows and their
/// gradients, and writes other gradients.
StreamingCase make_scatter_pairs(Placement placement, std::int64_t bytes) {
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const HeadSequences sequences = half_of_heads(tokens, placement.device);
  const Tensor y = random_tensor({1, sequences.num_rows(), 1, kHeadDim}, placement, 1);
  const Tensor gates = random_tensor({1, tokens, kHeads}, Placement(DType::kFloat32, placement.device), 2);
  const double factors = bytes_of(gates) + bytes_of(sequences.pairs);
  return {to_string(y.shape()), 4 * bytes_of(y) + factors, 3 * bytes_of(y) + factors + bytes_of(gates),
          [=] { return scatter_pairs(input(y), input(gates), sequences); }};
}

/// A gate per head: forward reads x and writes y; backward reads dy and x, and writes dx.
StreamingCase make_head_gate(Placement placement, std::int64_t bytes) {
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor x = random_tensor({1, tokens, kHeads, kHeadDim}, placement, 1),
               logits = random_tensor({1, tokens, kHeads}, placement, 2);
  return {to_string(x.shape()), 2 * bytes_of(x) + bytes_of(logits), 3 * bytes_of(x) + 2 * bytes_of(logits),
          [=] { return sigmoid_gate(input(x), input(logits)); }};
}

constexpr std::int64_t kExperts = 4, kKeptExperts = 2;  // of a head

/// Gates of random logits, [1, T, kHeads], kExperts for each of kHeads / kExperts heads.
ExpertGates some_experts(std::int64_t tokens, Device device) {
  const Tensor logits = random_tensor({1, tokens, kHeads}, Placement(DType::kFloat32, device), 2);
  return sigmoid_top_k(Variable(logits), kExperts, kKeptExperts);
}

/// Gates are float32 whatever the dtype. Forward reads logits and writes gates and selection; backward reads
/// logits, selection and gradients, and writes other gradients.
StreamingCase make_top_k(Placement placement, std::int64_t bytes) {
  const Placement single(DType::kFloat32, placement.device);
  const Tensor z = random_tensor({count_for(DType::kFloat32, bytes, kHeads), kHeads}, single, 1);
  const auto selection = static_cast<double>(z.numel());
  return {to_string(z.shape()), 2 * bytes_of(z) + selection, 3 * bytes_of(z) + selection,
          [=] { return sigmoid_top_k(input(z), kExperts, kKeptExperts).gates; }};
}

/// Forward reads the selected half of the rows and writes those of the heads; backward reads both, and writes
/// the gradients of all rows.
StreamingCase make_mix(Placement placement, std::int64_t bytes) {
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor x = random_tensor({1, tokens, kHeads, kHeadDim}, placement, 1);
  const auto [gates, selected] = some_experts(tokens, placement.device);
  const double of_heads = bytes_of(x) / kExperts, factors = bytes_of(gates.value()) + bytes_of(selected);
  return {to_string(x.shape()), bytes_of(x) / 2 + of_heads + factors,
          1.5 * bytes_of(x) + of_heads + factors + bytes_of(gates.value()),
          [x, gates = gates.value(), selected = selected] {
            return mix_experts(input(x), input(gates), selected, kHeads / kExperts);
          }};
}

/// Forward reads the rows of the heads and writes those of all experts; backward reads the heads and the
/// selected half of the gradients, and writes those of the heads.
StreamingCase make_spread(Placement placement, std::int64_t bytes) {
  const std::int64_t tokens = count_for(placement.dtype, bytes, kHeads * kHeadDim);
  const Tensor x = random_tensor({1, tokens, kHeads / kExperts, kHeadDim}, placement, 1);
  const auto [gates, selected] = some_experts(tokens, placement.device);
  const double of_experts = bytes_of(x) * kExperts, factors = bytes_of(gates.value()) + bytes_of(selected);
  return {to_string(x.shape()), bytes_of(x) + of_experts + factors,
          2 * bytes_of(x) + of_experts / 2 + factors + bytes_of(gates.value()),
          [x, gates = gates.value(), selected = selected] {
            return spread_to_experts(input(x), input(gates), selected);
          }};
}

}  // namespace

std::vector<StreamingFamily> of_heads() {
  return {{"query_norm_logits", make_query_norm},
          {"route_heads", make_route_heads},
          {"build_head_lists", make_head_lists},
          alike("scale_heads", {kHeads, kHeadDim}, 1, 2, 3,
                [](const std::vector<Variable>& in) {
                  return scale_heads(in[0], input(full({kHeads}, 0.5, in[0].dtype(), in[0].device())));
                }),
          {"sigmoid_gate", make_head_gate},
          alike("sigmoid_gate_of_elements", {kHeads, kHeadDim}, 2, 3, 5,
                [](const std::vector<Variable>& in) {
                  const Shape& shape = in[1].shape();
                  return sigmoid_gate(in[0], reshape(in[1], {shape.numel() / (kHeads * kHeadDim), -1}));
                }),
          {"sigmoid_top_k", make_top_k},
          {"mix_experts", make_mix},
          {"spread_to_experts", make_spread},
          {"gather_heads", make_gather},
          {"scatter_heads", make_scatter},
          {"append_slot_sum", make_append_sum},
          {"gather_pairs", make_gather_pairs},
          {"scatter_pairs", make_scatter_pairs},
          {"append_to_cache", make_append},
          {"attention_decode", make_decode}};
}

}  // namespace moh::op_cases

#pragma once

#include "ops/attention/tensor_cores/rows.h"
#include "ops/dropout/dropout_mask_cuda.h"

// For kernel files only: the dropout mask of a warp's fragments of weights. A random counter is four
// neighbouring keys of a row. Lanes that hold its weights draw one counter each, and then exchange the bits:
// no counter is drawn twice.

namespace moh::tensor_cores {

/// Exchanges halves of eight groups of 4 bits with lane (own lane XOR `lanes`): the lower lane gets the bits
/// `low` of both, those of the other lane `shift` bits higher, and the upper lane the rest.
MOH_DEVICE std::uint32_t exchange_bits(std::uint32_t bits, int lanes, std::uint32_t low, int shift) {
  const std::uint32_t other = device::shuffle_xor(bits, lanes);
  return (lane_number() & lanes) == 0 ? (bits & low) | (other & low) << shift
                                      : (bits & ~low) | (other & ~low) >> shift;
}

/// Bit 4 j + k: whether word k of counter counter_of(j) keeps its weight, for j < kCounters.
template <int kCounters, class CounterOf>
MOH_DEVICE std::uint32_t draw_bits(const DropoutMask& mask, const CounterOf& counter_of) {
  static_assert(kCounters <= 8);
  const std::uint64_t stream = device_stream_of(mask);
  std::uint32_t bits = 0;
  MOH_ROLLED
  for (int j = 0; j < kCounters; ++j) {
    const auto words = philox(mask.seed, static_cast<std::uint64_t>(counter_of(j)), stream);
    MOH_UNROLL
    for (int k = 0; k < 4; ++k)
      bits |= static_cast<std::uint32_t>(words[static_cast<std::size_t>(k)] >= mask.threshold) << (4 * j + k);
  }
  return bits;
}

/// Bit 4 j + i: whether element (j, i) of a strip of rows, of the weights of kKeys keys from `first_key` on,
/// is kept. Two lanes hold the weights of a counter.
template <int kKeys>
MOH_DEVICE std::uint32_t kept_in_rows(const AttentionShape& shape, const List& list, const Place* places,
                                      int first_key) {
  const int row = fragment_row(lane_number() % 2 * 2);
  const std::int64_t first =
      (first_weight(shape, list, places[row].pair()) + first_key) / 4 + lane_number() % 4 / 2;
  const std::uint32_t drawn = draw_bits<kKeys / 8>(shape.dropout, [&](int j) { return first + 2 * j; });
  return exchange_bits(drawn, 1, 0x33333333U, 2);
}

/// Likewise of a strip of keys, from `first_key` on, with the kRows rows of `places`. Four lanes hold the
/// weights of a counter, one each, of two rows and of keys that lie 8 apart.
template <int kRows>
MOH_DEVICE std::uint32_t kept_in_keys(const AttentionShape& shape, const List& list, const Place* places,
                                      int first_key) {
  const int i = lane_number() / 4 % 4, key = first_key + lane_number() / 16 * 4 + i / 2 * 8;
  const std::uint32_t drawn = draw_bits<kRows / 8>(shape.dropout, [&](int j) {
    return (first_weight(shape, list, places[j * 8 + fragment_column(i)].pair()) + key) / 4;
  });
  return exchange_bits(exchange_bits(drawn, 4, 0x55555555U, 1), 8, 0x33333333U, 2);
}

/// The factor of element (j, i) of a strip, whose bits are `kept`.
MOH_DEVICE float kept_factor(std::uint32_t kept, int j, int i, float scale) {
  return (kept >> (4 * j + i) & 1U) != 0 ? scale : 0.0F;
}

}  // namespace moh::tensor_cores

#pragma once

#include <cstdint>

namespace moh {

/// A selection and its lists, in device memory; see HeadLists.
struct HeadListArgs {
  std::int64_t batch, tokens, heads, kv_heads;
  const std::uint8_t* selected;  ///< [B, T, H]
  std::int64_t* offsets;         ///< [B * kv_heads + 1]
  std::int32_t* rows;
  std::int64_t most_rows;  ///< capacity of `rows`; pairs beyond it are dropped and reported as a fault
  /// Pairs of each sequence, another number of which is a fault; -1: any number.
  std::int64_t of_sequence;
};

struct CudaHeadLists {
  static void fill(const HeadListArgs& args);
};

}  // namespace moh

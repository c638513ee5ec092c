#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Sizes of aggregated attention. `pairs` are queries and distant keys: tokens of an image, row by row,
/// against `pairs.keys` keys that all of them see; kv_heads is heads. In addition a query sees the keys of
/// the tokens in a square of side `window` around its own, those inside the image; 0: no such keys.
struct AggregatedShape {
  AttentionShape pairs;
  std::int64_t height = 0, width = 0, window = 0;
  std::int64_t kept_percent = 100;  ///< of the visible keys, those of the largest logits

  constexpr std::int64_t neighbours() const { return window * window; }
  /// Row length of what there is for each neighbour: whole vectors of any instruction set.
  std::int64_t padded_neighbours() const { return (neighbours() + 15) / 16 * 16; }
  /// Number of ways in which the window can overlap the image's borders, for each side 0 to window / 2.
  std::int64_t places() const {
    const std::int64_t sides = window / 2 + 1;
    return sides * sides * sides * sides;
  }
};

/// The window at each place. Token t has the place of_token[t].
template <class F>
struct WindowPlaces {
  std::int32_t* of_token = nullptr;  ///< [tokens]
  std::int32_t* offsets =
      nullptr;            ///< [places, neighbours] tokens from the query to the neighbour; 0 if outside
  F* mask = nullptr;      ///< [places, padded neighbours] 0, or -infinity for those outside
  F* log_keys = nullptr;  ///< [places] natural logarithm of the number of visible keys
};

/// Parameters, of all heads, in the accumulation dtype.
template <class F>
struct AggregatedParameters {
  F* query_embedding = nullptr;  ///< [H, d]
  F* temperature = nullptr;      ///< [H], before softplus
  F* position_bias = nullptr;    ///< [H, tokens, keys]
  F* local_bias = nullptr;       ///< [H, neighbours]; this and those below: null without a window
  F* tokens = nullptr;           ///< [H, d, neighbours]
  F* token_bias = nullptr;       ///< [H, neighbours]
};

template <class T>
struct AggregatedForward {
  AggregatedShape shape;
  RowLists lists;
  HeadView<const T> q, k, v, local_k, local_v;
  AggregatedParameters<const Acc<T>> parameters;
  WindowPlaces<const Acc<T>> places;
  const Acc<T>* gates = nullptr;  ///< [B, tokens, H], or none: all 1
  HeadView<T> out;
  Acc<T>* lse = nullptr;  ///< per row in list order: log2 of the sum of exponentials; or none
};

template <class T>
struct AggregatedBackward {
  AggregatedShape shape;
  RowLists lists;
  HeadView<const T> q, k, v, local_k, local_v, dout;
  AggregatedParameters<const Acc<T>> parameters;
  WindowPlaces<const Acc<T>> places;
  const Acc<T>* gates = nullptr;
  const Acc<T>* lse = nullptr;
  HeadView<T> dq, dk, dv, dlocal_k, dlocal_v;
  Acc<T>* dgates = nullptr;    ///< [B, tokens, H], zeros, or none
  std::int64_t chunks = 1;     ///< parts into which the sequences are divided, for sums over them
  Acc<T>* partials = nullptr;  ///< [H, chunks, partial_size()], sums over the sequences of a chunk
};

/// A task of the backward pass: one head in the sequences [begin, end) of a chunk.
struct HeadChunk {
  std::int64_t head = 0, chunk = 0, begin = 0, end = 0;
};

/// The CPU kernels of aggregated attention: each call computes one task, in scratch memory of the caller,
/// aligned to 64 bytes.
template <class Backend, class T>
struct AggregatedKernels {
  using F = Acc<T>;

  static void find_places(const AggregatedShape& shape, const WindowPlaces<F>& to);

  /// The task's rows, and zeros for unselected pairs, as in AttentionKernels::forward. A row's bits do not
  /// depend on how the list is divided into tasks.
  static std::size_t forward_scratch_bytes(const AggregatedShape& shape);
  static void forward(const AggregatedForward<T>& args, const RowTask& task, std::byte* scratch);

  /// All gradients of a head for the sequences of a chunk; those of the parameters as partial sums.
  static std::size_t backward_scratch_bytes(const AggregatedShape& shape);
  static std::int64_t partial_size(const AggregatedShape& shape);
  static void backward(const AggregatedBackward<T>& args, const HeadChunk& task, std::byte* scratch);
  /// The gradients of a head's parameters: the sums of the partials of all chunks, in order.
  static void sum_partials(const AggregatedBackward<T>& args, std::int64_t head,
                           const AggregatedParameters<F>& to);
};

}  // namespace moh

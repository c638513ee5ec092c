#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace moh {

/// A source sentence and what the decoder reads: the start token, then the target sentence without its last
/// token.
struct SentencePair {
  std::span<const std::int32_t> source, target;
};

/// Pairs of sentences without padding: all S source tokens one after the other, and all T target tokens. A
/// token's mask is the range of keys that it sees; no mask of T x T or T x S numbers exists.
struct PackedPairs {
  Tensor source;                              ///< [S] int64, ids
  Tensor target;                              ///< [T] int64, ids that the decoder reads
  Tensor source_positions, target_positions;  ///< [S], [T] int64: from 0 in each sentence
  Tensor source_starts, source_ends;          ///< [1, S] int32: the sentence is tokens [start, end) of S
  Tensor target_starts;                       ///< [1, T] int32: the first of the sentence's tokens in T
  Tensor memory_starts, memory_ends;  ///< [1, T] int32: the source sentence is tokens [start, end) of S
  std::int64_t longest_source = 0, longest_target = 0;  ///< tokens of the longest sentence of each side
  /// Keys that a token sees on average (PackedSequences::mean_visible): in self-attention of the source, in
  /// causal self-attention of the target, and in attention from the target to the source.
  double mean_source = 0, mean_target = 0, mean_memory = 0;

  PackedPairs to(Device device) const;
};

/// Packs pairs, on the CPU. Throws ValueError for none, and for a pair with an empty side.
PackedPairs pack_pairs(std::span<const SentencePair> pairs);

/// The source side alone: `tokens` [S] of sentences of these lengths, one after the other. The target's
/// fields stay undefined. Throws ShapeError, ValueError.
PackedPairs pack_sources(const Tensor& tokens, std::span<const std::int64_t> lengths);

}  // namespace moh

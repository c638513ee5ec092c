#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/attention/aggregated_attention_kernels.h"

namespace moh::aggregated {

/// Threads of a block of any kernel on a GPU.
inline constexpr int kThreads = 64;
/// Tokens of a chunk of the pass over keys.
inline constexpr int kChunkTokens = 64;

/// How the work is divided on a GPU: a function of the sizes alone, and with it the order of all sums.
struct Division {
  std::int64_t lanes = 1;   ///< that share a head
  std::int64_t width = 24;  ///< of a head in registers and in workspaces
  std::int64_t strips = 0;  ///< of the longest list, kThreads / lanes rows each
  std::int64_t chunks = 0;  ///< of the tokens of an image
  std::int64_t parts = 1;   ///< of the sequences

  static Division of(const AggregatedShape& shape) {
    const AttentionShape& s = shape.pairs;
    Division d;
    if (s.head_dim > 24) d.lanes = s.head_dim <= 64 ? 4 : 16;
    d.width = d.lanes == 1 ? 24 : 16 * d.lanes;
    const auto cut = [&](std::int64_t length) { return (s.queries + length - 1) / length; };
    d.strips = cut(kThreads / d.lanes);
    d.chunks = cut(kChunkTokens);
    constexpr std::int64_t kMostPartials = (std::int64_t{32} << 20) / sizeof(float);
    const auto fit = [](std::int64_t most, std::int64_t each) {
      return most / std::max<std::int64_t>(each, 1);
    };
    const std::int64_t wanted =
        std::min(fit(kBlocks, s.heads * d.chunks), fit(kMostPartials, position_biases(s)));
    d.parts = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(s.batch, 1));
    return d;
  }

  static std::int64_t position_biases(const AttentionShape& s) { return s.heads * s.queries * s.keys; }

  /// Partial sums of a head, and the elements of each: of what a strip of rows leaves (the query embedding,
  /// the temperature), and of what a chunk of a part leaves of a neighbour (its token, its token bias, its
  /// bias).
  std::int64_t row_sums(const AttentionShape& s) const { return s.batch * strips; }
  std::int64_t row_sum_width() const { return width + 1; }
  std::int64_t learned_sums() const { return parts * chunks; }
  std::int64_t learned_width() const { return width + 2; }
  /// Elements of the partial sums of distant keys and values.
  std::int64_t key_sums(const AttentionShape& s) const {
    return s.batch * s.heads * chunks * s.keys * 2 * width;
  }

  /// Sizes for the selection of keys: blocks, each of which has the logits of a strip of rows at a time; the
  /// logits of all of them; words of a row, a bit for each key. 0 where all keys are kept.
  std::int64_t select_blocks(const AggregatedShape& shape) const {
    return shape.kept_percent < 100 ? std::min(kBlocks, shape.pairs.batch * shape.pairs.heads * strips) : 0;
  }
  std::int64_t select_scores(const AggregatedShape& shape) const {
    return select_blocks(shape) * (shape.pairs.keys + shape.neighbours()) * (kThreads / lanes);
  }
  static std::int64_t kept_words(const AggregatedShape& shape) {
    return shape.kept_percent < 100 ? (shape.pairs.keys + shape.neighbours() + 31) / 32 : 0;
  }

  /// Bytes of workspace for `rows` rows: position biases and learnable tokens in another order, the selection
  /// of keys, and in the backward pass what its passes leave for each other.
  std::size_t forward_bytes(const AggregatedShape& shape, std::int64_t rows) const {
    const AttentionShape& s = shape.pairs;
    return floats(position_biases(s) + s.heads * shape.neighbours() * s.head_dim + select_scores(shape) +
                  kept_words(shape) * rows);
  }
  std::size_t backward_bytes(const AggregatedShape& shape, std::int64_t rows) const {
    const AttentionShape& s = shape.pairs;
    const std::int64_t learned = s.heads * learned_sums() * shape.neighbours() * learned_width();
    return forward_bytes(shape, rows) +
           floats(rows * (4 + 3 * shape.neighbours()) + s.batch * s.heads * s.queries +
                  s.heads * row_sums(s) * row_sum_width() + key_sums(s) + parts * position_biases(s) +
                  learned);
  }

 private:
  static constexpr std::int64_t kBlocks = 1584;  // 12 of each multiprocessor of an H100
  static std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }
};

}  // namespace moh::aggregated

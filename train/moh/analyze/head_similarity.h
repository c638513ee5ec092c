#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "train/moh/analyze/layer_heads.h"

namespace moh {

/// A mean for every pair of heads, over the tokens that use both.
class HeadPairs {
 public:
  explicit HeadPairs(std::int64_t heads);

  std::int64_t heads() const { return heads_; }
  /// Of heads i >= j. Calls for different pairs may run at the same time.
  void add(std::int64_t i, std::int64_t j, double sum, std::int64_t count);

  /// NaN where no token has both.
  double mean(std::int64_t i, std::int64_t j) const;
  /// The mean over all pairs of two different heads, one of each group, that have a value; NaN without any.
  double mean(const HeadGroup& a, const HeadGroup& b) const;

 private:
  std::size_t index(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i >= j ? i * heads_ + j : j * heads_ + i);
  }

  std::int64_t heads_;
  std::vector<double> sums_;  // [H, H], the lower triangle
  std::vector<std::int64_t> counts_;
};

/// What an attention layer computed for one sequence of T tokens, on the CPU in float32.
struct SequenceTrace {
  Tensor q, k;                         ///< [T, H, d], [T, G, d], rotated
  Tensor heads;                        ///< [T, H, d]
  Tensor output;                       ///< [D, H d]
  bool causal = true;                  ///< a token sees itself and those before it; false: all tokens
  std::vector<std::uint8_t> selected;  ///< [T, H]
};

/// How alike the heads of a layer are. A value belongs to two heads and a token that uses both of them.
class HeadSimilarity {
 public:
  explicit HeadSimilarity(std::int64_t heads) : attention_(heads), outputs_(heads), contributions_(heads) {}

  /// Adds a sequence. Memory: about 32 MB, or one token's numbers where these are more.
  void add(const SequenceTrace& trace);

  /// 1 - |a - b| / 2 with |.| the sum of magnitudes, of the two rows of softmax(q k' / sqrt(d)): the
  /// probability that they share. Under a causal mask the first token of a sequence is left out: it sees
  /// nothing but itself.
  const HeadPairs& attention() const { return attention_; }
  /// Cosine of the two head outputs, of width d.
  const HeadPairs& outputs() const { return outputs_; }
  /// Cosine of what the two heads add to the layer's output, of width D: it does not change when a head's
  /// values are rotated and its part of the output projection with them.
  const HeadPairs& contributions() const { return contributions_; }

 private:
  HeadPairs attention_, outputs_, contributions_;
};

}  // namespace moh

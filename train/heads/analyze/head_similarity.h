#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "train/comm/communicator.h"
#include "train/heads/analyze/layer_heads.h"

namespace moh {

/// The mean of a quantity for every pair of heads, over the tokens that select both.
class HeadPairs {
 public:
  explicit HeadPairs(std::int64_t heads);

  std::int64_t heads() const { return heads_; }
  /// Adds `sum` over `count` tokens for heads i >= j. Thread-safe for different pairs.
  void add(std::int64_t i, std::int64_t j, double sum, std::int64_t count);
  /// Adds what the other processes have summed. A collective.
  void add_of_all(Communicator& processes);

  /// NaN if no token selects both.
  double mean(std::int64_t i, std::int64_t j) const;
  /// The mean of mean(i, j) over all i of group a and j of group b with i != j, NaN left out; NaN if none is
  /// left.
  double mean(const HeadGroup& a, const HeadGroup& b) const;

 private:
  std::size_t index(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i >= j ? i * heads_ + j : j * heads_ + i);
  }

  std::int64_t heads_;
  std::vector<double> sums_;  // [H, H], the lower triangle
  std::vector<std::int64_t> counts_;
};

/// Tensors of an attention layer for one sequence of T tokens and S keys, on the CPU in float32 (as in
/// AttentionTrace).
struct SequenceTrace {
  Tensor q, k;                         ///< [T, H, d], [S, G, d], after the rotary embedding
  Tensor heads;                        ///< [T, H, d]
  Tensor output;                       ///< [D, H d], the weight of the output projection
  bool causal = true;                  ///< a token attends to itself and earlier ones; false: to all keys
  std::int64_t window = 0;             ///< and to so many at most, itself included; 0: no window
  Tensor document_starts = {};         ///< [T] int32, and to none before these; undefined: none
  std::vector<std::uint8_t> selected;  ///< [T, H]
  Tensor patterns = {};  ///< [T, H, K], the probabilities in place of q and k; undefined: those of q and k
};

/// Three measures of how similar the heads of a layer are. Each has a value for two heads and a token that
/// selects both of them.
class HeadSimilarity {
 public:
  explicit HeadSimilarity(std::int64_t heads) : attention_(heads), outputs_(heads), contributions_(heads) {}

  /// Adds a sequence. Temporary memory: about 32 MB, or the values of one token where these take more.
  void add(const SequenceTrace& trace);
  /// Adds the sequences of the other processes. A collective.
  void add_of_all(Communicator& processes);

  /// 1 - ||a - b||_1 / 2 of the two heads' rows a, b of softmax(q k' / sqrt(d)), which is their overlap
  /// sum_s min(a_s, b_s). Tokens that attend to one key alone are left out, as under a causal mask the first
  /// of a sequence or document.
  const HeadPairs& attention() const { return attention_; }
  /// Cosine similarity of the two head outputs, of width d.
  const HeadPairs& outputs() const { return outputs_; }
  /// Cosine similarity of what the two heads add to the layer's output, of width D. Unlike outputs(), it is
  /// invariant to rotating a head's values together with its columns of the output projection.
  const HeadPairs& contributions() const { return contributions_; }

 private:
  HeadPairs attention_, outputs_, contributions_;
};

}  // namespace moh

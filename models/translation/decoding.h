#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/llm/kv_cache.h"

namespace moh {

/// Keys and values [1, S, G, d] of one layer's cross-attention.
struct MemoryKeys {
  Tensor k, v;
};

/// Source sentences as a decoder reads them. Copies share the tensors.
struct TranslationMemory {
  std::vector<MemoryKeys> layers;    ///< of each decoder layer
  std::vector<std::int64_t> starts;  ///< of each sentence: the first of its tokens in S
  std::vector<std::int64_t> ends;    ///< and the one after its last

  std::int64_t sentences() const { return static_cast<std::int64_t>(starts.size()); }
};

/// R hypotheses (rows) that grow a token at a time (TranslationModel::step), each the translation of a
/// sentence of the memory. Rows of one sentence are adjacent, and sentences in the memory's order.
class Decoding {
 public:
  /// Without tokens so far; `self` are the caches of the decoder layers' self-attention, of as many rows.
  /// Throws ValueError for rows of a sentence that the memory lacks, or in another order.
  Decoding(TranslationMemory memory, std::vector<LayerCache> self, std::vector<std::int64_t> sentence_of_row);

  std::int64_t rows() const { return static_cast<std::int64_t>(sentence_of_row_.size()); }
  /// Tokens of a row so far, and those that there is room for.
  std::int64_t length() const { return self_.front().length(); }
  std::int64_t capacity() const { return self_.front().capacity(); }
  const std::vector<std::int64_t>& sentence_of_row() const { return sentence_of_row_; }
  /// Memory of the hypotheses' keys and values.
  std::int64_t bytes() const;

  /// Row i continues from now on what row rows[i] was: beams in a new order, or fewer of them. Throws
  /// ValueError for a row that there is not, and for an order that would part the rows of a sentence.
  void select(std::span<const std::int64_t> rows);

 private:
  friend class TranslationModel;

  void set_sentences(std::vector<std::int64_t> sentence_of_row);

  TranslationMemory memory_;
  std::vector<LayerCache> self_;
  std::vector<std::int64_t> sentence_of_row_;
  Tensor memory_starts_, memory_ends_;  // [1, R] int32: the keys of each row's sentence
};

}  // namespace moh

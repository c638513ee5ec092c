#include "models/translation/decoding.h"

#include <string>
#include <utility>

#include "core/error.h"

namespace moh {

Decoding::Decoding(TranslationMemory memory, std::vector<LayerCache> self,
                   std::vector<std::int64_t> sentence_of_row)
    : memory_(std::move(memory)), self_(std::move(self)) {
  set_sentences(std::move(sentence_of_row));
}

void Decoding::set_sentences(std::vector<std::int64_t> sentence_of_row) {
  const auto rows = static_cast<std::int64_t>(sentence_of_row.size());
  if (rows == 0) throw ValueError(error_message("translation", "rows", "one or more", "none"));
  const Tensor starts = empty({1, rows}, DType::kInt32), ends = empty({1, rows}, DType::kInt32);
  std::int64_t before = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t sentence = sentence_of_row[static_cast<std::size_t>(row)];
    if (sentence < before || sentence >= memory_.sentences())
      throw ValueError(error_message(
          "translation", "sentence of row " + std::to_string(row),
          std::to_string(before) + " to " + std::to_string(memory_.sentences() - 1) + ", in ascending order",
          std::to_string(sentence)));
    before = sentence;
    const auto at = static_cast<std::size_t>(sentence);
    starts.data<std::int32_t>()[row] = static_cast<std::int32_t>(memory_.starts[at]);
    ends.data<std::int32_t>()[row] = static_cast<std::int32_t>(memory_.ends[at]);
  }
  const Device device = memory_.layers.front().k.device();
  memory_starts_ = starts.to(device);
  memory_ends_ = ends.to(device);
  sentence_of_row_ = std::move(sentence_of_row);
}

std::int64_t Decoding::bytes() const {
  std::int64_t bytes = 0;
  for (const LayerCache& cache : self_) bytes += cache.bytes();
  return bytes;
}

void Decoding::select(std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> sentences;
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= this->rows())
      throw ValueError(error_message("translation", "selected row",
                                     "0 to " + std::to_string(this->rows() - 1), std::to_string(row)));
    sentences.push_back(sentence_of_row_[static_cast<std::size_t>(row)]);
  }
  set_sentences(std::move(sentences));
  for (LayerCache& cache : self_) cache.select(rows);
}

}  // namespace moh

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "train/tasks/data/input_files.h"
#include "train/tasks/language/data/record_text.h"
#include "train/tokenizers/train_bpe.h"
#include "train/tokenizers/write_tokenizer_json.h"

namespace moh {

struct TrainTokenizerOptions {
  BpeTrainerOptions bpe;
  WordPattern pattern = WordPattern::kLlama3;
  RecordOptions records;  ///< of JSON Lines
  bool overwrite = false;
  /// Memory of the words that are counted: where there are more, the rarest are dropped.
  std::int64_t word_bytes = std::int64_t{48} << 20;
};

struct TrainTokenizerReport {
  std::int64_t files = 0;
  std::int64_t words = 0;          ///< that differ
  std::int64_t dropped_words = 0;  ///< counts of words that were dropped as rare
  std::int64_t tokens = 0, merges = 0;
  SkippedFiles skipped;
};

/// Learns a byte-level byte-pair encoding from the texts of `inputs` (train_bpe) and writes a tokenizer.json.
/// The result does not depend on the number of threads. Progress is shown on stderr; the file appears when it
/// is complete. Throws DataError for files that cannot be read and where there is no text, ConfigError if
/// `output` exists without `overwrite`, ValueError for options that do not fit each other, StorageError if it
/// cannot be written.
TrainTokenizerReport train_tokenizer(std::span<const std::string> inputs, const std::filesystem::path& output,
                                     const TrainTokenizerOptions& options);

}  // namespace moh

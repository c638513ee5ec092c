#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/bench/row.h"
#include "train/tasks/language/data/record_text.h"

namespace moh {

/// Options of `moh bench tokenizer`.
struct TokenizerBenchOptions {
  std::string tokenizer = "byte";   ///< as data.tokenizer
  std::vector<std::string> inputs;  ///< text and JSON Lines, also compressed
  RecordOptions records;            ///< of JSON Lines
  int repeats = 5;                  ///< measured passes over each file, after one that is not
};

/// Measures how fast a tokenizer encodes and decodes the texts of files, on the calling thread. They are in
/// memory before; a long text is encoded in parts (find_cut). Fields of a row: `file`, `texts` (documents, or
/// parts of long ones), `megabytes` (10^6 bytes of UTF-8), `tokens`, `encode_mb_per_s` and `decode_mb_per_s`
/// (medians over the repeats), `spread` ((slowest - fastest) / median pass of encoding). Throws ConfigError,
/// DataError, and ValueError for an option that is out of range.
void run_tokenizer_bench(const TokenizerBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh

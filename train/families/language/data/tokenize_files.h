#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "train/families/language/data/token_cache.h"
#include "train/families/language/data/token_file.h"
#include "train/trainer/task/data/input_files.h"

namespace moh {

struct TokenizeOptions {
  TextOptions text;
  bool overwrite = false;
  bool resume = false;  ///< of a folder: keep the token files of files that have not changed
};

struct TokenizeReport {
  TokenFileInfo info;      ///< of one token file
  std::int64_t files = 0;  ///< token files in the folder
  std::int64_t kept = 0;   ///< thereof, made earlier
  std::int64_t num_tokens = 0;
  SkippedFiles skipped;
};

/// Writes all texts of `inputs` to one token file; each text file, and each line of JSON Lines, is a
/// document. Progress is shown on stderr. Throws DataError for files that cannot be read and if `output` is
/// among the inputs, ConfigError if it exists without `overwrite`, StorageError if it cannot be written.
TokenizeReport tokenize_files(std::span<const std::string> inputs, const std::filesystem::path& output,
                              const Tokenizer& tokenizer, const TokenizeOptions& options = {});

/// Writes a token file for each file of `inputs` to a folder, which is created. Each appears when it is
/// complete, so that a process that was killed is continued with options.resume: token files of this
/// tokenizer whose source has the size and time of modification that they name are kept. Throws as
/// tokenize_files(); ConfigError for a folder with files without `resume` or `overwrite`.
TokenizeReport tokenize_to_folder(std::span<const std::string> inputs, const std::filesystem::path& folder,
                                  const Tokenizer& tokenizer, const TokenizeOptions& options);

}  // namespace moh

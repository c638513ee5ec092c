#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/families/language/data/token_cache.h"
#include "train/families/language/data/token_file.h"
#include "train/families/language/data/token_source.h"
#include "train/trainer/task/data/input_files.h"

namespace moh {

/// One text file or token file of a corpus.
struct CorpusFile {
  std::string path;
  TokenSourcePtr tokens;
  std::string checksum;  ///< of its contents; for a token file without a checksum, of samples of it
};

/// The training text, file by file, in the order of list_input_files().
struct Corpus {
  std::vector<CorpusFile> files;
  SkippedFiles skipped;  ///< if not empty, the caller should log a warning

  std::int64_t num_tokens() const;
  /// "2 files, 4802 tokens, checksum ...": depends on the contents of the files and their order, but not on
  /// their names.
  std::string describe_contents() const;
};

/// Opens text files (plain text and JSON Lines, each also compressed), token files, and folders of them.
/// Texts are tokenised into memory, or, those of more than kTextInMemory bytes that are not bytes as they lie
/// in the file, once into a token file in the cache (token_cache.h). Token files are read on demand and must
/// have been made with `tokenizer`. The folder of the run that reads them is left out (list_input_files).
/// Throws DataError for files that cannot be read or used, and if there are no tokens.
Corpus open_corpus(std::span<const std::string> inputs, const Tokenizer& tokenizer,
                   const std::filesystem::path& run_folder = {}, const TextOptions& options = {});
inline constexpr std::uint64_t kTextInMemory = std::uint64_t{16} << 20;

/// The files of inputs, as list_input_files(). Throws DataError for no inputs.
std::vector<InputPath> require_files(std::span<const std::string> inputs, SkippedFiles& skipped,
                                     const std::filesystem::path& run_folder = {});
/// Throws DataError that says why the inputs have no text.
[[noreturn]] void fail_without_text(std::span<const std::string> inputs, const SkippedFiles& skipped);

struct TokenSplit {
  TokenSourcePtr train;
  TokenSourcePtr validation;  ///< empty when the fraction is 0
};

/// Splits every file of n tokens: the first floor(n * (1 - validation_fraction)) are for training, the rest
/// is held out. Each file is split, and not their concatenation, so that training and validation text have
/// the same mixture of sources. The pieces are joined by the tokenizer's end-of-document id. Throws
/// ValueError unless 0 <= validation_fraction < 1.
TokenSplit split_corpus(const Corpus& corpus, const Tokenizer& tokenizer, double validation_fraction);

}  // namespace moh

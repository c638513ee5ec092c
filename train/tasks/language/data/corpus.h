#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/tasks/data/input_files.h"
#include "train/tasks/language/data/token_file.h"
#include "train/tasks/language/data/token_source.h"

namespace moh {

/// One text file or token file of a corpus.
struct CorpusFile {
  std::string path;
  TokenSourcePtr tokens;
  std::string checksum;  ///< of its contents; where a token file has none of its own, of parts of it
};

/// The training text, file by file, in the order of list_input_files().
struct Corpus {
  std::vector<CorpusFile> files;
  SkippedFiles skipped;  ///< worth a warning when its count is not zero

  std::int64_t num_tokens() const;
  /// "2 files, 4802 tokens, checksum ...": differs for corpora of other contents, or in another order. What
  /// the files are called does not count.
  std::string describe_contents() const;
};

/// Opens files and folders of text and of token files, in any mixture. Texts are tokenised into memory, token
/// files are read as they are needed and must come from `tokenizer`. The folder of the run that reads them is
/// left out (list_input_files). Throws DataError for what cannot be read or used, a token file of the earlier
/// format among it, and when no tokens are found.
Corpus open_corpus(std::span<const std::string> inputs, const Tokenizer& tokenizer,
                   const std::filesystem::path& run_folder = {});

struct TokenSplit {
  TokenSourcePtr train;
  TokenSourcePtr validation;  ///< empty when the fraction is 0
};

/// Holds out the tail of every file of n tokens: the first floor(n * (1 - validation_fraction)) train, the
/// rest validates; the two never overlap. A tail per file, rather than one tail of everything, so that
/// training and validation have the same mixture of texts. The pieces are joined by the tokenizer's
/// end-of-document id. Throws ValueError unless 0 <= validation_fraction < 1.
TokenSplit split_corpus(const Corpus& corpus, const Tokenizer& tokenizer, double validation_fraction);

struct TokenizeReport {
  TokenFileInfo info;
  SkippedFiles skipped;
};

/// Writes all texts of `inputs` to one token file, one document per text file. A token file of the earlier
/// format among the named inputs goes there as it is. Throws DataError for what cannot be read and when
/// `output` is among the inputs, ConfigError where it exists and `overwrite` does not allow to replace it,
/// StorageError for what cannot be written.
TokenizeReport tokenize_files(std::span<const std::string> inputs, const std::filesystem::path& output,
                              const Tokenizer& tokenizer, bool overwrite = false);

}  // namespace moh

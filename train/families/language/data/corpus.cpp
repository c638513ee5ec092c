#include "train/families/language/data/corpus.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/io/input_file.h"
#include "train/families/language/data/document_reader.h"
#include "train/families/language/data/encode_documents.h"
#include "train/families/language/data/token_file.h"
#include "train/families/language/tokenizer_rows.h"

namespace moh {

std::vector<InputPath> require_files(std::span<const std::string> inputs, SkippedFiles& skipped,
                                     const std::filesystem::path& run_folder) {
  if (inputs.empty()) throw DataError(error_message("data", "input", "at least one file or folder", "none"));
  return list_input_files(inputs, skipped, run_folder);
}

void fail_without_text(std::span<const std::string> inputs, const SkippedFiles& skipped) {
  std::string where;
  for (const std::string& input : inputs) where += (where.empty() ? "" : ", ") + input;
  const std::string found =
      skipped.count() == 0 ? "no file" : "only files without any: " + skipped.describe();
  throw DataError(error_message(where, "", "at least one file with text", found));
}

namespace {

/// Whether the text is its ids, and needs no other memory than itself.
bool is_its_ids(const InputPath& input, const Tokenizer& tokenizer) {
  return tokenizer.encodes_in_pieces() && !is_json_lines(input.path) && !is_compressed(input.path);
}

/// The checksum of a file's contents.
std::string checksum_of_file(const std::string& path) {
  constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
  const InputFile file(path, InputKind::kData);
  Checksum checksum;
  std::string block;
  for (std::uint64_t offset = 0; offset < file.size(); offset += block.size()) {
    block.resize(std::min(kBlockBytes, file.size() - offset));
    file.read(offset, std::as_writable_bytes(std::span(block)), "contents");
    checksum.update(std::as_bytes(std::span(block)));
  }
  return checksum.hex();
}

/// The tokens of a text file; nothing if it was skipped.
std::optional<CorpusFile> read_tokens(const InputPath& input, const Tokenizer& tokenizer,
                                      const TextOptions& options, SkippedFiles& skipped) {
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(input.path, failed);
  TokenMemory memory(tokenizer.vocab_size());
  const auto separator = tokenizer.end_of_document();
  const auto add = [&](const EncodedPart& part) {
    // Not before the first part turned out to be text: a huge binary file must not allocate memory.
    if (memory.size() == 0 && !failed && is_its_ids(input, tokenizer)) memory.reserve(bytes);
    if (part.begins && memory.size() > 0 && separator) memory.append(std::span(&*separator, 1));
    memory.append(part.ids);
  };
  try {
    if (!encode_documents(input, tokenizer, options.records, skipped, add, [](std::uint64_t) {}))
      return std::nullopt;
  } catch (const std::bad_alloc&) {
    throw DataError(error_message(input.path, "", "a text that fits in memory",
                                  std::to_string(bytes) + " bytes",
                                  "make a token file of it, which is read on demand: moh data tokenize"));
  }
  return CorpusFile{input.path, memory.finish(), checksum_of_file(input.path)};
}

/// The ids of a token file for a tokenizer that may be narrowed to the rows of a model.
TokenSourcePtr token_source_of(const std::shared_ptr<const TokenFile>& file, const Tokenizer& tokenizer,
                               const std::string& path) {
  if (file->info().vocab_size <= tokenizer.vocab_size()) return file;
  return within_rows(file, tokenizer.vocab_size(), path);
}

/// Reads a large text by way of a token file in the cache.
std::optional<CorpusFile> read_large_text(const InputPath& input, const Tokenizer& tokenizer,
                                          const TextOptions& options, SkippedFiles& skipped) {
  std::string checksum = checksum_of_file(input.path);
  const auto tokens = cached_tokens(input, checksum, tokenizer, options, skipped);
  if (tokens == nullptr) return std::nullopt;
  return CorpusFile{input.path, token_source_of(tokens, tokenizer, input.path), std::move(checksum)};
}

std::optional<CorpusFile> open_text_file(const InputPath& input, const Tokenizer& tokenizer,
                                         const TextOptions& options, SkippedFiles& skipped) {
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(input.path, failed);
  const bool large = !failed && bytes > (is_compressed(input.path) ? kTextInMemory / 4 : kTextInMemory);
  if (large && !is_its_ids(input, tokenizer)) return read_large_text(input, tokenizer, options, skipped);
  return read_tokens(input, tokenizer, options, skipped);
}

/// A checksum of the number of ids and of samples of ids spread over the source, ends included (of all ids,
/// if there are few).
std::string sampled_checksum(const TokenSource& tokens) {
  constexpr std::int64_t kBlocks = 1024, kIds = 4096;
  Checksum checksum;
  std::vector<TokenId> ids;
  const auto add = [&](const auto& values) { checksum.update(std::as_bytes(std::span(values))); };
  const std::int64_t size = tokens.size(), blocks = std::min(kBlocks, (size + kIds - 1) / kIds);
  add(std::array{size});
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = blocks < kBlocks ? i * kIds : (size - kIds) * i / (kBlocks - 1);
    ids.resize(static_cast<std::size_t>(std::min(kIds, size - begin)));
    tokens.copy(begin, ids);
    add(ids);
  }
  return checksum.hex();
}

/// Nothing for a file that was skipped.
std::optional<CorpusFile> open_tokens(const InputPath& input, const Tokenizer& tokenizer,
                                      const TextOptions& options, SkippedFiles& skipped) {
  const TokenFileKind kind = token_file_kind(input.path);
  if (kind == TokenFileKind::kTokens || (kind == TokenFileKind::kOtherTensors && input.named)) {
    auto file = TokenFile::open(input.path);
    file->require_tokenizer(tokenizer);
    const std::string& checksum = file->info().checksum;
    return CorpusFile{input.path, token_source_of(file, tokenizer, input.path),
                      checksum.empty() ? sampled_checksum(*file) : checksum};
  }
  return open_text_file(input, tokenizer, options, skipped);
}

}  // namespace

std::int64_t Corpus::num_tokens() const {
  std::int64_t sum = 0;
  for (const CorpusFile& file : files) sum += file.tokens->size();
  return sum;
}

std::string Corpus::describe_contents() const {
  std::string checksums;
  for (const CorpusFile& file : files) checksums += file.checksum + '\n';
  return std::to_string(files.size()) + (files.size() == 1 ? " file, " : " files, ") +
         std::to_string(num_tokens()) + " tokens, checksum " + checksum_hex(checksums);
}

Corpus open_corpus(std::span<const std::string> inputs, const Tokenizer& tokenizer,
                   const std::filesystem::path& run_folder, const TextOptions& options) {
  Corpus corpus;
  for (const InputPath& input : require_files(inputs, corpus.skipped, run_folder)) {
    if (auto file = open_tokens(input, tokenizer, options, corpus.skipped))
      corpus.files.push_back(std::move(*file));
  }
  if (corpus.files.empty()) fail_without_text(inputs, corpus.skipped);
  return corpus;
}

TokenSplit split_corpus(const Corpus& corpus, const Tokenizer& tokenizer, double validation_fraction) {
  if (!(validation_fraction >= 0.0 && validation_fraction < 1.0)) {
    throw ValueError(error_message("data", "validation fraction", "0 <= fraction < 1",
                                   std::to_string(validation_fraction)));
  }
  std::vector<TokenSourcePtr> train, validation;
  const auto add = [](std::vector<TokenSourcePtr>& pieces, const TokenSourcePtr& tokens, std::int64_t begin,
                      std::int64_t end) {
    if (begin < end) pieces.push_back(slice_tokens(tokens, begin, end));
  };
  for (const CorpusFile& file : corpus.files) {
    const std::int64_t size = file.tokens->size();
    const auto cut =
        static_cast<std::int64_t>(std::floor(static_cast<double>(size) * (1.0 - validation_fraction)));
    add(train, file.tokens, 0, cut);
    add(validation, file.tokens, cut, size);
  }
  const auto separator = tokenizer.end_of_document();
  return {concatenate_tokens(std::move(train), separator),
          concatenate_tokens(std::move(validation), separator)};
}

}  // namespace moh

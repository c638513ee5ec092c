#include "train/tasks/language/data/corpus.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/io/checksum.h"
#include "train/io/durable_file.h"
#include "train/tasks/language/data/old_token_file.h"
#include "train/tasks/language/data/token_file.h"
#include "train/tasks/language/data/token_file_writer.h"

namespace moh {

namespace {

/// Lists the files; an empty list of inputs is an error.
std::vector<InputPath> require_files(std::span<const std::string> inputs, SkippedFiles& skipped,
                                     const std::filesystem::path& run_folder = {}) {
  if (inputs.empty()) throw DataError(error_message("data", "input", "at least one file or folder", "none"));
  return list_input_files(inputs, skipped, run_folder);
}

[[noreturn]] void fail_without_text(std::span<const std::string> inputs, const SkippedFiles& skipped) {
  std::string where;
  for (const std::string& input : inputs) where += (where.empty() ? "" : ", ") + input;
  const std::string found =
      skipped.count() == 0 ? "no file" : "only files without any: " + skipped.describe();
  throw DataError(error_message(where, "", "at least one file with text", found));
}

/// Encodes the text of a file, piece by piece if the tokenizer allows it. False for a skipped file, of which
/// `sink` may have got pieces.
bool encode_file(const InputPath& input, const Tokenizer& tokenizer, SkippedFiles& skipped,
                 FunctionRef<void(std::string_view text, std::span<const TokenId> ids)> sink) {
  std::vector<TokenId> ids;
  const auto encode = [&](std::string_view text) {
    ids.clear();
    tokenizer.encode(text, ids);
    sink(text, ids);
  };
  if (tokenizer.encodes_in_pieces()) return stream_text(input, skipped, encode);
  std::string whole;
  if (!stream_text(input, skipped, [&](std::string_view block) { whole += block; })) return false;
  encode(whole);
  return true;
}

/// The tokens of a text file; nothing if it was skipped.
std::optional<CorpusFile> read_tokens(const InputPath& input, const Tokenizer& tokenizer,
                                      SkippedFiles& skipped) {
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(input.path, failed);
  TokenMemory memory(tokenizer.vocab_size());
  Checksum checksum;
  try {
    const auto add = [&](std::string_view text, std::span<const TokenId> ids) {
      checksum.update(std::as_bytes(std::span(text)));
      // Not before the first block turned out to be text: a huge binary file must not allocate memory.
      if (!failed && memory.size() == 0) memory.reserve(bytes);
      if (memory.size() == 0) memory.append(tokenizer.sequence_start());
      memory.append(ids);
    };
    if (!encode_file(input, tokenizer, skipped, add)) return std::nullopt;
  } catch (const std::bad_alloc&) {
    throw DataError(error_message(input.path, "", "a text that fits in memory",
                                  std::to_string(bytes) + " bytes",
                                  "make a token file of it, which is read on demand: moh data tokenize"));
  }
  return CorpusFile{input.path, memory.finish(), checksum.hex()};
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
                                      SkippedFiles& skipped) {
  const TokenFileKind kind = token_file_kind(input.path);
  if (kind == TokenFileKind::kOld) {
    throw DataError(error_message(input.path, "", "text or a token file that is a safetensors file",
                                  "a token file of moh's earlier format",
                                  "convert it: " + conversion_of_old_token_file(input.path)));
  }
  if (kind == TokenFileKind::kTokens || (kind == TokenFileKind::kOtherTensors && input.named)) {
    auto file = TokenFile::open(input.path);
    file->require_tokenizer(tokenizer);
    const std::string& checksum = file->info().checksum;
    return CorpusFile{input.path, file, checksum.empty() ? sampled_checksum(*file) : checksum};
  }
  return read_tokens(input, tokenizer, skipped);
}

void require_not_an_input(const std::filesystem::path& output, std::span<const InputPath> inputs) {
  for (const InputPath& input : inputs) {
    std::error_code missing;  // an output that does not exist yet cannot be an input
    if (std::filesystem::equivalent(output, input.path, missing)) {
      throw DataError(error_message(output.string(), "output", "a file that is none of the inputs",
                                    "the input " + input.path, "choose another name"));
    }
  }
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
                   const std::filesystem::path& run_folder) {
  Corpus corpus;
  for (const InputPath& input : require_files(inputs, corpus.skipped, run_folder)) {
    if (auto file = open_tokens(input, tokenizer, corpus.skipped)) corpus.files.push_back(std::move(*file));
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

TokenizeReport tokenize_files(std::span<const std::string> inputs, const std::filesystem::path& output,
                              const Tokenizer& tokenizer, bool overwrite) {
  TokenizeReport report;
  const std::vector<InputPath> files = require_files(inputs, report.skipped);
  require_not_an_input(output, files);
  require_replaceable("--output", output, overwrite);
  TokenFileWriter writer(output, tokenizer);
  bool any = false;
  for (const InputPath& input : files) {
    const TokenFileKind kind = token_file_kind(input.path);
    if (kind == TokenFileKind::kOld && input.named) {
      const auto old = open_old_token_file(input.path, /*verify=*/true);
      old->require_tokenizer(tokenizer);
      writer.add_documents(*old, *old->info().num_documents);
      any = true;
    } else if (kind == TokenFileKind::kOld || kind == TokenFileKind::kTokens) {
      throw DataError(error_message(input.path, "", "text", "a moh token file"));
    } else if (stream_text(input, report.skipped, [](std::string_view) {})) {
      // Not before the file is complete: added ids cannot be removed.
      writer.begin_document();
      const auto add = [&](std::string_view, std::span<const TokenId> ids) { writer.add(ids); };
      encode_file({input.path, /*named=*/true}, tokenizer, report.skipped, add);
      any = true;
    }
  }
  if (!any) fail_without_text(inputs, report.skipped);
  report.info = writer.finish();
  return report;
}

}  // namespace moh

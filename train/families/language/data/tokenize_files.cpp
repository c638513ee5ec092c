#include "train/families/language/data/tokenize_files.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"
#include "train/base/log/progress.h"
#include "train/families/language/data/corpus.h"
#include "train/families/language/data/encode_documents.h"
#include "train/families/language/data/token_file_writer.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

void require_not_an_input(const std::filesystem::path& output, std::span<const InputPath> inputs) {
  for (const InputPath& input : inputs) {
    std::error_code missing;  // an output that does not exist yet cannot be an input
    if (std::filesystem::equivalent(output, input.path, missing)) {
      throw DataError(error_message(output.string(), "output", "a file that is none of the inputs",
                                    "the input " + input.path, "choose another name"));
    }
  }
}

std::uint64_t total_bytes(std::span<const InputPath> files) {
  std::uint64_t sum = 0;
  std::error_code failed;
  for (const InputPath& file : files) {
    const std::uintmax_t bytes = fs::file_size(file.path, failed);
    if (!failed) sum += bytes;
  }
  return sum;
}

/// Adds the documents of a file; false if it was skipped.
bool add_file(const InputPath& input, const Tokenizer& tokenizer, const TokenizeOptions& options,
              SkippedFiles& skipped, ByteProgress& progress, TokenFileWriter& writer) {
  if (token_file_kind(input.path) == TokenFileKind::kTokens)
    throw DataError(error_message(input.path, "", "text", "a moh token file"));
  // Not before the file is known to be text: added ids cannot be removed.
  if (!kind_of_text(input, tokenizer, options.text.records, skipped)) return false;
  const auto add = [&](const EncodedPart& part) {
    if (part.begins) writer.begin_document();
    writer.add(part.ids);
  };
  return encode_documents({input.path, /*named=*/true}, tokenizer, options.text.records, skipped, add,
                          [&](std::uint64_t bytes) { progress.add(bytes); });
}

/// The source that a token file records: whether the text has changed since, or is to be read otherwise.
std::string source_of(const std::string& path, const RecordOptions& records) {
  const auto time = fs::last_write_time(path).time_since_epoch().count();
  std::string source = std::to_string(fs::file_size(path)) + " bytes, modified " + std::to_string(time);
  if (is_json_lines(path) && records != RecordOptions())
    source += ", records " + checksum_hex(identity_of(records)).substr(0, 8);
  return source;
}

/// "corpus_a.txt.tokens" for corpus/a.txt.
std::string name_in_folder(const std::string& path) {
  std::string name = fs::path(path).lexically_normal().relative_path().generic_string();
  std::ranges::replace(name, '/', '_');
  while (name.starts_with('.')) name.erase(0, 1);
  return name + ".tokens";
}

/// Whether the token file is complete, of this tokenizer, and of the source as it is now.
bool is_made(const fs::path& file, const std::string& source, const Tokenizer& tokenizer) {
  if (!fs::exists(file)) return false;
  const auto tokens = TokenFile::open(file.string());
  tokens->require_tokenizer(tokenizer);
  return tokens->info().source == source;
}

void require_usable_folder(const fs::path& folder, const TokenizeOptions& options) {
  std::error_code error;
  if (!fs::exists(folder, error)) return make_directories(folder);
  if (!fs::is_directory(folder, error))
    throw ConfigError(error_message("--output " + folder.string(), "", "a folder", "something else"));
  if (!options.resume && !options.overwrite && !fs::is_empty(folder, error)) {
    throw ConfigError(error_message("--output " + folder.string(), "", "an empty folder", "one with files",
                                    "continue with --resume, or replace files with --overwrite"));
  }
}

}  // namespace

TokenizeReport tokenize_files(std::span<const std::string> inputs, const fs::path& output,
                              const Tokenizer& tokenizer, const TokenizeOptions& options) {
  TokenizeReport report;
  const std::vector<InputPath> files = require_files(inputs, report.skipped);
  require_not_an_input(output, files);
  require_replaceable("--output", output, options.overwrite);
  const bool marks = std::ranges::any_of(
      files, [&](const InputPath& file) { return has_prompts(file, tokenizer, options.text.records); });
  TokenFileWriter writer(output, tokenizer, "", marks);
  ByteProgress progress("tokenizing", total_bytes(files));
  for (const InputPath& input : files)
    report.files += add_file(input, tokenizer, options, report.skipped, progress, writer) ? 1 : 0;
  progress.finish();
  if (report.files == 0) fail_without_text(inputs, report.skipped);
  report.info = writer.finish();
  report.num_tokens = report.info.num_tokens;
  return report;
}

TokenizeReport tokenize_to_folder(std::span<const std::string> inputs, const fs::path& folder,
                                  const Tokenizer& tokenizer, const TokenizeOptions& options) {
  TokenizeReport report;
  const std::vector<InputPath> files = require_files(inputs, report.skipped);
  require_usable_folder(folder, options);
  ByteProgress progress("tokenizing", total_bytes(files));
  std::set<std::string> names;
  for (const InputPath& input : files) {
    const std::string name = name_in_folder(input.path), source = source_of(input.path, options.text.records);
    const fs::path file = folder / name;
    require_not_an_input(file, files);
    if (!names.insert(name).second)
      throw DataError(
          error_message(input.path, "", "paths whose token files have different names", name + " twice"));
    if (options.resume && is_made(file, source, tokenizer)) {
      ++report.kept;
      progress.add(fs::file_size(input.path));
    } else {
      TokenFileWriter writer(file, tokenizer, source, has_prompts(input, tokenizer, options.text.records));
      if (!add_file(input, tokenizer, options, report.skipped, progress, writer)) continue;
      writer.finish();
    }
    ++report.files;
    report.num_tokens += TokenFile::open(file.string())->info().num_tokens;
  }
  progress.finish();
  if (report.files == 0) fail_without_text(inputs, report.skipped);
  return report;
}

}  // namespace moh

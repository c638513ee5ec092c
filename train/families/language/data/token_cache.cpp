#include "train/families/language/data/token_cache.h"

#include <cstdlib>
#include <system_error>

#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/io/file_ops.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"
#include "train/families/language/data/document_reader.h"
#include "train/families/language/data/encode_documents.h"
#include "train/families/language/data/token_file_writer.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

fs::path folder_of_cache(const TextOptions& options) {
  fs::path folder = options.cache == kDefaultTokenCache ? default_token_cache() : options.cache;
  if (folder.empty()) {
    throw ConfigError(error_message("data.cache", "", "a folder for the tokens of large texts",
                                    "none, and neither XDG_CACHE_HOME nor HOME is set"));
  }
  return folder;
}

/// Depends on all that determines the ids.
std::string cached_name(const InputPath& input, const std::string& checksum, const Tokenizer& tokenizer,
                        const TextOptions& options) {
  const std::string key =
      is_json_lines(input.path) ? "-" + checksum_hex(identity_of(options.records)).substr(0, 8) : "";
  return hash_text(tokenizer.content_hash()) + "-" + checksum + key + ".tokens";
}

/// False if the file was skipped.
bool write_tokens(const InputPath& input, const fs::path& output, const Tokenizer& tokenizer,
                  const TextOptions& options, SkippedFiles& skipped) {
  const std::optional<RecordKind> kind = kind_of_text(input, tokenizer, options.records, skipped);
  if (!kind) return false;
  std::error_code ignored;
  ByteProgress progress("tokenizing " + input.path, fs::file_size(input.path, ignored));
  TokenFileWriter writer(output, tokenizer, "", /*marks=*/*kind != RecordKind::kText);
  const auto add = [&](const EncodedPart& part) {
    if (part.begins) writer.begin_document();
    writer.add(part.ids);
  };
  encode_documents(input, tokenizer, options.records, skipped, add,
                   [&](std::uint64_t bytes) { progress.add(bytes); });
  progress.finish();
  writer.finish();
  return true;
}

}  // namespace

fs::path default_token_cache() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return fs::path(cache) / "moh/tokens";
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? fs::path(home) / ".cache/moh/tokens" : fs::path();
}

std::shared_ptr<const TokenFile> cached_tokens(const InputPath& input, const std::string& checksum,
                                               const Tokenizer& tokenizer, const TextOptions& options,
                                               SkippedFiles& skipped) {
  const fs::path folder = folder_of_cache(options);
  const fs::path file = folder / cached_name(input, checksum, tokenizer, options);
  try {
    make_directories(folder);
    if (!fs::exists(file)) {
      log_info("data: tokens of " + input.path + " are kept in " + file.string());
      if (!write_tokens(input, file, tokenizer, options, skipped)) return nullptr;
    }
  } catch (const StorageError& error) {
    throw StorageError(std::string(error.what()) +
                       "; data.cache=FOLDER names another folder for the tokens of text");
  }
  auto tokens = TokenFile::open(file.string());
  tokens->require_tokenizer(tokenizer);
  return tokens;
}

}  // namespace moh

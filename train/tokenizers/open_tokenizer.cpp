#include "train/tokenizers/open_tokenizer.h"

#include <string>
#include <system_error>

#include "core/error.h"
#include "train/io/printable.h"
#include "train/tokenizers/tokenizer_json.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTokenizerJson = "tokenizer.json";

[[noreturn]] void refuse(std::string_view where, const fs::path& setting, std::string_view found) {
  throw ConfigError(error_message(where, printable_path(setting),
                                  "byte, the file tokenizer.json of a tokenizer, or a folder with one",
                                  found));
}

}  // namespace

fs::path tokenizer_file_in(const fs::path& folder) {
  std::error_code ignored;
  const fs::path file = folder / kTokenizerJson;
  return fs::is_regular_file(file, ignored) ? file : fs::path();
}

std::unique_ptr<const Tokenizer> open_tokenizer(std::string_view where, const fs::path& setting) {
  if (setting == ByteTokenizer::kName) return std::make_unique<ByteTokenizer>();
  std::error_code ignored;
  if (!fs::exists(setting, ignored)) refuse(where, setting, "no such file or folder");
  if (!fs::is_directory(setting, ignored)) return read_tokenizer_json(setting);
  const fs::path file = tokenizer_file_in(setting);
  if (file.empty()) refuse(where, setting, "a folder without");
  return read_tokenizer_json(file);
}

}  // namespace moh

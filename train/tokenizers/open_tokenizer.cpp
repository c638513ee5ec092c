#include "train/tokenizers/open_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/base/io/stand_in.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/marian_tokenizer.h"
#include "train/tokenizers/marian_vocabulary.h"
#include "train/tokenizers/sentencepiece.h"
#include "train/tokenizers/sentencepiece_model.h"
#include "train/tokenizers/tiktoken.h"
#include "train/tokenizers/tokenizer_json.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

/// Names of a tokenizer's file in a folder; the first one there counts.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer.model", "tokenizer.tiktoken"};

[[noreturn]] void refuse_setting(std::string_view where, const fs::path& setting, std::string_view found,
                                 std::string_view fix) {
  throw ConfigError(error_message(
      where, printable_path(setting),
      "byte, the file of a tokenizer (tokenizer.json, a SentencePiece .model, a .tiktoken), or a "
      "folder with one",
      found, fix));
}

/// The kind of a file goes by its contents.
std::unique_ptr<const Tokenizer> read_tokenizer(const fs::path& file) {
  const InputFile input(file, InputKind::kData);
  const std::string first = input.first_bytes(4096);
  if (const StandIn* const other = stand_in_of(first))
    input.fail("", "the file of a tokenizer", other->found, other->fix);
  if (looks_like_tiktoken(first)) return read_tiktoken(file);
  const std::size_t begin = first.find_first_not_of(" \t\r\n");
  const bool is_json = begin != std::string::npos && first[begin] == '{';
  if (!is_json && looks_like_sentencepiece(first)) return read_sentencepiece(file);
  return looks_like_vocabulary(first) ? read_marian(file) : read_tokenizer_json(file);
}

/// The file that a tokenizer.json was made from. A damaged tokenizer_config.json names none: it is an error
/// for whoever opens the tokenizer, not for a model's folder that is copied.
std::optional<std::string> original_of(const fs::path& tokenizer_file) {
  try {
    return read_tokenizer_use(tokenizer_file).original;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

}  // namespace

fs::path tokenizer_file_in(const fs::path& folder) {
  std::error_code ignored;
  const auto is_there = [&](const char* name) { return fs::is_regular_file(folder / name, ignored); };
  // Named though it may be missing, as it is the file to complain of. A tokenizer.json beside is another
  // program's, as MarianTokenizer reads none.
  if (is_there(kMarianSource) || is_there(kMarianTarget)) return folder / kMarianVocabulary;
  const auto* const first = std::ranges::find_if(kTokenizerFiles, is_there);
  if (first == std::end(kTokenizerFiles)) return {};
  const std::optional<std::string> original = original_of(folder / *first);
  for (const char* name : kTokenizerFiles) {
    if (original == name && is_there(name)) return folder / name;
  }
  return folder / *first;
}

std::unique_ptr<const Tokenizer> open_tokenizer(std::string_view where, const fs::path& setting) {
  if (setting == ByteTokenizer::kName) return std::make_unique<ByteTokenizer>();
  std::error_code ignored;
  if (!fs::exists(setting, ignored))
    refuse_setting(where, setting, "no such file or folder", download_advice(setting));
  if (!fs::is_directory(setting, ignored)) return read_tokenizer(setting);
  const fs::path file = tokenizer_file_in(setting);
  if (file.empty()) refuse_setting(where, setting, "a folder without", hub_cache_advice(setting));
  return read_tokenizer(file);
}

}  // namespace moh

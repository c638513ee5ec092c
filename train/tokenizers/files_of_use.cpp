#include "train/tokenizers/files_of_use.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::uint64_t kMaxUseBytes = std::uint64_t{16} << 20;
constexpr int kMaxUseDepth = 32;
constexpr std::array<const char*, 6> kUseFiles = {"tokenizer_config.json", "special_tokens_map.json",
                                                  "added_tokens.json",     "chat_template.jinja",
                                                  "chat_template.json",    "generation_config.json"};

}  // namespace

std::vector<TokenizerFile> files_of_use(const std::filesystem::path& tokenizer_file) {
  std::vector<TokenizerFile> files;
  for (const char* name : kUseFiles) {
    const std::filesystem::path beside = tokenizer_file.parent_path() / name;
    if (std::filesystem::exists(beside))
      files.push_back({name, read_text_file(beside, InputKind::kData, kMaxUseBytes)});
  }
  return files;
}

namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_value(const std::filesystem::path& path, std::string_view key,
                               std::string_view expected) {
  throw DataError(error_message(printable_path(path), key, expected, "something else"));
}

/// The token at a key: a text, or an object with one.
void read_token(const std::filesystem::path& path, const Json& json, const char* key,
                std::optional<std::string>& content) {
  const auto token = json.find(key);
  if (token == json.end() || token->is_null()) return;
  const bool has_content = token->is_object() && token->contains("content");
  const Json& name = has_content ? (*token)["content"] : *token;
  if (!name.is_string()) refuse_value(path, key, "the text of a token");
  content = name.get<std::string>();
}

void read_flag(const std::filesystem::path& path, const Json& json, const char* key,
               std::optional<bool>& value) {
  const auto flag = json.find(key);
  if (flag == json.end() || flag->is_null()) return;
  if (!flag->is_boolean()) refuse_value(path, key, "true or false");
  value = flag->get<bool>();
}

Json json_of(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return Json::object();
  return Json::parse(read_json_object(path, InputKind::kData, kMaxUseBytes, kMaxUseDepth));
}

/// Reads special_tokens_map.json, which counts in transformers where tokenizer_config.json has no
/// added_tokens_decoder.
void read_map(const std::filesystem::path& path, TokenizerUse& use) {
  const Json json = json_of(path);
  const bool has_end = use.end.has_value();
  if (!use.begin) read_token(path, json, "bos_token", use.begin);
  if (!has_end) read_token(path, json, "eos_token", use.end);
  if (!has_end && use.end) use.file = printable_path(path);
}

}  // namespace

TokenizerUse read_tokenizer_use(const std::filesystem::path& tokenizer_file) {
  const std::filesystem::path path = tokenizer_file.parent_path() / kUseFiles[0];
  TokenizerUse use{.file = printable_path(path)};
  const Json json = json_of(path);
  read_token(path, json, "bos_token", use.begin);
  read_token(path, json, "eos_token", use.end);
  read_flag(path, json, "add_bos_token", use.begins_with_bos);
  read_flag(path, json, "clean_up_tokenization_spaces", use.cleans_up);
  read_flag(path, json, "separate_vocabs", use.separate_vocabs);
  if (const auto name = json.find(kOriginalKey); name != json.end()) {
    if (!name->is_string()) refuse_value(path, kOriginalKey, "the name of a file");
    use.original = name->get<std::string>();
  }
  if (!json.contains("added_tokens_decoder")) read_map(tokenizer_file.parent_path() / kUseFiles[1], use);
  return use;
}

}  // namespace moh

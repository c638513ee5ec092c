#include "train/tokenizers/files_of_use.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;
constexpr int kMaxDepth = 32;
constexpr std::array<const char*, 6> kNames = {"tokenizer_config.json", "special_tokens_map.json",
                                               "added_tokens.json",     "chat_template.jinja",
                                               "chat_template.json",    "generation_config.json"};

}  // namespace

std::vector<TokenizerFile> files_of_use(const std::filesystem::path& tokenizer_file) {
  std::vector<TokenizerFile> files;
  for (const char* name : kNames) {
    const std::filesystem::path beside = tokenizer_file.parent_path() / name;
    if (std::filesystem::exists(beside))
      files.push_back({name, read_text_file(beside, InputKind::kData, kMaxBytes)});
  }
  return files;
}

TokenizerUse read_tokenizer_use(const std::filesystem::path& tokenizer_file) {
  const std::filesystem::path path = tokenizer_file.parent_path() / kNames[0];
  TokenizerUse use{.file = printable_path(path)};
  if (!std::filesystem::exists(path)) return use;
  const auto json = nlohmann::json::parse(read_json_object(path, InputKind::kData, kMaxBytes, kMaxDepth));
  const auto fail = [&](std::string_view key, std::string_view expected) {
    throw DataError(error_message(use.file, key, expected, "something else"));
  };
  if (const auto token = json.find("eos_token"); token != json.end() && !token->is_null()) {
    // A text, or an object with one.
    const bool has_content = token->is_object() && token->contains("content");
    const auto& name = has_content ? (*token)["content"] : *token;
    if (!name.is_string()) fail("eos_token", "the text of a token");
    use.end = name.get<std::string>();
  }
  if (const auto flag = json.find("add_bos_token"); flag != json.end() && !flag->is_null()) {
    if (!flag->is_boolean()) fail("add_bos_token", "true or false");
    use.begins_with_bos = flag->get<bool>();
  }
  if (const auto name = json.find(kOriginalKey); name != json.end()) {
    if (!name->is_string()) fail(kOriginalKey, "the name of a file");
    use.original = name->get<std::string>();
  }
  return use;
}

}  // namespace moh

#include "train/apps/serve/tokenizer_info.h"

#include <nlohmann/json.hpp>

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

/// A text, or the content of an added token.
Json text_of(const Json& settings, const char* key) {
  const auto found = settings.find(key);
  if (found == settings.end()) return nullptr;
  if (found->is_string()) return *found;
  const bool is_token = found->is_object() && found->contains("content") && (*found)["content"].is_string();
  return is_token ? (*found)["content"] : Json(nullptr);
}

}  // namespace

std::string tokenizer_info(const TokenText& text) {
  const Tokenizer& tokenizer = text.tokenizer();
  Json info = {{"tokenizer_class", std::string(tokenizer.name())},
               {"vocab_size", tokenizer.vocab_size()},
               {"eos_token", text_or_null(text.end_text())},
               {"bos_token", text_or_null(text.start_text())},
               {"pad_token", nullptr},
               {"chat_template", nullptr}};
  for (const TokenizerFile& file : tokenizer.files()) {
    if (file.name == "tokenizer_config.json") {
      const Json settings = Json::parse(file.contents, nullptr, /*allow_exceptions=*/false);
      if (!settings.is_object()) continue;
      info["pad_token"] = text_of(settings, "pad_token");
      if (info["chat_template"].is_null()) info["chat_template"] = text_of(settings, "chat_template");
    }
    if (file.name == "chat_template.jinja") info["chat_template"] = file.contents;
  }
  return info.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace moh

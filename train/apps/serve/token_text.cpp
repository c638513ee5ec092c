#include "train/apps/serve/token_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/base/http/request_error.h"
#include "train/base/io/printable.h"

namespace moh {

TokenText::TokenText(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id)
    longest_ = std::max(longest_, bytes(static_cast<TokenId>(id)).size());
}

std::int64_t TokenText::tokens_at_least(std::size_t bytes) const {
  return static_cast<std::int64_t>(bytes / longest_ / 4);
}

std::string TokenText::end_text() const {
  const std::optional<TokenId> end = tokenizer_.end_of_document();
  return end ? std::string(tokenizer_.special_text(*end)) : std::string();
}

std::string TokenText::start_text() const {
  const std::optional<TokenId> start = tokenizer_.beginning();
  return start ? std::string(tokenizer_.special_text(*start)) : std::string();
}

std::vector<TokenId> TokenText::encode(const std::string& param, std::string_view text,
                                       bool with_start) const {
  std::vector<TokenId> ids;
  if (with_start) ids = tokenizer_.sequence_start();
  // Not every tokenizer finds its special tokens in a text: SentencePiece's do not.
  if (!text.empty() && text == end_text()) {
    ids.push_back(*tokenizer_.end_of_document());
  } else if (!text.empty() && text == start_text()) {
    ids.push_back(*tokenizer_.beginning());
  } else {
    try {
      tokenizer_.encode(text, ids);
    } catch (const DataError& error) {
      throw RequestError(400, param + ": " + error.what(), param);
    }
  }
  return ids;
}

void TokenText::require_known(const std::string& param, const std::vector<TokenId>& ids) const {
  for (const TokenId id : ids) {
    if (id < 0 || id >= tokenizer_.vocab_size())
      throw bad_parameter(param, "token ids from 0 to " + std::to_string(tokenizer_.vocab_size() - 1),
                          std::to_string(id));
  }
}

std::string_view TokenText::bytes(TokenId id) const {
  if (id < 0 || id >= tokenizer_.vocab_size()) return {};  // the model's vocabulary may be padded
  const std::string_view text = tokenizer_.token_bytes(id);
  return text.empty() ? tokenizer_.special_text(id) : text;
}

std::string TokenText::decode(const std::vector<TokenId>& ids) const {
  std::string text;
  for (const TokenId id : ids) text += bytes(id);
  if (tokenizer_.drops_leading_space() && text.starts_with(' ')) text.erase(0, 1);
  return with_valid_utf8(text);
}

std::string TokenText::name(TokenId id) const {
  const std::string_view text = bytes(id);
  if (text.empty()) return number_name(id);
  if (is_utf8(text)) return std::string(text);
  std::string name = "bytes:";
  for (const char byte : text) name += "\\x" + hex_digits({&byte, 1});
  return name;
}

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson text_or_null(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

/// A text, or the content of an added token.
OrderedJson text_of(const OrderedJson& settings, const char* key) {
  const auto found = settings.find(key);
  if (found == settings.end()) return nullptr;
  if (found->is_string()) return *found;
  const bool is_token = found->is_object() && found->contains("content") && (*found)["content"].is_string();
  return is_token ? (*found)["content"] : OrderedJson(nullptr);
}

}  // namespace

std::string tokenizer_info(const TokenText& text) {
  const Tokenizer& tokenizer = text.tokenizer();
  OrderedJson info = {{"tokenizer_class", std::string(tokenizer.name())},
                      {"vocab_size", tokenizer.vocab_size()},
                      {"eos_token", text_or_null(text.end_text())},
                      {"bos_token", text_or_null(text.start_text())},
                      {"pad_token", nullptr},
                      {"chat_template", nullptr}};
  for (const TokenizerFile& file : tokenizer.files()) {
    if (file.name == "tokenizer_config.json") {
      const OrderedJson settings = OrderedJson::parse(file.contents, nullptr, /*allow_exceptions=*/false);
      if (!settings.is_object()) continue;
      info["pad_token"] = text_of(settings, "pad_token");
      if (info["chat_template"].is_null()) info["chat_template"] = text_of(settings, "chat_template");
    }
    if (file.name == "chat_template.jinja") info["chat_template"] = file.contents;
  }
  return info.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace moh

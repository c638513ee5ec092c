#include "train/tokenizers/marian_vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/vocabulary_file.h"

namespace moh {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kBlanks = " \t\r\n";

/// Removes `c`, with blanks around it, from the beginning of a text.
bool take(char c, std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return true;
}

/// Bytes of the JSON text that follows its quotation mark, with the one that ends it; 0: it does not end.
std::size_t string_bytes(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') return i + 1;
    if (text[i] == '\\') ++i;
  }
  return 0;
}

[[noreturn]] void refuse_id(const MarianVocabulary& vocabulary, const std::string& token,
                            const std::string& expected, std::string_view found) {
  throw DataError(
      error_message(vocabulary.file, "'" + printable(token, 40) + "'", expected, printable(found, 40)));
}

}  // namespace

Vocabulary MarianVocabulary::ids() const {
  Vocabulary ids;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty()) ids.emplace(tokens[id], static_cast<TokenId>(id));
  return ids;
}

bool looks_like_vocabulary(std::string_view first_bytes) {
  std::string_view rest = first_bytes;
  if (!take('{', rest) || !take('"', rest)) return false;
  rest.remove_prefix(string_bytes(rest));
  return take(':', rest) && !rest.empty() && (rest[0] == '-' || (rest[0] >= '0' && rest[0] <= '9'));
}

MarianVocabulary parse_marian_vocabulary(const std::string& text, const std::filesystem::path& path) {
  MarianVocabulary vocabulary{printable_path(path), {}};
  const Json json = Json::parse(text);
  const std::int64_t most = most_id(json.size());
  for (const auto& [token, value] : json.items()) {
    if (!value.is_number_integer() || value < 0 || value > most)
      refuse_id(vocabulary, token,
                "an id of 0 ... " + std::to_string(most) + " for " + std::to_string(json.size()) + " tokens",
                value.dump(-1, ' ', false, Json::error_handler_t::replace));
    const auto id = value.get<std::size_t>();
    if (id >= vocabulary.tokens.size()) vocabulary.tokens.resize(id + 1);
    std::string& place = vocabulary.tokens[id];
    if (!place.empty())
      refuse_id(vocabulary, token, "an id that no other token has",
                std::to_string(id) + ", that of '" + printable(place, 40) + "'");
    place = token;
  }
  return vocabulary;
}

}  // namespace moh

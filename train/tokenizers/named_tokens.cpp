#include "train/tokenizers/named_tokens.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::uint64_t kMaxNamesBytes = std::uint64_t{16} << 20;
constexpr int kMaxNamesDepth = 32;
constexpr TokenId kMaxNamedId = 1 << 24;
constexpr const char* kDecoder = "added_tokens_decoder";
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

/// A file beside the tokenizer's; an empty object where it is not there.
class FileBeside {
 public:
  /// No name: no file.
  FileBeside(const std::filesystem::path& tokenizer_file, std::string_view name)
      : path_(tokenizer_file.parent_path() / name), json_(OrderedJson::object()) {
    if (!name.empty() && std::filesystem::exists(path_))
      json_ = OrderedJson::parse(read_json_object(path_, InputKind::kData, kMaxNamesBytes, kMaxNamesDepth));
  }

  const OrderedJson& json() const { return json_; }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  [[noreturn]] void fail(std::string_view place, std::string_view expected, const OrderedJson& found) const {
    throw DataError(
        error_message(printable_path(path_), place, expected,
                      printable(found.dump(-1, ' ', false, OrderedJson::error_handler_t::replace), 60)));
  }

  TokenId id_of(const std::string& place, const OrderedJson& value) const {
    if (!value.is_number_integer() || value < 0 || value > kMaxNamedId)
      fail(place, "an id of 0 ... " + std::to_string(kMaxNamedId), value);
    return value.get<TokenId>();
  }

  /// A token by its text, or an object of its content and flags. One that is special is not normalised,
  /// unless an object says otherwise.
  NamedToken token(const std::string& place, const OrderedJson& value, NamedToken::Kind kind) const {
    const bool special = kind == NamedToken::Kind::kRole || kind == NamedToken::Kind::kExtra;
    NamedToken named{printable_path(path_), place, kind, {.special = special}};
    AddedToken& token = named.token;
    const bool is_object = value.is_object() && value.contains("content") && value["content"].is_string();
    if (!is_object && !value.is_string())
      fail(place, "the text of a token, or an object with its content", value);
    token.content = is_object ? value["content"].get<std::string>() : value.get<std::string>();
    if (!is_object) return named;
    const auto flag = [&](const char* key, bool otherwise) {
      if (!value.contains(key) || value[key].is_null()) return otherwise;
      if (!value[key].is_boolean()) fail(place + "." + key, "true or false", value[key]);
      return value[key].get<bool>();
    };
    token.special = special || flag("special", false);
    token.single_word = flag("single_word", false);
    token.strips_left = flag("lstrip", false);
    token.strips_right = flag("rstrip", false);
    token.normalized = flag("normalized", !token.special);
    return named;
  }

 private:
  std::filesystem::path path_;
  OrderedJson json_;
};

using Kind = NamedToken::Kind;

void sort_by_id(std::vector<NamedToken>& tokens) {
  std::ranges::stable_sort(tokens, {}, [](const NamedToken& named) { return named.token.id; });
}

/// added_tokens_decoder: tokens by id, in the order of the ids.
void add_tokens_by_id(const FileBeside& file, std::vector<NamedToken>& tokens) {
  const OrderedJson& decoder = file.json()[kDecoder];
  if (!decoder.is_object()) file.fail(kDecoder, "an object of tokens by id", decoder);
  for (const auto& [key, value] : decoder.items()) {
    const std::string place = std::string(kDecoder) + "." + printable(key);
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxNamedId)
      file.fail(place, "an id of 0 ... " + std::to_string(kMaxNamedId), key);
    NamedToken named = file.token(place, value, Kind::kDecoder);
    named.token.id = id;
    tokens.push_back(std::move(named));
  }
  sort_by_id(tokens);
}

/// added_tokens.json: ids by text.
void add_ids(const FileBeside& file, std::vector<NamedToken>& tokens) {
  for (const auto& [content, id] : file.json().items()) {
    NamedToken named = file.token("'" + printable(content) + "'", OrderedJson(content), Kind::kId);
    named.token.id = file.id_of(named.place, id);
    named.token.normalized = true;
    tokens.push_back(std::move(named));
  }
  sort_by_id(tokens);
}

/// A token that has a role, of which both files must say the same.
void add_role(const FileBeside& config, const FileBeside& map, const char* key,
              std::vector<NamedToken>& tokens) {
  if (!config.has(key) && !map.has(key)) return;
  const FileBeside& file = config.has(key) ? config : map;
  tokens.push_back(file.token(key, file.json()[key], Kind::kRole));
  if (!config.has(key) || !map.has(key)) return;
  const NamedToken other = map.token(key, map.json()[key], Kind::kRole);
  if (other.token.content != tokens.back().token.content)
    map.fail(key, "'" + printable(tokens.back().token.content) + "', as in tokenizer_config.json",
             map.json()[key]);
}

/// Roles that only some models have: image_token, and the entries of an object extra_special_tokens.
void add_further_roles(const FileBeside& config, std::vector<NamedToken>& tokens) {
  for (const auto& [key, value] : config.json().items()) {
    const bool is_standard = std::ranges::find(kRoles, key) != std::end(kRoles);
    if (key.ends_with("_token") && !is_standard && value.is_string())
      tokens.push_back(config.token(printable(key), value, Kind::kExtra));
  }
}

/// A list of tokens, or an object of them by role.
void add_list(const FileBeside& file, const char* key, std::vector<NamedToken>& tokens) {
  const OrderedJson& list = file.json()[key];
  if (!list.is_array() && !list.is_object()) file.fail(key, "a list of tokens", list);
  for (const auto& [name, value] : list.items())
    tokens.push_back(file.token(std::string(key) + "." + printable(name), value, Kind::kExtra));
}

/// extra_special_tokens, as versions 5 of transformers call additional_special_tokens, which count without
/// it.
void add_extra(const FileBeside& config, const FileBeside& map, std::vector<NamedToken>& tokens) {
  for (const FileBeside* file : {&config, &map}) {
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
      if (file->has(key) && !file->json()[key].empty()) return add_list(*file, key, tokens);
    }
  }
}

/// The token as it is added: only an entry of added_tokens_decoder changes the flags of one that was added
/// before.
AddedToken with_known_flags(const NamedToken& named, const AddedVocabulary& added) {
  const AddedToken* known = added.find_added(named.token.content);
  if (named.kind == Kind::kDecoder || known == nullptr) return named.token;
  AddedToken token = *known;
  token.special = token.special || named.token.special;
  return token;
}

}  // namespace

std::vector<NamedToken> read_named_tokens(const std::filesystem::path& tokenizer_file) {
  const FileBeside config(tokenizer_file, "tokenizer_config.json");
  const bool has_decoder = config.has(kDecoder);
  // The tokens of the other files are in added_tokens_decoder, where there is one.
  const FileBeside map(tokenizer_file, has_decoder ? "" : "special_tokens_map.json");
  std::vector<NamedToken> tokens;
  if (has_decoder)
    add_tokens_by_id(config, tokens);
  else
    add_ids(FileBeside(tokenizer_file, "added_tokens.json"), tokens);
  for (const char* key : kRoles) add_role(config, map, key, tokens);
  add_further_roles(config, tokens);
  add_extra(config, map, tokens);
  std::erase_if(tokens, [](const NamedToken& named) { return named.token.content.empty(); });
  return tokens;
}

void add_named_tokens(const std::filesystem::path& tokenizer_file, AddedVocabulary& added) {
  for (const NamedToken& named : read_named_tokens(tokenizer_file)) {
    const std::string& content = named.token.content;
    const std::string shown = "'" + printable(content) + "'";
    const auto fail = [&](std::string_view expected, std::string_view found) {
      throw DataError(error_message(named.file, named.place, expected, found));
    };
    // A model that learned where documents end has the token in its own file.
    if (named.place == "eos_token" && !added.find(content)) fail("a token of tokenizer.json", shown);
    const TokenId given = added.id_for(content);
    if (named.has_id() && named.token.id != given) {
      fail("the id " + std::to_string(given) + " for " + shown + ", which the library gives",
           std::to_string(named.token.id));
    }
    if (const std::string other = added.other_of(given, content); !other.empty())
      fail("a free id for " + shown, std::to_string(given) + ", that of '" + printable(other, 40) + "'");
    added.add(with_known_flags(named, added));
  }
}

}  // namespace moh

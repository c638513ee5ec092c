#include "train/tokenizers/tokenizer_json.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/added_vocabulary.h"
#include "train/tokenizers/bpe_tokenizer.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/named_tokens.h"
#include "train/tokenizers/vocabulary_file.h"

namespace moh {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxTokenizerBytes = std::uint64_t{256} << 20;
constexpr int kMaxTokenizerDepth = 32;
/// Ids are places in arrays: a file must not make them large.
constexpr std::int64_t kMaxId = 1 << 24;

/// GPT-2's pattern of words, which ByteLevel applies by itself.
constexpr std::string_view kByteLevelWords =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/// Names of the token that ends a document, where no file says it.
constexpr std::array<std::string_view, 4> kEndNames = {"<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>"};

/// A value in the file, with its place for messages.
class Node {
 public:
  Node(const std::string& file, std::string place, const Json& value)
      : file_(&file), place_(std::move(place)), value_(&value) {}

  const Json& value() const { return *value_; }
  const std::string& place() const { return place_; }
  const std::string& file() const { return *file_; }

  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    throw DataError(error_message(*file_, place_, expected, found));
  }
  [[noreturn]] void fail(std::string_view expected) const { fail(expected, shown()); }

  bool has(const char* key) const {
    return value_->is_object() && value_->contains(key) && !(*value_)[key].is_null();
  }
  /// A member; throws where there is none.
  Node at(const char* key) const {
    if (!value_->is_object() || !value_->contains(key)) fail(std::string("an object with ") + key);
    return {*file_, place_.empty() ? key : place_ + "." + key, (*value_)[key]};
  }
  std::vector<Node> items() const {
    if (!value_->is_array()) fail("a list");
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < value_->size(); ++i)
      nodes.emplace_back(*file_, place_ + "[" + std::to_string(i) + "]", (*value_)[i]);
    return nodes;
  }
  const std::string& text() const {
    if (!value_->is_string()) fail("a text");
    return value_->get_ref<const std::string&>();
  }
  bool flag() const {
    if (!value_->is_boolean()) fail("true or false");
    return value_->get<bool>();
  }
  bool flag_or(const char* key, bool otherwise) const { return has(key) ? at(key).flag() : otherwise; }
  TokenId id() const {
    if (!value_->is_number_integer() || *value_ < 0 || *value_ > kMaxId)
      fail("an id of 0 ... " + std::to_string(kMaxId));
    return value_->get<TokenId>();
  }
  const std::string& type() const { return at("type").text(); }

  /// Refuses a component of a kind that is not read.
  [[noreturn]] void refuse_type(std::string_view known) const {
    at("type").fail("one of " + std::string(known));
  }

 private:
  std::string shown() const {
    return printable(value_->dump(-1, ' ', false, Json::error_handler_t::replace), 60);
  }

  const std::string* file_;
  std::string place_;
  const Json* value_;
};

/// The steps of a component that may be absent, one, or a sequence of them.
std::vector<Node> steps_of(const Node& root, const char* key, const char* list) {
  if (!root.has(key)) return {};
  std::vector<Node> open = {root.at(key)}, steps;
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    if (node.type() == "Sequence") {
      const std::vector<Node> inner = node.at(list).items();
      open.insert(open.end(), inner.rbegin(), inner.rend());
    } else {
      steps.push_back(node);
    }
  }
  return steps;
}

/// {"String": text}, each character for itself, or {"Regex": expression}.
Pattern pattern_of(const Node& node) {
  if (node.has("Regex")) return {node.at("Regex").text(), node.file() + ": " + node.place()};
  return {quoted_pattern(node.at("String").text()), node.file() + ": " + node.place()};
}

std::unique_ptr<const Normalizer> normalizer_of(const Node& node) {
  constexpr std::pair<std::string_view, UnicodeForm> kForms[] = {{"NFC", UnicodeForm::kNfc},
                                                                 {"NFD", UnicodeForm::kNfd},
                                                                 {"NFKC", UnicodeForm::kNfkc},
                                                                 {"NFKD", UnicodeForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (node.type() == name) return unicode_normalizer(form);
  }
  if (node.type() == "Prepend") return prepend_normalizer(node.at("prepend").text());
  if (node.type() == "Replace")
    return replace_normalizer(pattern_of(node.at("pattern")), node.at("content").text());
  node.refuse_type("NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence");
}

SplitBehavior behavior_of(const Node& node) {
  constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  for (const auto& [name, behavior] : kBehaviors) {
    if (node.text() == name) return behavior;
  }
  node.fail("one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

PrependScheme scheme_of(const Node& node) {
  // Files of earlier versions of the library have a flag in its place.
  if (!node.has("prepend_scheme"))
    return node.flag_or("add_prefix_space", true) ? PrependScheme::kAlways : PrependScheme::kNever;
  const Node scheme = node.at("prepend_scheme");
  if (scheme.text() == "never") return PrependScheme::kNever;
  if (scheme.text() == "first") return PrependScheme::kFirst;
  if (scheme.text() == "always") return PrependScheme::kAlways;
  scheme.fail("one of always, first, never");
}

std::unique_ptr<const PreTokenizer> split_at(std::string_view expression, SplitBehavior behavior,
                                             const Node& node) {
  return split_pre_tokenizer({expression, node.file() + ": " + node.place()}, behavior, /*invert=*/false);
}

/// Adds the steps of ByteLevel; that words are written in another alphabet is the vocabulary's business.
void add_byte_level(const Node& node, PreTokenizers& steps) {
  if (node.flag_or("add_prefix_space", true)) steps.push_back(add_space_pre_tokenizer());
  if (node.flag_or("use_regex", true))
    steps.push_back(split_at(kByteLevelWords, SplitBehavior::kIsolated, node));
}

void add_pre_tokenizer(const Node& node, PreTokenizers& steps) {
  const std::string& type = node.type();
  if (type == "ByteLevel") return add_byte_level(node, steps);
  if (type == "Split") {
    steps.push_back(split_pre_tokenizer(pattern_of(node.at("pattern")), behavior_of(node.at("behavior")),
                                        node.flag_or("invert", false)));
  } else if (type == "Digits") {
    const SplitBehavior behavior =
        node.flag_or("individual_digits", false) ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
    steps.push_back(split_at("\\p{N}", behavior, node));
  } else if (type == "Punctuation") {
    const SplitBehavior behavior =
        node.has("behavior") ? behavior_of(node.at("behavior")) : SplitBehavior::kIsolated;
    steps.push_back(split_at("[!-/:-@\\[-`{-~\\p{P}]", behavior, node));
  } else if (type == "Metaspace") {
    steps.push_back(
        metaspace_pre_tokenizer(node.at("replacement").text(), scheme_of(node), node.flag_or("split", true)));
  } else {
    node.refuse_type("ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split");
  }
}

/// The pre-tokenizers, and whether words are written in the alphabet of bytes.
bool read_pre_tokenizers(const Node& root, PreTokenizers& steps) {
  bool byte_level = false;
  for (const Node& node : steps_of(root, "pre_tokenizer", "pretokenizers")) {
    if (byte_level) node.at("type").fail("nothing after ByteLevel");
    add_pre_tokenizer(node, steps);
    byte_level = node.type() == "ByteLevel";
  }
  return byte_level;
}

Vocabulary read_vocabulary(const Node& model) {
  const Node node = model.at("vocab");
  if (!node.value().is_object()) node.fail("an object of ids by token");
  Vocabulary vocabulary;
  std::vector<std::uint8_t> used;
  for (const auto& [token, id] : node.value().items()) {
    const TokenId number = Node(node.file(), node.place() + ".'" + printable(token) + "'", id).id();
    const auto place = static_cast<std::size_t>(number);
    if (place >= used.size()) used.resize(place + 1);
    if (used[place]++ != 0) node.fail("ids that differ", std::to_string(number) + " twice");
    vocabulary.emplace(token, number);
  }
  return vocabulary;
}

/// A merge: "left right", or a list of the two.
std::pair<std::string_view, std::string_view> pair_of(const Node& node) {
  if (node.value().is_array() && node.value().size() == 2) {
    const std::vector<Node> parts = node.items();
    return {parts[0].text(), parts[1].text()};
  }
  const std::string_view text = node.text();
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
    node.fail("two tokens with a space between them");
  return {text.substr(0, space), text.substr(space + 1)};
}

/// The merges, each pair once: the last of its places counts, as in the library.
std::vector<BpeTables::Merge> without_repeated(std::vector<BpeTables::Merge> merges) {
  std::unordered_set<std::uint64_t> seen;
  const auto is_repeated = [&](const BpeTables::Merge& merge) {
    const auto left = static_cast<std::uint64_t>(merge.left), right = static_cast<std::uint64_t>(merge.right);
    return !seen.insert(left << 32 | right).second;
  };
  std::ranges::reverse(merges);
  std::erase_if(merges, is_repeated);
  std::ranges::reverse(merges);
  return merges;
}

std::vector<BpeTables::Merge> read_merges(const Node& model, const Vocabulary& vocabulary) {
  std::vector<BpeTables::Merge> merges;
  for (const Node& node : model.at("merges").items()) {
    const auto [left, right] = pair_of(node);
    const auto token = [&](const std::string& name) {
      const auto found = vocabulary.find(name);
      if (found == vocabulary.end())
        node.fail("tokens of the vocabulary, and one for both together",
                  "no token '" + printable(name) + "'");
      return found->second;
    };
    merges.push_back(
        {token(std::string(left)), token(std::string(right)), token(std::string(left) + std::string(right))});
  }
  return without_repeated(std::move(merges));
}

/// Ids of <0x00> ... <0xFF>; -1 for one that is not there.
std::vector<TokenId> byte_tokens_of(const Vocabulary& vocabulary) {
  std::vector<TokenId> ids;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    const auto found = vocabulary.find(name);
    ids.push_back(found == vocabulary.end() ? -1 : found->second);
  }
  return ids;
}

/// Refuses settings that would give other ids than those of plain byte-pair encoding.
void check_model(const Node& model) {
  // Old files do not say it: a model with merges is one.
  if (model.has("type") && model.type() != "BPE") model.refuse_type("BPE");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model.has(key) && !model.at(key).text().empty()) model.at(key).fail("null: words without marks");
  }
  if (model.has("dropout") && model.at("dropout").value() != 0)
    model.at("dropout").fail("null: the same ids each time");
}

BpeTables read_model(const Node& model, const Vocabulary& vocabulary, bool byte_level) {
  check_model(model);
  BpeTables tables;
  tables.byte_level = byte_level;
  tables.ignore_merges = model.flag_or("ignore_merges", false);
  tables.fuse_unknown = model.flag_or("fuse_unk", false);
  tables.merges = read_merges(model, vocabulary);
  if (model.flag_or("byte_fallback", false)) tables.byte_tokens = byte_tokens_of(vocabulary);
  if (model.has("unk_token")) {
    const auto found = vocabulary.find(model.at("unk_token").text());
    if (found == vocabulary.end()) model.at("unk_token").fail("a token of the vocabulary");
    tables.unknown = found->second;
  }
  for (const auto& [name, id] : vocabulary) {
    // A token with other characters than those of bytes is none that a word is encoded as.
    const std::optional<std::string> bytes =
        byte_level ? from_byte_level(name) : std::optional<std::string>(name);
    if (bytes) tables.tokens.push_back({*bytes, id});
  }
  return tables;
}

/// Adds the list of a file. The library gives ids by itself, whatever the list says: one that says otherwise
/// would train a model on other ids than those of every other program.
void read_added_tokens(const Node& root, AddedVocabulary& added) {
  if (!root.has("added_tokens")) return;
  for (const Node& node : root.at("added_tokens").items()) {
    const std::string& content = node.at("content").text();
    const Node stated = node.at("id");
    const TokenId id = stated.id();
    if (content.empty()) continue;  // as in the library
    const TokenId given = added.id_for(content);
    if (id != given) stated.fail(std::to_string(given) + ", which the library gives", std::to_string(id));
    if (const std::string other = added.other_of(id, content); !other.empty()) {
      stated.fail("an id that no other token has",
                  std::to_string(id) + ", that of '" + printable(other, 40) + "'");
    }
    added.add({.content = content,
               .single_word = node.flag_or("single_word", false),
               .strips_left = node.flag_or("lstrip", false),
               .strips_right = node.flag_or("rstrip", false),
               .normalized = node.flag_or("normalized", true),
               .special = node.flag_or("special", false)});
  }
}

/// How tokens become bytes again.
struct Decoding {
  bool byte_level = false, byte_fallback = false, drops_leading_space = false;
  std::vector<std::pair<std::string, std::string>> replacements;

  std::string operator()(std::string_view token) const {
    if (byte_level) return from_byte_level(token).value_or(std::string(token));
    if (byte_fallback && token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) {
      const std::size_t digits = token.find_first_not_of("0123456789ABCDEFabcdef", 3);
      if (digits == 5)
        return std::string(1, static_cast<char>(std::stoi(std::string(token.substr(3, 2)), nullptr, 16)));
    }
    std::string text(token);
    for (const auto& [from, to] : replacements) {
      for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    }
    return text;
  }
};

void add_decoding_step(const Node& node, Decoding& decoding) {
  const std::string& type = node.type();
  if (type == "ByteLevel") {
    decoding.byte_level = true;
  } else if (type == "ByteFallback") {
    decoding.byte_fallback = true;
  } else if (type == "Replace") {
    const Node pattern = node.at("pattern");
    if (!pattern.has("String") || pattern.at("String").text().empty())
      pattern.fail("{\"String\": ...}, a text that is replaced");
    decoding.replacements.emplace_back(pattern.at("String").text(), node.at("content").text());
  } else if (type == "Metaspace") {
    decoding.replacements.emplace_back(node.at("replacement").text(), " ");
    decoding.drops_leading_space = scheme_of(node) != PrependScheme::kNever;
  } else if (type == "Strip") {
    const bool is_leading_space =
        node.at("content").text() == " " && node.at("start").value() == 1 && node.at("stop").value() == 0;
    if (!is_leading_space) node.fail("one space at the start");
    decoding.drops_leading_space = true;
  } else if (type != "Fuse") {
    node.refuse_type("ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip");
  }
}

Decoding read_decoding(const Node& root) {
  Decoding decoding;
  const std::vector<Node> steps = steps_of(root, "decoder", "decoders");
  if (steps.empty()) root.at("decoder").fail("a decoder");
  for (const Node& node : steps) add_decoding_step(node, decoding);
  return decoding;
}

/// The ids of a template's token, which have to be those of the tokens that it names.
std::vector<TokenId> ids_of_special(const Node& token, const AddedVocabulary& added) {
  std::vector<TokenId> ids;
  const std::vector<Node> stated = token.at("ids").items();
  const std::vector<Node> names = token.has("tokens") ? token.at("tokens").items() : std::vector<Node>();
  if (!names.empty() && names.size() != stated.size())
    token.fail("as many ids as tokens",
               std::to_string(stated.size()) + " ids of " + std::to_string(names.size()));
  for (std::size_t i = 0; i < stated.size(); ++i) {
    ids.push_back(stated[i].id());
    if (names.empty()) continue;
    const std::string& name = names[i].text();
    const std::optional<TokenId> id = added.find(name);
    if (!id) names[i].fail("a token of this file", "'" + printable(name) + "'");
    if (*id != ids.back())
      stated[i].fail(std::to_string(*id) + ", the id of '" + printable(name) + "'",
                     std::to_string(ids.back()));
  }
  return ids;
}

/// Ids by which a template begins a text: those before {"Sequence": {"id": "A"}}.
std::vector<TokenId> read_sequence_start(const Node& root, const AddedVocabulary& added) {
  std::vector<TokenId> ids;
  for (const Node& node : steps_of(root, "post_processor", "processors")) {
    if (node.type() == "ByteLevel") continue;  // about places in the text alone
    if (node.type() != "TemplateProcessing") node.refuse_type("ByteLevel, Sequence, TemplateProcessing");
    for (const Node& part : node.at("single").items()) {
      if (part.has("Sequence")) break;
      const Node token = node.at("special_tokens").at(part.at("SpecialToken").at("id").text().c_str());
      std::ranges::move(ids_of_special(token, added), std::back_inserter(ids));
    }
  }
  return ids;
}

std::optional<TokenId> end_of_document_of(const TokenizerUse& use, const AddedVocabulary& added) {
  if (!use.end.value_or("").empty()) return added.find(*use.end);
  for (const std::string_view name : kEndNames) {
    if (const std::optional<TokenId> id = added.find(name)) return id;
  }
  return std::nullopt;
}

/// By id: what tokens are decoded to.
std::vector<std::string> bytes_of_tokens(const Node& root, const Vocabulary& vocabulary,
                                         const std::vector<AddedToken>& added, const Decoding& decoding) {
  TokenId last = -1;
  for (const auto& [name, id] : vocabulary) last = std::max(last, id);
  for (const AddedToken& token : added) last = std::max(last, token.id);
  const std::int64_t most = most_id(vocabulary.size() + added.size());
  if (last > most) {
    root.fail(
        "ids of at most " + std::to_string(most) + " for " + std::to_string(vocabulary.size()) + " tokens",
        std::to_string(last));
  }
  std::vector<std::string> bytes(static_cast<std::size_t>(last) + 1);
  for (const auto& [name, id] : vocabulary) bytes[static_cast<std::size_t>(id)] = decoding(name);
  for (const AddedToken& token : added)
    bytes[static_cast<std::size_t>(token.id)] = token.special ? std::string() : decoding(token.content);
  return bytes;
}

/// The properties of added tokens that determine ids.
std::string text_of_added(const AddedVocabulary& added) {
  std::string text;
  for (const AddedToken& token : added.tokens()) {
    text.append(token.content).append(1, '\0').append(std::to_string(token.id));
    for (const bool flag : {token.single_word, token.strips_left, token.strips_right, token.normalized})
      text.append(1, flag ? '1' : '0');
  }
  return text;
}

/// The hash of what determines ids, the added tokens of the file and of those beside among it: not of the
/// file's white space, of settings of a call (truncation, padding), or of the form in which merges are
/// written, which versions of the library change.
std::uint64_t hash_of_json(const Node& root, const AddedVocabulary& added, const AddedVocabulary& of_file) {
  Json rest = root.value();
  for (const char* key : {"version", "truncation", "padding"}) rest.erase(key);
  rest["model"].erase("merges");
  std::string text = rest.dump();
  for (const Node& merge : root.at("model").at("merges").items()) {
    const auto [left, right] = pair_of(merge);
    text.append(left).append(1, '\0').append(right).append(1, '\0');
  }
  if (const std::string all = text_of_added(added); all != text_of_added(of_file)) text += all;
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

std::unique_ptr<const Tokenizer> read_tokenizer_json(const std::filesystem::path& path) {
  const std::string file = printable_path(path);
  const std::string text = read_json_object(path, InputKind::kData, kMaxTokenizerBytes, kMaxTokenizerDepth);
  const Json json = Json::parse(text);
  const Node root(file, "", json);
  BpeTokenizerParts parts;
  parts.name = "tokenizer.json";
  for (const Node& node : steps_of(root, "normalizer", "normalizers"))
    parts.normalizers.push_back(normalizer_of(node));
  const bool byte_level = read_pre_tokenizers(root, parts.pre_tokenizers);
  const Node model = root.at("model");
  const Vocabulary vocabulary = read_vocabulary(model);
  AddedVocabulary added(vocabulary);
  read_added_tokens(root, added);
  const AddedVocabulary of_file = added;
  add_named_tokens(path, added);
  parts.added = added.tokens();
  parts.tables = read_model(model, vocabulary, byte_level);
  const Decoding decoding = read_decoding(root);
  parts.drops_leading_space = decoding.drops_leading_space;
  parts.sequence_start = read_sequence_start(root, added);
  parts.bytes = bytes_of_tokens(root, vocabulary, parts.added, decoding);
  const TokenizerUse use = read_tokenizer_use(path);
  parts.end_of_document = end_of_document_of(use, added);
  if (use.begin) parts.beginning = added.find(*use.begin);
  parts.content_hash = hash_of_json(root, added, of_file);
  parts.files = files_of_use(path);
  parts.files.insert(parts.files.begin(), {"tokenizer.json", text});
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace moh

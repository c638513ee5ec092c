#include "train/tokenizers/write_tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/tokenizers/sentencepiece_json.h"
#include "train/tokenizers/sentencepiece_segmentation.h"
#include "train/tokenizers/tiktoken.h"
#include "train/tokenizers/tiktoken_encodings.h"
#include "train/tokenizers/vocabulary_file.h"

namespace moh {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

OrderedJson special_token(const std::string& name, TokenId id) {
  return {{"id", id},        {"content", name},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// The template by which a text begins with these ids when special tokens are asked for; null for none.
OrderedJson template_of(std::span<const TokenId> ids, const std::unordered_map<TokenId, std::string>& names) {
  if (ids.empty()) return {};
  OrderedJson single = OrderedJson::array(), tokens = OrderedJson::object();
  for (const TokenId id : ids) {
    const std::string& name = names.at(id);
    single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    tokens[name] = {{"id", name}, {"ids", OrderedJson::array({id})}, {"tokens", OrderedJson::array({name})}};
  }
  OrderedJson pair = single;
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const char* part : {"A", "B"}) pair.push_back({{"Sequence", {{"id", part}, {"type_id", 0}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

/// The first merge first.
OrderedJson merges_by_name(const BpeTables& tables, const std::unordered_map<TokenId, std::string>& names) {
  std::vector<std::size_t> order(tables.merges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return tables.ranks[i]; });
  OrderedJson merges = OrderedJson::array();
  for (const std::size_t i : order)
    merges.push_back({names.at(tables.merges[i].left), names.at(tables.merges[i].right)});
  return merges;
}

struct BpeModel {
  OrderedJson vocabulary, merges;
  OrderedJson unknown = nullptr;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

OrderedJson bpe_model(const BpeModel& model) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", model.unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", model.fuse_unknown},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", model.ignore_merges},
          {"vocab", model.vocabulary},
          {"merges", model.merges}};
}

/// The parts of a file; null: none.
struct FileParts {
  OrderedJson added, normalizer = nullptr, pre_tokenizer = nullptr, post_processor = nullptr, decoder, model;
};

std::string json_text(const FileParts& parts) {
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", parts.added},
                            {"normalizer", parts.normalizer},
                            {"pre_tokenizer", parts.pre_tokenizer},
                            {"post_processor", parts.post_processor},
                            {"decoder", parts.decoder},
                            {"model", parts.model}};
  return json.dump(2) + "\n";
}

OrderedJson unigram_model(const SentencePieceModel& model) {
  OrderedJson vocabulary = OrderedJson::array();
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    const bool is_defined = piece.type == PieceType::kUserDefined;
    vocabulary.push_back({piece.text, is_defined ? user_defined_score(piece.text) : piece.score});
  }
  return {{"type", "Unigram"},
          {"unk_id", model.unknown},
          {"vocab", vocabulary},
          {"byte_fallback", model.byte_fallback}};
}

OrderedJson piece_model(const SentencePieceModel& model,
                        const std::unordered_map<TokenId, std::string>& names, const std::string& where) {
  const PieceMerges merges = piece_merges(model, where);
  if (!merges.characters.empty()) {
    throw DataError(error_message(where, "pieces", "all characters of pieces, as in a tokenizer.json",
                                  "none for '" + printable(merges.characters.front()) + "'"));
  }
  OrderedJson::object_t vocabulary;
  bool has_defined = false;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    vocabulary.Container::emplace_back(model.pieces[id].text, id);
    has_defined = has_defined || model.pieces[id].type == PieceType::kUserDefined;
  }
  return bpe_model({.vocabulary = vocabulary,
                    .merges = merges_by_name(merges.tables, names),
                    .unknown = names.at(model.unknown),
                    .fuse_unknown = true,
                    .byte_fallback = model.byte_fallback,
                    .ignore_merges = has_defined});
}

std::string json_of_ranks(const TiktokenFile& file, std::span<const TokenId> sequence_start,
                          const std::string& where) {
  OrderedJson::object_t vocabulary;
  std::unordered_map<TokenId, std::string> names;
  std::unordered_set<std::string_view> used;
  for (const TiktokenRank& rank : file.ranks) {
    const std::string& name = names[rank.id] = to_byte_level(rank.bytes);
    vocabulary.Container::emplace_back(name, rank.id);
    used.insert(name);
  }
  OrderedJson added = OrderedJson::array();
  for (const auto& [name, id] : file.encoding.special) {
    // The library gives an added token the id that the vocabulary says.
    if (!used.insert(name).second) {
      throw DataError(error_message(where, "special_tokens, '" + printable(name) + "'",
                                    "a name that no rank has in a tokenizer.json", "one that does"));
    }
    names[id] = name;
    vocabulary.Container::emplace_back(name, id);
    added.push_back(special_token(name, id));
  }
  const BpeTables tables = tiktoken_tables(file.ranks, where);
  const OrderedJson words = {{"type", "Split"},
                             {"pattern", {{"Regex", with_unicode_16(file.encoding.pattern)}}},
                             {"behavior", "Removed"},
                             {"invert", true}};
  return json_text(
      {.added = added,
       .pre_tokenizer = {{"type", "Sequence"},
                         {"pretokenizers", OrderedJson::array({words, byte_level(false)})}},
       .post_processor = template_of(sequence_start, names),
       .decoder = byte_level(true),
       .model = bpe_model(
           {.vocabulary = vocabulary, .merges = merges_by_name(tables, names), .ignore_merges = true})});
}

std::string json_of_pieces(const SentencePieceModel& model, std::span<const TokenId> sequence_start,
                           const std::string& where) {
  OrderedJson added = OrderedJson::array();
  std::unordered_map<TokenId, std::string> names;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    names[id] = piece.text;
    if (piece.type == PieceType::kControl || piece.type == PieceType::kUnknown)
      added.push_back(special_token(piece.text, id));
    if (piece.type == PieceType::kUnused) {
      throw DataError(error_message(where, "piece " + std::to_string(id),
                                    "pieces in use, as in a tokenizer.json", "an unused one"));
    }
  }
  return json_text({.added = added,
                    .normalizer = OrderedJson::parse(normalizer_json(model)),
                    .pre_tokenizer = OrderedJson::parse(pre_tokenizer_json(model)),
                    .post_processor = template_of(sequence_start, names),
                    .decoder = OrderedJson::parse(decoder_json(model)),
                    .model = model.is_unigram ? unigram_model(model) : piece_model(model, names, where)});
}

}  // namespace

std::string tokenizer_json_of(const std::filesystem::path& file) {
  const std::string where = printable_path(file);
  const auto tokenizer = open_tokenizer("tokenizer", file);
  if (tokenizer->name() == "tokenizer.tiktoken")
    return json_of_ranks(read_tiktoken_file(file), tokenizer->sequence_start(), where);
  if (tokenizer->name() == "tokenizer.model") {
    const SentencePieceModel model = parse_sentencepiece_model(tokenizer->files()[0].contents, where);
    return json_of_pieces(model, tokenizer->sequence_start(), where);
  }
  throw DataError(
      error_message(where, "", "a SentencePiece model, or tiktoken's ranks", std::string(tokenizer->name())));
}

}  // namespace moh

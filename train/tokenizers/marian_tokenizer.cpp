#include "train/tokenizers/marian_tokenizer.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/clean_up.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/marian_side.h"
#include "train/tokenizers/named_tokens.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMarianTargetVocabulary = "target_vocab.json";
constexpr std::uint64_t kMaxMarianBytes = std::uint64_t{256} << 20;
constexpr int kMaxMarianDepth = 4;

/// The names of the tokens with a role.
struct Roles {
  std::string end = "</s>", unknown = "<unk>", padding = "<pad>";

  std::array<std::string_view, 3> names() const { return {end, unknown, padding}; }
};

/// A tokenizer with both of its languages.
struct MarianPair {
  MarianSide source, target;
  TokenId end = 0;  ///< in both
  bool cleans_up = false;
  std::uint64_t content_hash = 0;
  std::vector<TokenizerFile> files = {};
};

std::string shown(std::string_view token) {
  return "'" + printable(token, 40) + "'";
}

class MarianTokenizer final : public Tokenizer {
 public:
  MarianTokenizer(std::shared_ptr<const MarianPair> pair, const MarianSide& side)
      : pair_(std::move(pair)), side_(side) {}

  std::string_view name() const override { return kMarianVocabulary; }
  std::int64_t vocab_size() const override { return side_.size(); }
  std::uint64_t content_hash() const override { return pair_->content_hash; }
  std::optional<TokenId> end_of_document() const override { return pair_->end; }
  bool drops_leading_space() const override { return true; }
  std::unique_ptr<const Tokenizer> target_side() const override {
    return std::make_unique<MarianTokenizer>(pair_, pair_->target);
  }
  const std::vector<TokenizerFile>& files() const override { return pair_->files; }

  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    side_.encode(text, TextPlace::kBeginning, ids);
  }
  void encode_rest(std::string_view text, std::vector<TokenId>& ids) const override {
    side_.encode(text, TextPlace::kMiddle, ids);
  }
  std::string_view token_bytes(TokenId id) const override {
    if (id < 0 || id >= vocab_size()) {
      throw ValueError(error_message("tokenizer", "token id", "0 ... " + std::to_string(vocab_size() - 1),
                                     std::to_string(id)));
    }
    return side_.bytes(id);
  }
  std::string_view special_text(TokenId id) const override {
    return token_bytes(id).empty() ? side_.added_text(id) : std::string_view();
  }
  std::string cleaned_up(std::string text) const override {
    return pair_->cleans_up ? clean_up_tokenization(text) : text;
  }

 private:
  std::shared_ptr<const MarianPair> pair_;
  const MarianSide& side_;
};

/// Reads the files of a tokenizer, and keeps their contents.
class MarianReader {
 public:
  explicit MarianReader(const fs::path& vocabulary)
      : path_(vocabulary), use_(read_tokenizer_use(path_)), named_(read_named_tokens(path_)) {
    for (const NamedToken& named : named_) {
      if (named.kind != NamedToken::Kind::kRole) continue;
      if (named.place == "eos_token") roles_.end = named.token.content;
      if (named.place == "unk_token") roles_.unknown = named.token.content;
      if (named.place == "pad_token") roles_.padding = named.token.content;
    }
  }

  MarianPair read() {
    const MarianVocabulary vocabulary = read_vocabulary(path_, kMarianVocabulary);
    const auto source_pieces = read_pieces(kMarianSource), target_pieces = read_pieces(kMarianTarget);
    const std::vector<AddedToken> added = added_tokens(vocabulary);
    MarianSide source(source_pieces, vocabulary, added, roles_.unknown);
    MarianSide target = use_.separate_vocabs == true
                            ? separate_side(target_pieces, added)
                            : MarianSide(target_pieces, vocabulary, added, roles_.unknown);
    MarianPair pair{std::move(source), std::move(target)};
    pair.end = std::ranges::find(added, roles_.end, &AddedToken::content)->id;
    pair.cleans_up = use_.cleans_up == true;
    pair.content_hash = XXH3_64bits(determining_.data(), determining_.size());
    std::ranges::move(files_of_use(path_), std::back_inserter(files_));
    pair.files = std::move(files_);
    return pair;
  }

 private:
  fs::path beside(const char* name) const { return path_.parent_path() / name; }

  MarianVocabulary read_vocabulary(const fs::path& path, const char* name) {
    std::string text = read_json_object(path, InputKind::kData, kMaxMarianBytes, kMaxMarianDepth);
    MarianVocabulary vocabulary = parse_marian_vocabulary(text, path);
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) determine(vocabulary.tokens[id], id);
    files_.push_back({name, std::move(text)});
    return vocabulary;
  }

  std::shared_ptr<const SentencePieces> read_pieces(const char* name) {
    const fs::path path = beside(name);
    const std::string where = printable_path(path);
    std::string bytes = read_text_file(path, InputKind::kData, kMaxMarianBytes);
    auto pieces = std::make_shared<SentencePieces>(parse_sentencepiece_model(bytes, where), where);
    determine(bytes, bytes.size());
    files_.push_back({name, std::move(bytes)});
    return pieces;
  }

  /// The tokens of vocab.json that texts may name, and those that the files beside add to it.
  std::vector<AddedToken> added_tokens(const MarianVocabulary& vocabulary) {
    const Vocabulary ids = vocabulary.ids();
    AddedVocabulary added(ids);
    for (const std::string_view name : roles_.names()) require(ids, name, vocabulary);
    add_named_tokens(path_, added);
    for (const std::string_view name : roles_.names())
      if (added.find_added(name) == nullptr) added.add({.content = std::string(name), .special = true});
    std::vector<AddedToken> tokens = added.tokens();
    std::ranges::sort(tokens, {}, &AddedToken::id);
    for (const AddedToken& token : tokens) {
      determine(token.content, static_cast<std::size_t>(token.id));
      for (const bool flag : {token.single_word, token.strips_left, token.strips_right})
        determining_ += flag ? '1' : '0';
    }
    return tokens;
  }

  /// The target language with a vocabulary of its own, in which the added tokens have other ids, except the
  /// one that ends sentences.
  MarianSide separate_side(std::shared_ptr<const SentencePieces> pieces, std::vector<AddedToken> added) {
    const MarianVocabulary vocabulary =
        read_vocabulary(beside(kMarianTargetVocabulary), kMarianTargetVocabulary);
    const Vocabulary ids = vocabulary.ids();
    for (AddedToken& token : added) {
      const TokenId id = require(ids, token.content, vocabulary);
      if (token.content == roles_.end && id != token.id)
        throw DataError(error_message(vocabulary.file, shown(token.content),
                                      std::to_string(token.id) + ", as in vocab.json", std::to_string(id)));
      token.id = id;
    }
    return {std::move(pieces), vocabulary, std::move(added), roles_.unknown};
  }

  /// The id of a token that the vocabulary must have.
  static TokenId require(const Vocabulary& ids, std::string_view token, const MarianVocabulary& vocabulary) {
    const auto found = ids.find(token);
    if (found == ids.end())
      throw DataError(error_message(vocabulary.file, "", "the token " + shown(token), "none"));
    return found->second;
  }

  /// Notes what the ids of texts depend on.
  void determine(std::string_view text, std::size_t number) {
    determining_.append(text).append(1, '\0').append(std::to_string(number)).append(1, '\0');
  }

  fs::path path_;
  TokenizerUse use_;
  std::vector<NamedToken> named_;
  Roles roles_;
  std::string determining_;
  std::vector<TokenizerFile> files_;
};

}  // namespace

std::unique_ptr<const Tokenizer> read_marian(const fs::path& vocabulary) {
  const auto pair = std::make_shared<const MarianPair>(MarianReader(vocabulary).read());
  return std::make_unique<MarianTokenizer>(pair, pair->source);
}

}  // namespace moh

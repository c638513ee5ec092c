#include "train/tokenizers/piece_merges.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

class MergeFinder {
 public:
  MergeFinder(const SentencePieceModel& model, const std::string& where) : model_(model) {
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
      const SentencePieceModel::Piece& piece = model.pieces[id];
      if (piece.type == PieceType::kUnused) {
        throw DataError(error_message(where, "piece " + std::to_string(id),
                                      "pieces in use, as of a byte-pair encoding", "an unused one"));
      }
      if (piece.type == PieceType::kNormal) add_symbol(piece.text, static_cast<TokenId>(id));
    }
  }

  PieceMerges operator()() {
    std::vector<std::size_t> order;
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      if (model_.pieces[id].type == PieceType::kNormal) order.push_back(id);
    }
    const auto score = [&](std::size_t id) { return model_.pieces[id].score; };
    std::ranges::stable_sort(order, std::ranges::greater(), score);
    std::int32_t rank = -1;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || score(order[i]) != score(order[i - 1])) ++rank;
      add_merges(static_cast<TokenId>(order[i]), rank);
    }
    found_.tables.byte_tokens = byte_tokens_of(model_);
    found_.tables.unknown = model_.unknown;
    return std::move(found_);
  }

 private:
  TokenId add_symbol(std::string_view text, TokenId id) {
    const auto [at, is_new] = symbols_.try_emplace(text, id);
    if (is_new) found_.tables.tokens.push_back({std::string(text), id});
    return at->second;
  }

  /// The symbol of a part of a piece: a piece itself, or a character. Nothing for other texts.
  std::optional<TokenId> symbol_of(std::string_view part) {
    if (const auto found = symbols_.find(part); found != symbols_.end()) return found->second;
    if (first_character(part).size() != part.size()) return std::nullopt;
    found_.characters.emplace_back(part);
    return add_symbol(part, static_cast<TokenId>(model_.pieces.size() + found_.characters.size() - 1));
  }

  void add_merges(TokenId id, std::int32_t rank) {
    const std::string_view text = model_.pieces[static_cast<std::size_t>(id)].text;
    for (std::size_t cut = first_character(text).size(); cut < text.size();
         cut += first_character(text.substr(cut)).size()) {
      const auto left = symbol_of(text.substr(0, cut)), right = symbol_of(text.substr(cut));
      if (!left || !right) continue;
      found_.tables.merges.push_back({*left, *right, id});
      found_.tables.ranks.push_back(rank);
    }
  }

  const SentencePieceModel& model_;
  PieceMerges found_;
  // Texts are those of the model.
  std::unordered_map<std::string_view, TokenId> symbols_;
};

}  // namespace

PieceMerges piece_merges(const SentencePieceModel& model, const std::string& where) {
  return MergeFinder(model, where)();
}

std::vector<TokenId> byte_tokens_of(const SentencePieceModel& model) {
  if (!model.byte_fallback) return {};
  std::vector<TokenId> ids(256);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    if (piece.type == PieceType::kByte)
      ids[std::stoul(piece.text.substr(3, 2), nullptr, 16)] = static_cast<TokenId>(id);
  }
  return ids;
}

}  // namespace moh

#include "train/tokenizers/sentencepiece_segmentation.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
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

namespace {

/// Below the score of the least probable piece.
constexpr float kUnknownPenalty = 10;

/// A path below this score becomes the zero of all that follow, as in sentencepiece 0.2.3.
constexpr float kLowestScore = -100000;

/// The best path to a place of the text: its score, and its last piece. All arithmetic is in single
/// precision, as in sentencepiece: paths of equal scores are told apart by their rounding.
struct Arrival {
  float score = 0;
  std::int32_t begin = -1;  // of the piece; -1: no path yet
  TokenId id = -1;

  /// Among equal paths the first counts.
  void improve(float other_score, std::int32_t other_begin, TokenId other_id) {
    if (begin >= 0 && !(other_score > score)) return;
    *this = {other_score, other_begin, other_id};
  }
};

/// Subtracts the score of the first of these places from those of all that have a path.
void rebase(std::span<Arrival> arrivals) {
  const float zero = arrivals.front().score;
  for (Arrival& arrival : arrivals) {
    if (arrival.begin >= 0) arrival.score -= zero;
  }
}

}  // namespace

float user_defined_score(std::string_view piece) {
  return 0.1F * static_cast<float>(piece.size()) - 0.1F;
}

Unigram::Unigram(const SentencePieceModel& model) : unknown_(model.unknown) {
  float lowest = std::numeric_limits<float>::max();
  std::vector<PieceTrie::Piece> pieces;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    const bool is_defined = piece.type == PieceType::kUserDefined;
    if (piece.type == PieceType::kNormal) lowest = std::min(lowest, piece.score);
    if (piece.type == PieceType::kNormal || is_defined)
      pieces.push_back({piece.text, static_cast<std::int32_t>(id)});
    longest_ = std::max(longest_, piece.text.size());
    scores_.push_back(is_defined ? user_defined_score(piece.text) : piece.score);
  }
  pieces_ = PieceTrie(std::move(pieces));
  unknown_score_ = lowest - kUnknownPenalty;
}

void Unigram::cut(std::string_view text, std::vector<Part>& parts) const {
  thread_local std::vector<Arrival> arrivals;
  arrivals.assign(text.size() + 1, {});
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t character = first_character(text.substr(begin)).size();
    if (arrivals[begin].score < kLowestScore)
      rebase(std::span(arrivals).subspan(begin, std::min(longest_, text.size() - begin) + 1));
    const float score = arrivals[begin].score;
    const auto from = static_cast<std::int32_t>(begin);
    bool has_character = false;
    std::int32_t node = 0;
    for (std::size_t end = begin; end < text.size();) {
      node = pieces_.child(node, text[end++]);
      if (node < 0) break;
      const std::int32_t piece = pieces_.value(node);
      if (piece < 0) continue;
      arrivals[end].improve(score + scores_[static_cast<std::size_t>(piece)], from, piece);
      has_character = has_character || end - begin == character;
    }
    if (!has_character) arrivals[begin + character].improve(score + unknown_score_, from, unknown_);
    begin += character;
  }
  parts.clear();
  for (std::size_t end = text.size(); end > 0;) {
    const Arrival& arrival = arrivals[end];
    const auto begin = static_cast<std::size_t>(arrival.begin);
    parts.push_back({arrival.id, text.substr(begin, end - begin)});
    end = begin;
  }
  std::ranges::reverse(parts);
}

}  // namespace moh

#include "train/tokenizers/unigram.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "train/base/io/printable.h"

namespace moh {

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

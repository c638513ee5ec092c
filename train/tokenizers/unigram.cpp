#include "train/tokenizers/unigram.h"

#include <algorithm>
#include <limits>

#include "train/io/printable.h"

namespace moh {

namespace {

/// Below the score of the least probable piece.
constexpr float kUnknownPenalty = 10;

/// The best path to a place of the text: its score, and its last piece.
struct Arrival {
  double score = 0;
  std::int32_t begin = -1;  // of the piece; -1: no path yet
  TokenId id = -1;

  /// Of equal paths the first counts.
  void improve(double other_score, std::int32_t other_begin, TokenId other_id) {
    if (begin >= 0 && !(other_score > score)) return;
    *this = {other_score, other_begin, other_id};
  }
};

}  // namespace

Unigram::Unigram(const SentencePieceModel& model)
    // The least positive float takes the place of a highest score, where all are negative.
    : unknown_(model.unknown), highest_(std::numeric_limits<float>::min()) {
  float lowest = std::numeric_limits<float>::max();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    scores_.push_back(piece.score);
    user_defined_.push_back(piece.type == PieceType::kUserDefined);
    if (piece.type == PieceType::kNormal) {
      lowest = std::min(lowest, piece.score);
      highest_ = std::max(highest_, piece.score);
    }
    if (piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined)
      pieces_.add(piece.text, static_cast<std::int32_t>(id));
  }
  unknown_score_ = lowest - kUnknownPenalty;
}

/// User-defined pieces are always preferred.
/// User-defined pieces are always preferred.
double Unigram::bonus_or_score(std::int32_t piece, std::size_t bytes) const {
  const auto id = static_cast<std::size_t>(piece);
  if (!user_defined_[id]) return static_cast<double>(scores_[id]);
  return static_cast<double>(static_cast<float>(bytes) * highest_) - 0.1;
}

void Unigram::cut(std::string_view text, std::vector<Part>& parts) const {
  thread_local std::vector<Arrival> arrivals;
  arrivals.assign(text.size() + 1, {});
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t character = first_character(text.substr(begin)).size();
    const double score = arrivals[begin].score;
    const auto from = static_cast<std::int32_t>(begin);
    bool has_character = false;
    std::int32_t node = 0;
    for (std::size_t end = begin; end < text.size();) {
      node = pieces_.child(node, text[end++]);
      if (node < 0) break;
      const std::int32_t piece = pieces_.value(node);
      if (piece < 0) continue;
      arrivals[end].improve(score + bonus_or_score(piece, end - begin), from, piece);
      has_character = has_character || end - begin == character;
    }
    if (!has_character)
      arrivals[begin + character].improve(score + static_cast<double>(unknown_score_), from, unknown_);
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

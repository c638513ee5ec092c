#include "train/tokenizers/pre_tokenizer.h"

#include <optional>
#include <utility>

namespace moh {

namespace {

/// A part of a piece, and whether the pattern matches it.
struct Part {
  TextRange range;
  bool matches = false;
};

/// Joins parts, which arrive in order, as a SplitBehavior says.
class PartJoiner {
 public:
  PartJoiner(SplitBehavior behavior, const Piece& piece, EmitPiece emit)
      : behavior_(behavior), piece_(piece), emit_(emit) {}

  void add(const Part& part) {
    if (last_ && joins(part)) {
      last_->range.end = part.range.end;
    } else {
      flush();
      last_ = part;
    }
    previous_matches_ = part.matches;
  }
  void flush() {
    if (!last_) return;
    const Part part = *std::exchange(last_, std::nullopt);
    const std::size_t size = part.range.end - part.range.begin;
    if (size == 0 || (behavior_ == SplitBehavior::kRemoved && part.matches)) return;
    emit_({piece_.text.substr(part.range.begin, size), piece_.first && part.range.begin == 0});
  }

 private:
  /// Whether the part belongs to the one before it.
  bool joins(const Part& part) const {
    switch (behavior_) {
      case SplitBehavior::kMergedWithPrevious:
        return part.matches && !previous_matches_;
      case SplitBehavior::kMergedWithNext:
        return previous_matches_ && !part.matches;
      case SplitBehavior::kContiguous:
        return part.matches == previous_matches_;
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated:
        break;
    }
    return false;
  }

  SplitBehavior behavior_;
  const Piece& piece_;
  EmitPiece emit_;
  std::optional<Part> last_;
  bool previous_matches_ = false;
};

class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void operator()(const Piece& piece, EmitPiece emit) const override {
    PartJoiner parts(behavior_, piece, emit);
    Pattern::Matches matches(pattern_, piece.text);
    std::size_t end = 0;
    for (TextRange match; matches.next(match); end = match.end) {
      if (match.begin > end) parts.add({{end, match.begin}, invert_});
      parts.add({match, !invert_});
    }
    if (end < piece.text.size()) parts.add({{end, piece.text.size()}, invert_});
    parts.flush();
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class AddSpacePreTokenizer final : public PreTokenizer {
 public:
  void operator()(const Piece& piece, EmitPiece emit) const override {
    if (piece.text.starts_with(' ')) return emit(piece);
    const std::string with_space = ' ' + std::string(piece.text);
    emit({with_space, piece.first});
  }
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  MetaspacePreTokenizer(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void operator()(const Piece& piece, EmitPiece emit) const override {
    const std::string text = replaced(piece);
    std::size_t begin = 0;
    while (begin < text.size()) {
      std::size_t end = split_ ? text.find(replacement_, begin + 1) : std::string::npos;
      if (end == std::string::npos) end = text.size();
      emit({std::string_view(text).substr(begin, end - begin), piece.first && begin == 0});
      begin = end;
    }
  }

 private:
  std::string replaced(const Piece& piece) const {
    std::string text;
    for (const char c : piece.text) {
      if (c == ' ')
        text += replacement_;
      else
        text += c;
    }
    const bool prepends =
        scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && piece.first);
    return prepends && !text.starts_with(replacement_) ? replacement_ + text : text;
  }

  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

void run_steps(const PreTokenizers& steps, std::size_t step, const Piece& piece, EmitPiece emit) {
  if (step == steps.size()) return emit(piece);
  (*steps[step])(piece, [&](const Piece& part) { run_steps(steps, step + 1, part, emit); });
}

}  // namespace

std::unique_ptr<const PreTokenizer> split_pre_tokenizer(Pattern pattern, SplitBehavior behavior,
                                                        bool invert) {
  return std::make_unique<SplitPreTokenizer>(std::move(pattern), behavior, invert);
}
std::unique_ptr<const PreTokenizer> add_space_pre_tokenizer() {
  return std::make_unique<AddSpacePreTokenizer>();
}
std::unique_ptr<const PreTokenizer> metaspace_pre_tokenizer(std::string replacement, PrependScheme scheme,
                                                            bool split) {
  return std::make_unique<MetaspacePreTokenizer>(std::move(replacement), scheme, split);
}

void pre_tokenize(const PreTokenizers& steps, const Piece& piece, EmitPiece emit) {
  if (!piece.text.empty()) run_steps(steps, 0, piece, emit);
}

}  // namespace moh

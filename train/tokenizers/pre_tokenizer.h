#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/tokenizers/pattern.h"

namespace moh {

/// A piece of a text that no token crosses.
struct Piece {
  std::string_view text;
  bool first = false;  ///< the text begins with it
};
using EmitPiece = FunctionRef<void(const Piece&)>;

/// A step that cuts pieces of a text into smaller ones. Immutable and thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  /// Calls emit for the parts of a piece, in order; none is empty.
  virtual void operator()(const Piece& piece, EmitPiece emit) const = 0;
};

using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

/// Treatment of the matches of a pattern, and of the text between them.
enum class SplitBehavior {
  kRemoved,             ///< matches are dropped
  kIsolated,            ///< each is a piece
  kMergedWithPrevious,  ///< a match ends the piece before it
  kMergedWithNext,      ///< a match begins the piece after it
  kContiguous,          ///< a row of matches is a piece
};

/// `invert`: what matches is what lies between, and the other way round.
std::unique_ptr<const PreTokenizer> split_pre_tokenizer(Pattern pattern, SplitBehavior behavior, bool invert);
/// Puts a space before a piece that does not begin with one.
std::unique_ptr<const PreTokenizer> add_space_pre_tokenizer();

enum class PrependScheme { kNever, kFirst, kAlways };
/// Replaces spaces by `replacement`, puts one before pieces that begin with none (the first piece of the text
/// alone, or all), and with `split` begins a piece at each.
std::unique_ptr<const PreTokenizer> metaspace_pre_tokenizer(std::string replacement, PrependScheme scheme,
                                                            bool split);

/// Cuts a piece by all steps, in order.
void pre_tokenize(const PreTokenizers& steps, const Piece& piece, EmitPiece emit);

}  // namespace moh

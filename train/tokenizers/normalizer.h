#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/pattern.h"

namespace moh {

/// Whether a text begins, or goes on from another.
enum class TextPlace { kBeginning, kMiddle };

/// A step that changes a text before it is cut into words. Immutable and thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// `text` is valid UTF-8.
  virtual std::string operator()(std::string_view text) const = 0;
  /// Whether it concerns the beginning of a text alone.
  virtual bool is_of_beginning() const { return false; }
};

using Normalizers = std::vector<std::unique_ptr<const Normalizer>>;

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// A normalisation form of Unicode (UAX #15).
std::unique_ptr<const Normalizer> unicode_normalizer(UnicodeForm form);
/// Puts `prefix` before a text that is not empty.
std::unique_ptr<const Normalizer> prepend_normalizer(std::string prefix);
/// Replaces each match by `content`.
std::unique_ptr<const Normalizer> replace_normalizer(Pattern pattern, std::string content);

/// All steps that concern this place of a text, in order.
std::string normalized(const Normalizers& steps, std::string_view text,
                       TextPlace place = TextPlace::kBeginning);

}  // namespace moh

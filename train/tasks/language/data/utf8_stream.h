#pragma once

#include <string>
#include <string_view>

namespace moh {

/// Turns bytes that arrive piece by piece, as a model emits them, into text that is safe to print on a
/// terminal: a character is given out when its last byte has arrived, and bytes that form no character, as
/// well as control characters other than newline and tab (a sampled ESC could reprogram the terminal), become
/// U+FFFD.
class Utf8Stream {
 public:
  /// The text that is complete once `bytes` have been added.
  std::string push(std::string_view bytes);
  /// The end of the stream: what was held back is an unfinished character.
  std::string finish();

 private:
  std::string pending_;  // a proper prefix of one character, at most three bytes
};

}  // namespace moh

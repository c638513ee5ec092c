#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moh {

/// The error in a text that is not JSON, and its place, for messages in place of those of a library.
struct JsonFault {
  std::size_t line = 1,
              column = 1;  ///< of the first character that is wrong, from 1 on; columns are characters
  std::string found;       ///< "NaN at the key score", "'}' (expected a key after the comma)"
  std::string fix;         ///< may be empty

  /// "column 24: NaN at the key score", for error_message's `found`; of a text of several lines with the
  /// line.
  std::string words(bool one_line) const;
};

/// The first fault of a text in the syntax of JSON (RFC 8259): numbers that it does not have (NaN, 01), raw
/// control characters and lone surrogates in texts, bytes that are no UTF-8, commas and brackets. Found is
/// "nothing wrong" for a text without one.
JsonFault find_json_fault(std::string_view text);

}  // namespace moh

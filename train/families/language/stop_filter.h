#pragma once

#include <span>
#include <string>
#include <string_view>

namespace moh {

/// Filters generated text: a possible beginning of a stop text is held back.
class StopFilter {
 public:
  /// `stops` must outlive the filter. Throws ValueError if one is empty.
  explicit StopFilter(std::span<const std::string> stops);

  /// Adds `text` and returns the text that can be passed on: all before the first stop text.
  std::string push(std::string_view text);
  bool stopped() const { return stopped_; }
  /// Returns the held-back rest at the end.
  std::string finish();

 private:
  std::size_t beginning_at_end(std::string_view stop) const;

  std::span<const std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace moh

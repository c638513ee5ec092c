#include "ops/linalg/gemm_algorithms.h"

#include <charconv>
#include <limits>
#include <optional>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::string_view kTitle = "moh gemm algorithms 1";

/// Lines of a text, with their numbers for errors.
class Lines {
 public:
  Lines(std::string_view text, std::string_view where) : rest_(text), where_(where) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view next() {
    ++number_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) fail("a line that ends", rest_);
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }
  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    throw DataError(error_message(std::string(where_) + ":" + std::to_string(number_), "", expected,
                                  "'" + printable(found) + "'",
                                  "delete the file to have the algorithms searched again"));
  }

 private:
  /// Arbitrary bytes as printable text, truncated to a line.
  static std::string printable(std::string_view text) {
    std::string result;
    for (const char letter : text.substr(0, 100)) result += letter >= ' ' && letter <= '~' ? letter : '?';
    return result;
  }

  std::string_view rest_, where_;
  int number_ = 0;
};

/// Removes and returns the first word of a line.
std::string_view next_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

std::optional<std::uint32_t> number_of(std::string_view word) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

/// Parses "fused id 66 tile 20 ..."; none for any other text.
std::optional<GemmAlgorithm> algorithm_of(std::string_view line) {
  GemmAlgorithm algorithm;
  const std::string_view kind = next_word(line);
  if (kind != "fused" && kind != "separate") return std::nullopt;
  algorithm.fused = kind == "fused";
  for (std::size_t i = 0; i < GemmAlgorithm::kNames.size(); ++i) {
    if (next_word(line) != GemmAlgorithm::kNames[i]) return std::nullopt;
    const std::optional<std::uint32_t> number = number_of(next_word(line));
    if (!number) return std::nullopt;
    algorithm.settings[i] = *number;
  }
  return line.empty() ? std::optional(algorithm) : std::nullopt;
}

std::string text_of(const GemmAlgorithm& algorithm) {
  std::string text = algorithm.fused ? "fused" : "separate";
  for (std::size_t i = 0; i < GemmAlgorithm::kNames.size(); ++i)
    text.append(" ")
        .append(GemmAlgorithm::kNames[i])
        .append(" ")
        .append(std::to_string(algorithm.settings[i]));
  return text;
}

}  // namespace

GemmAlgorithms::GemmAlgorithms(std::string made_for, std::string_view text, std::string_view where)
    : made_for_(std::move(made_for)) {
  Lines lines(text, where);
  if (lines.at_end()) return;
  if (const std::string_view title = lines.next(); title != kTitle)
    lines.fail("'" + std::string(kTitle) + "'", title);
  if (const std::string_view found = lines.at_end() ? std::string_view() : lines.next(); found != made_for_)
    lines.fail("algorithms for " + made_for_, found);
  while (!lines.at_end()) {
    const std::string_view line = lines.next();
    const std::size_t colon = line.find(": ");
    const std::optional<GemmAlgorithm> algorithm =
        colon == std::string_view::npos ? std::nullopt : algorithm_of(line.substr(colon + 2));
    if (!algorithm) lines.fail("PRODUCT: fused or separate, then the settings of an algorithm", line);
    if (!of_.emplace(line.substr(0, colon), *algorithm).second)
      lines.fail("one line for each matrix multiplication", line);
  }
}

const GemmAlgorithm* GemmAlgorithms::find(const std::string& product) const {
  const auto found = of_.find(product);
  return found == of_.end() ? nullptr : &found->second;
}

std::string GemmAlgorithms::to_text() const {
  std::string text = std::string(kTitle) + "\n" + made_for_ + "\n";
  for (const auto& [product, algorithm] : of_) text += product + ": " + text_of(algorithm) + "\n";
  return text;
}

}  // namespace moh

#include "train/config/problems.h"

#include <algorithm>
#include <tuple>

#include "core/error.h"

namespace moh::config {

void Problems::add(Mark mark, std::string_view key, std::string_view expected, std::string_view found,
                   std::string_view fix) {
  add(mark, error_message(key, "", expected, found, fix));
}

void Problems::add(Mark mark, std::string text) {
  ++count_;
  if (!full()) problems_.push_back({mark, std::move(text)});
}

void Problems::throw_if_any() const {
  if (empty()) return;
  std::vector<Problem> sorted = problems_;
  const auto place = [](const Problem& p) {
    // A problem of a source as a whole stands before those inside it: kWhole + 1 == 0.
    return std::tuple(p.mark.source->order, p.mark.offset + 1);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
  std::string message;
  for (const Problem& problem : sorted) {
    if (!message.empty()) message += '\n';
    message += problem.mark.text() + ": " + problem.text;
  }
  if (count_ > sorted.size()) {
    message += "\n... and " + std::to_string(count_ - sorted.size()) + " more";
  }
  throw ConfigError(message);
}

}  // namespace moh::config

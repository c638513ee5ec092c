#include "train/families/language/stop_filter.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace moh {

StopFilter::StopFilter(std::span<const std::string> stops) : stops_(stops) {
  if (std::ranges::any_of(stops, &std::string::empty))
    throw ValueError(error_message("generate", "stop", "a text", "an empty one"));
}

std::string StopFilter::push(std::string_view text) {
  held_ += text;
  std::size_t end = held_.size();
  for (const std::string& stop : stops_) {
    const std::size_t found = held_.find(stop);
    stopped_ = stopped_ || found != std::string::npos;
    end = std::min(end, std::min(found, held_.size() - beginning_at_end(stop)));
  }
  std::string out = held_.substr(0, end);
  held_.erase(0, end);
  return out;
}

std::string StopFilter::finish() {
  return stopped_ ? "" : std::exchange(held_, "");
}

/// Length of the longest proper prefix of `stop` with which the held-back text ends.
std::size_t StopFilter::beginning_at_end(std::string_view stop) const {
  std::size_t length = std::min(held_.size(), stop.size() - 1);
  while (!held_.ends_with(stop.substr(0, length))) --length;
  return length;
}

}  // namespace moh

#include "train/heads/analyze/token_heads.h"

#include <limits>
#include <utility>

#include "core/error.h"

namespace moh {

TokenHeads::TokenHeads(std::vector<std::int32_t> ids, std::int64_t vocab_size,
                       std::span<const std::int64_t> heads_of_layers)
    : ids_(std::move(ids)), place_of_(static_cast<std::size_t>(vocab_size), -1) {
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    std::int32_t& place = place_of_.at(static_cast<std::size_t>(ids_[i]));
    MOH_CHECK(place < 0, "ids are distinct");
    place = static_cast<std::int32_t>(i);
  }
  for (const std::int64_t heads : heads_of_layers) {
    const auto width = static_cast<std::size_t>(heads);
    layers_.push_back(
        {width, std::vector<std::int64_t>(ids_.size()), std::vector<std::int64_t>(ids_.size() * width)});
  }
}

void TokenHeads::add(std::int64_t layer, std::span<const std::int64_t> tokens,
                     std::span<const std::uint8_t> selected) {
  Layer& to = layers_.at(static_cast<std::size_t>(layer));
  MOH_CHECK(selected.size() == tokens.size() * to.heads,
            "`selected` has an element for every token and head");
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::int32_t found = place_of_.at(static_cast<std::size_t>(tokens[t]));
    if (found < 0) continue;
    const auto place = static_cast<std::size_t>(found);
    ++to.seen[place];
    for (std::size_t h = 0; h < to.heads; ++h)
      to.used[place * to.heads + h] += selected[t * to.heads + h] != 0;
  }
}

void TokenHeads::add_of_all(Communicator& processes) {
  for (Layer& layer : layers_) {
    processes.sum(std::span(layer.seen));
    processes.sum(std::span(layer.used));
  }
}

std::int64_t TokenHeads::count(std::size_t token, std::int64_t layer) const {
  return layers_.at(static_cast<std::size_t>(layer)).seen.at(token);
}

std::vector<double> TokenHeads::load(std::size_t token, std::int64_t layer) const {
  const Layer& from = layers_.at(static_cast<std::size_t>(layer));
  std::vector<double> load(from.heads, std::numeric_limits<double>::quiet_NaN());
  const auto seen = static_cast<double>(from.seen.at(token));
  for (std::size_t h = 0; h < load.size() && seen > 0; ++h)
    load[h] = static_cast<double>(from.used[token * from.heads + h]) / seen;
  return load;
}

}  // namespace moh

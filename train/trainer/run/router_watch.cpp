#include "train/trainer/run/router_watch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "models/layers/head_routing.h"

namespace moh {

namespace {

/// Keeps which heads each layer selects.
class Selections : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override {
    const auto layer = static_cast<std::size_t>(trace.layer);
    digits.resize(std::max(digits.size(), layer + 1));
    kept.resize(digits.size());
    if (trace.choice == nullptr || !trace.choice->routing.top.defined()) return;
    const Tensor& top = trace.choice->routing.top;
    const std::int64_t tokens = std::min(top.dim(0), RouterWatch::kTokens);
    digits[layer] = digits_of(trace.choice->routing.selected.slice(0, tokens).to(kCpu).span<std::uint8_t>());
    kept[layer] = tokens * top.dim(1);
  }
  std::vector<std::string> digits;
  std::vector<std::int64_t> kept;  // routed (token, head) pairs

 private:
  static std::string digits_of(std::span<const std::uint8_t> selected) {
    std::string digits((selected.size() + 3) / 4, '0');
    std::vector<unsigned> values(digits.size());
    for (std::size_t i = 0; i < selected.size(); ++i) values[i / 4] |= (selected[i] != 0 ? 1U : 0U) << i % 4;
    for (std::size_t i = 0; i < digits.size(); ++i) digits[i] = "0123456789abcdef"[values[i]];
    return digits;
  }
};

unsigned value_of(char digit) {
  return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10) & 15U;
}

std::int64_t count_lost(std::string_view before, std::string_view now) {
  std::int64_t lost = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    lost += std::popcount(value_of(before[i]) & ~value_of(now[i]));
  return lost;
}

template <class Entries>
auto named(const Entries& entries, std::string_view name) {
  return std::ranges::find(entries, name, [](const auto& entry) { return entry.first; });
}

/// Whether half of the heads that can be dead are.
bool has_collapsed(std::span<const float> load, double dead, std::int64_t items) {
  const double kept = std::round(std::accumulate(load.begin(), load.end(), 0.0));
  const auto routed = static_cast<double>(load.size());
  if (static_cast<double>(items) * kept / routed < RouterWatch::kEnoughSelections) return false;
  return routed > kept && 2 * dead >= routed - kept;
}

}  // namespace

bool RouterWatch::has_routers() const {
  return std::ranges::any_of(task_.model().routing(), [](const HeadRoutingOptions& layer) {
    const RouterOptions& router = layer.router;
    return layer.kind->routes() && router.top_k > 0 && router.top_k < router.routed();
  });
}

std::vector<std::int64_t> RouterWatch::newly_collapsed(const StepStatistics& statistics) {
  const auto dead = named(statistics.layers, "dead_heads");
  const auto loads = named(statistics.rows, "head_load");
  std::vector<std::int64_t> found;
  if (dead == statistics.layers.end() || loads == statistics.rows.end()) return found;
  MOH_CHECK(dead->second.size() == loads->second.size(), "both are by layer");
  for (std::size_t l = 0; l < dead->second.size(); ++l) {
    const auto layer = static_cast<std::int64_t>(l);
    if (!dead->second[l]) continue;
    if (!has_collapsed(loads->second[l], *dead->second[l], statistics.items)) {
      collapsed_.erase(layer);
    } else if (collapsed_.insert(layer).second) {
      found.push_back(layer);
    }
  }
  return found;
}

std::vector<std::optional<double>> RouterWatch::churn(std::vector<std::string>& before) {
  Selections now;
  task_.run_first_batch(now);
  std::vector<std::optional<double>> shares(now.digits.size());
  for (std::size_t l = 0; l < shares.size() && l < before.size(); ++l) {
    if (now.kept[l] == 0 || before[l].size() != now.digits[l].size()) continue;
    shares[l] = static_cast<double>(count_lost(before[l], now.digits[l])) / static_cast<double>(now.kept[l]);
  }
  before = std::move(now.digits);
  return shares;
}

}  // namespace moh

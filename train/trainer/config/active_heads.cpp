#include "train/trainer/config/active_heads.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "models/active_heads.h"
#include "train/config/number_text.h"

namespace moh::config {

namespace {

constexpr std::string_view kActive = "model.moh.active", kTopK = "model.moh.top_k",
                           kRatio = "model.moh.top_k_ratio", kNumShared = "model.moh.num_shared";

/// Entries of the longest of the lists; 0 without a list.
std::size_t list_length(std::initializer_list<const PerLayer*> counts) {
  std::size_t longest = 0;
  for (const PerLayer* each : counts) longest = std::max(longest, each->each.size());
  return longest;
}

bool fits(const PerLayer& counts, std::size_t length) {
  return counts.each.empty() || counts.each.size() == length;
}

/// The counts of one layer, or of one entry of the lists.
struct LayerCounts {
  std::int64_t heads = 0, shared = 0, top_k = 0;

  std::int64_t routed() const { return heads - shared; }
  bool keeps_all() const { return routed() > 0 && top_k == routed(); }
};

/// None for lists of several lengths, such as those of a model of stages that has some of its counts by
/// block.
std::vector<LayerCounts> counts_of(const MohConfig& moh, const PerLayer& heads) {
  const std::size_t length = list_length({&moh.num_shared, &moh.top_k, &heads});
  if (!fits(moh.num_shared, length) || !fits(moh.top_k, length) || !fits(heads, length)) return {};
  std::vector<LayerCounts> counts;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, static_cast<std::int64_t>(length)); ++i) {
    const std::int64_t of_layer = heads.at(i);
    MohConfig of_heads = moh;
    of_heads.routing = routings::kHeads;  // `heads` are units already
    of_heads.shared_heads = {};
    const RouterOptions router = routing_of(of_heads, of_layer, i).router;
    counts.push_back({of_layer, router.num_shared, router.top_k});
  }
  return counts;
}

/// "3 shared + 6 of 9 = 75%", of lists one after the other: how many layers an entry stands for is not known.
std::string text_of(const std::vector<LayerCounts>& counts) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> different;
  for (const LayerCounts& layer : counts) {
    HeadCounts one;
    one.add(layer.shared, layer.top_k, layer.routed());
    std::string text = describe(one);
    if (different.empty() || different.back() != text) different.push_back(std::move(text));
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, different.size()); ++i)
    text += (i == 0 ? "" : ", ") + different[i];
  return different.size() > kMost ? text + ", ..." : text;
}

std::string layers_text(const std::vector<LayerCounts>& counts) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].keeps_all()) text += (text.empty() ? "" : ", ") + std::to_string(i);
  }
  return text;
}

void note_share(const std::vector<LayerCounts>& counts, const GivenKeys& given,
                std::vector<std::string>& notes) {
  const auto share = given.shares.find(kTopK);
  const bool shares_some = std::ranges::any_of(counts, [](const LayerCounts& c) { return c.shared > 0; });
  if (share == given.shares.end() || share->second == 0 || !shares_some) return;
  const std::string percent = number_text(share->second) + "%";
  notes.push_back(std::string(kTopK) + ": " + percent +
                  " of all heads are routed on top of the shared ones: " + text_of(counts) +
                  " are active; for " + percent + " in all, shared heads included, set " +
                  std::string(kActive) + ": " + percent + " in its place");
}

/// "every token keeps all routed heads ..., so nothing is routed there".
std::string kept_text(const std::vector<LayerCounts>& counts, const std::string& which) {
  return "model.moh: every token keeps all routed heads" + which + " (" + text_of(counts) +
         " active), so nothing is routed there; lower model.moh.top_k, or set model.moh.active below 100%";
}

enum class Kept { kNowhere, kInSomeLayers, kEverywhere };

/// Where all routed heads are kept, of the layers that have any.
Kept all_kept(const std::vector<LayerCounts>& counts) {
  const auto keeping = std::ranges::count_if(counts, [](const LayerCounts& c) { return c.keeps_all(); });
  const auto routing = std::ranges::count_if(counts, [](const LayerCounts& c) { return c.routed() > 0; });
  if (keeping == 0) return Kept::kNowhere;
  return keeping == routing ? Kept::kEverywhere : Kept::kInSomeLayers;
}

}  // namespace

void settle_active_heads(MohConfig& moh, const GivenKeys& given, Rules& rules) {
  if (moh.active == PerLayer() || !moh.router->routes()) return;
  for (const auto& [key, is_set] :
       {std::pair{kTopK, moh.top_k != PerLayer()}, {kRatio, moh.top_k_ratio != 0}}) {
    if (!is_set || !given.places.contains(key)) continue;
    rules.refuse({std::string(kActive), std::string(key)}, "0 with " + std::string(key), "both",
                 "active counts the shared heads, " + std::string(key.substr(10)) +
                     " does not; keep one of them, or set the other to 0");
    moh.active = {};
    return;
  }
  moh.top_k_ratio = 0;  // of a preset or a checkpoint, as top_k
  const std::size_t length = list_length({&moh.active, &moh.num_shared});
  if (!fits(moh.active, length) || !fits(moh.num_shared, length)) return;
  moh.top_k = moh.active.every - moh.num_shared.every;
  if (length == 0) return;
  moh.top_k = std::vector<std::int64_t>(length);
  for (std::size_t i = 0; i < length; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    moh.top_k.each[i] = moh.active.at(layer) - moh.num_shared.at(layer);
  }
}

std::vector<std::string> routing_notes(const MohConfig& moh, const PerLayer& heads, const GivenKeys& given) {
  std::vector<std::string> notes;
  if (!moh.router->routes()) return notes;
  const std::vector<LayerCounts> counts = counts_of(moh, heads);
  note_share(counts, given, notes);
  if (all_kept(counts) == Kept::kEverywhere) notes.push_back(kept_text(counts, ""));
  return notes;
}

std::string note_of_some_layers(const MohConfig& moh, const PerLayer& heads) {
  if (!moh.router->routes()) return "";
  const std::vector<LayerCounts> counts = counts_of(moh, heads);
  if (all_kept(counts) != Kept::kInSomeLayers) return "";
  return kept_text(counts, " in entries " + layers_text(counts) + " of the lists");
}

}  // namespace moh::config

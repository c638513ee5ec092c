#include "models/vision/transnext_config.h"

#include <numeric>
#include <string>
#include <utility>

#include "ops/attention/attention.h"

namespace moh {

namespace {

constexpr std::int64_t kMostStages = 8, kMostBlocks = 1000, kMostExperts = 64;

/// Checks the lists: their lengths, and that each value is 1 or more. Returns whether there is no fault.
bool check_lists(const TransNextConfig& c, ConfigFaults& faults) {
  const std::size_t before = faults.all().size();
  if (c.stages() < 1 || c.stages() > kMostStages)
    faults.add({"dims"}, "1 to " + number_text(kMostStages) + " stages", number_text(c.stages()));
  using List = const std::vector<std::int64_t>*;
  for (const auto& [field, list] : {std::pair<std::string_view, List>{"dims", &c.dims},
                                    {"heads", &c.heads},
                                    {"depths", &c.depths},
                                    {"mlp_ratios", &c.mlp_ratios},
                                    {"pool_ratios", &c.pool_ratios}}) {
    if (list->size() != c.dims.size()) {
      faults.add({field, "dims"},
                 "a value per stage (" + faults.key("dims") + " has " + number_text(c.stages()) + ")",
                 number_text(static_cast<std::int64_t>(list->size())));
    }
    for (const std::int64_t value : *list) {
      if (value < 1) faults.add({field}, "numbers of 1 or more", number_text(value));
    }
  }
  if (!c.kept_keys.empty() && c.kept_keys.size() != c.dims.size()) {
    faults.add({"kept_keys", "dims"}, "none, or a value per stage (" + number_text(c.stages()) + ")",
               number_text(static_cast<std::int64_t>(c.kept_keys.size())));
  }
  for (const std::int64_t percent : c.kept_keys) {
    if (percent < 1 || percent > 100) faults.add({"kept_keys"}, "1 to 100 percent", number_text(percent));
  }
  for (const std::int64_t depth : c.depths) {
    if (depth > kMostBlocks)
      faults.add({"depths"}, "at most " + number_text(kMostBlocks) + " blocks", number_text(depth));
  }
  return faults.all().size() == before;
}

void check_numbers(const TransNextConfig& c, ConfigFaults& faults) {
  for (const auto& [field, value, least] :
       {std::tuple<std::string_view, std::int64_t, std::int64_t>{"channels", c.channels, 1},
        {"classes", c.classes, 1},
        {"patch_size", c.patch_size, 1},
        {"experts", c.experts, 1},
        {"fixed_pool_size", c.fixed_pool_size, 0},
        {"pretrain_size", c.pretrain_size, 1}}) {
    if (value < least) faults.add({field}, number_text(least) + " or more", number_text(value));
  }
  if (c.window < 1 || c.window > 15 || c.window % 2 == 0)
    faults.add({"window"}, "an odd number from 1 to 15", number_text(c.window));
  if (c.experts > kMostExperts)
    faults.add({"experts"}, "at most " + number_text(kMostExperts), number_text(c.experts));
  if (!(c.drop_path >= 0 && c.drop_path < 1))
    faults.add({"drop_path"}, "0 or more, below 1", number_text(c.drop_path));
}

void check_heads(const TransNextConfig& c, ConfigFaults& faults) {
  if (c.head_dim < 0 || c.head_dim > kMostHeadDim)
    faults.add({"head_dim"}, "0 to " + number_text(kMostHeadDim), number_text(c.head_dim));
  if (c.head_dim != 0) return;
  for (std::size_t s = 0; s < c.dims.size(); ++s) {
    if (c.dims[s] % c.heads[s] == 0 && c.dims[s] / c.heads[s] <= kMostHeadDim) continue;
    faults.add({"heads", "dims", "head_dim"},
               "a divisor of " + faults.key("dims") + " (" + number_text(c.dims[s]) +
                   "), for heads of at most " + number_text(kMostHeadDim),
               number_text(c.heads[s]) + " (stage " + number_text(static_cast<std::int64_t>(s)) + ")",
               "or set " + faults.key("head_dim"));
  }
}

/// A value of each stage for each of its blocks.
template <class T>
std::vector<T> for_blocks(const std::vector<T>& of_stages, const std::vector<std::int64_t>& depths) {
  std::vector<T> of_blocks;
  for (std::size_t s = 0; s < depths.size(); ++s)
    of_blocks.insert(of_blocks.end(), static_cast<std::size_t>(depths[s]), of_stages[s]);
  return of_blocks;
}

/// Checks that lists of the routing have a value per stage or per block. Returns whether they have.
bool check_moh_lists(const TransNextConfig& c, ConfigFaults& faults) {
  const std::size_t before = faults.all().size();
  for (const auto& [field, length] :
       {std::pair<std::string_view, std::size_t>{"moh.num_shared", c.moh.num_shared.each.size()},
        {"moh.top_k", c.moh.top_k.each.size()},
        {"moh.shared_heads", c.moh.shared_heads.each.size()}}) {
    if (length == 0 || length == c.dims.size() || static_cast<std::int64_t>(length) == num_blocks(c))
      continue;
    faults.add({field, "depths"},
               "one value, or one per stage (" + number_text(c.stages()) + ") or block (" +
                   number_text(num_blocks(c)) + ")",
               "a list of " + number_text(static_cast<std::int64_t>(length)));
  }
  return faults.all().size() == before;
}

}  // namespace

std::int64_t num_blocks(const TransNextConfig& c) {
  return std::accumulate(c.depths.begin(), c.depths.end(), std::int64_t{0});
}

std::int64_t glu_hidden(const TransNextConfig& c, std::int64_t stage) {
  const auto s = static_cast<std::size_t>(stage);
  return 2 * c.dims[s] * c.mlp_ratios[s] / 3;
}

MohConfig moh_of_blocks(const TransNextConfig& c) {
  MohConfig moh = c.moh;
  const auto spread = [&](auto& lists) {
    if (lists.size() == c.dims.size()) lists = for_blocks(lists, c.depths);
  };
  spread(moh.num_shared.each);
  spread(moh.top_k.each);
  spread(moh.shared_heads.each);
  return moh;
}

void check(const TransNextConfig& c, ConfigFaults& faults) {
  if (!check_lists(c, faults)) return;
  check_numbers(c, faults);
  check_heads(c, faults);
  if (!check_moh_lists(c, faults)) return;
  check(moh_of_blocks(c), {num_blocks(c), PerLayer(for_blocks(c.heads, c.depths))}, faults);
}

void require_valid(const TransNextConfig& config) {
  ConfigFaults faults;
  check(config, faults);
  faults.throw_first("transnext");
}

std::vector<HeadRoutingOptions> routing_of(const TransNextConfig& c) {
  const MohConfig moh = moh_of_blocks(c);
  const std::vector<std::int64_t> heads = for_blocks(c.heads, c.depths);
  std::vector<HeadRoutingOptions> layers;
  for (std::size_t i = 0; i < heads.size(); ++i)
    layers.push_back(routing_of(moh, heads[i], static_cast<std::int64_t>(i)));
  return layers;
}

}  // namespace moh

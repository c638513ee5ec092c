#include "train/tasks/language/score/score_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace moh {

namespace {

using Texts = std::span<const PlannedText>;

std::span<const TokenId> context_of(const ContextGroup& group, Texts texts) {
  return texts[group.texts.front()].context;
}

/// Groups of equal contexts, in the contexts' lexicographic order.
std::vector<ContextGroup> equal_contexts(Texts texts) {
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::ranges::lexicographical_compare(texts[a].context, texts[b].context);
  });
  std::vector<ContextGroup> groups;
  for (const std::size_t i : order) {
    if (groups.empty() || !std::ranges::equal(context_of(groups.back(), texts), texts[i].context))
      groups.emplace_back();
    groups.back().texts.push_back(i);
  }
  for (ContextGroup& group : groups)
    std::ranges::stable_sort(group.texts, std::greater<>(), [&](std::size_t i) { return texts[i].tail; });
  return groups;
}

/// The tokens with which two contexts begin alike, without the last of either: the logits after it are
/// wanted.
std::int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto shorter = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  const auto [end, unused] = std::mismatch(a.begin(), a.begin() + shorter, b.begin());
  return std::min(end - a.begin(), shorter - 1);
}

/// Neighbours that share a prefix.
struct Run {
  std::int64_t prefix = 0;
  std::vector<ContextGroup> groups;
};

/// Whether a context that has `common` tokens in common with its neighbour, the last of the run, saves more
/// than the run loses, whose prefix becomes no longer than that.
bool saves(const Run& run, std::int64_t common, const ScoreLimits& limits) {
  if (common < limits.shared_tokens) return false;
  if (run.groups.size() == 1) return true;
  const std::int64_t prefix = std::min(run.prefix, common);
  return prefix > (std::ssize(run.groups) - 1) * (run.prefix - prefix);
}

/// The runs of two contexts and more, after one of all contexts without a neighbour to share with.
std::vector<Run> runs_of(std::vector<ContextGroup> groups, Texts texts, const ScoreLimits& limits) {
  std::vector<Run> runs(1);
  Run run;
  const auto close = [&] {
    if (run.groups.size() == 1)
      runs.front().groups.push_back(std::move(run.groups.front()));
    else if (!run.groups.empty())
      runs.push_back(std::move(run));
    run = {};
  };
  for (ContextGroup& group : groups) {
    if (!run.groups.empty()) {
      const std::int64_t common =
          common_prefix(context_of(run.groups.back(), texts), context_of(group, texts));
      if (!saves(run, common, limits))
        close();
      else
        run.prefix = run.groups.size() == 1 ? common : std::min(run.prefix, common);
    }
    run.groups.push_back(std::move(group));
  }
  close();
  if (runs.front().groups.empty()) runs.erase(runs.begin());
  return runs;
}

std::int64_t longest_tail(const ContextGroup& group, Texts texts) {
  return texts[group.texts.front()].tail;
}

/// Adds contexts of one length, in batches within the limits.
void add_batches(std::vector<ContextGroup> groups, std::int64_t prefix, std::int64_t tokens, Texts texts,
                 const ScoreLimits& limits, std::vector<ScoreBatch>& batches) {
  // Tails of like lengths together: the shorter ones of a batch are padded.
  std::ranges::stable_sort(groups, std::greater<>(),
                           [&](const ContextGroup& g) { return longest_tail(g, texts); });
  ScoreBatch batch;
  for (ContextGroup& group : groups) {
    const std::int64_t count = std::ssize(batch.groups) + 1;
    const std::int64_t tail = std::max(batch.longest_tail, longest_tail(group, texts));
    if (count > 1 && (count * std::max(tokens, tail) > limits.batch_tokens ||
                      count * (prefix + tokens + tail) > limits.cached_tokens)) {
      batches.push_back(std::exchange(batch, {}));
    }
    batch.context_tokens = tokens;
    batch.longest_tail = std::max(batch.longest_tail, longest_tail(group, texts));
    batch.groups.push_back(std::move(group));
  }
  batches.push_back(std::move(batch));
}

PrefixGroup batches_of(Run run, Texts texts, const ScoreLimits& limits) {
  std::map<std::int64_t, std::vector<ContextGroup>, std::greater<>> by_length;  // the longest first
  for (ContextGroup& group : run.groups) {
    const std::int64_t tokens = std::ssize(context_of(group, texts)) - run.prefix;
    by_length[tokens].push_back(std::move(group));
  }
  PrefixGroup result{run.prefix, {}};
  for (auto& [tokens, groups] : by_length)
    add_batches(std::move(groups), run.prefix, tokens, texts, limits, result.batches);
  return result;
}

}  // namespace

std::vector<PrefixGroup> plan_texts(std::span<const PlannedText> texts, const ScoreLimits& limits) {
  std::vector<PrefixGroup> plan;
  for (Run& run : runs_of(equal_contexts(texts), texts, limits))
    plan.push_back(batches_of(std::move(run), texts, limits));
  return plan;
}

std::int64_t computed_tokens(const ScoreBatch& batch, std::span<const PlannedText> texts) {
  std::vector<std::int64_t> tails;  // of the j-th request of a group
  for (const ContextGroup& group : batch.groups) {
    tails.resize(std::max(tails.size(), group.texts.size()));
    for (std::size_t j = 0; j < group.texts.size(); ++j)
      tails[j] = std::max(tails[j], texts[group.texts[j]].tail);
  }
  return std::ssize(batch.groups) * std::accumulate(tails.begin(), tails.end(), batch.context_tokens);
}

std::int64_t computed_tokens(std::span<const PrefixGroup> plan, std::span<const PlannedText> texts) {
  std::int64_t tokens = 0;
  for (const PrefixGroup& group : plan) {
    tokens += group.prefix_tokens;
    for (const ScoreBatch& batch : group.batches) tokens += computed_tokens(batch, texts);
  }
  return tokens;
}

}  // namespace moh

#include "ops/attention/schedule.h"

#include <algorithm>

#include "core/loop_shares.h"
#include "ops/attention/list_walk.h"

namespace moh {

namespace {

constexpr std::int64_t kTasksPerThread = 4;
// Each task packs the keys and values it attends to: with fewer rows than this, packing would dominate.
constexpr std::int64_t kMinTaskRows = 120;
// Each task gathers the rows that see its keys.
constexpr std::int64_t kMinGroupKeys = 128;
// So many lists are shared well enough, and need no memory for dq of every group.
constexpr std::int64_t kListsPerThread = 2;
constexpr std::int64_t kMaxGroups = 16;  // bounds the memory for dq: linear in the number of tokens

template <class Task>
struct Costed {
  double cost;
  Task task;
};

/// The tasks in the order in which `threads` threads run them: each begins with the most expensive one of its
/// share (core/loop_shares.h), and the others of the shares follow in the order of their costs.
template <class Task>
std::vector<Task> dealt(std::vector<Costed<Task>> costed, int threads) {
  std::stable_sort(costed.begin(), costed.end(),
                   [](const auto& a, const auto& b) { return a.cost > b.cost; });
  const auto count = static_cast<std::int64_t>(costed.size());
  std::vector<Task> tasks(costed.size());
  std::size_t next = 0;
  for (std::int64_t round = 0; next < costed.size(); ++round) {
    for (int i = 0; i < LoopShares::count(threads); ++i) {
      const std::int64_t at = LoopShares::begin(count, i, threads) + round;
      if (at >= LoopShares::begin(count, i + 1, threads)) continue;
      tasks[static_cast<std::size_t>(at)] = costed[next++].task;
    }
  }
  return tasks;
}

/// The sum of count(i) over [begin, end), from a few i: exact where it is linear, as under a causal mask.
template <class Count>
double estimated_sum(std::int64_t begin, std::int64_t end, const Count& count) {
  constexpr std::int64_t kSteps = 8;  // to see windows and documents, too
  if (begin >= end) return 0.0;
  double sum = 0;
  for (std::int64_t i = 0; i <= kSteps; ++i)
    sum += static_cast<double>(count(begin + (end - 1 - begin) * i / kSteps));
  return static_cast<double>(end - begin) * sum / (kSteps + 1);
}

/// Number of (row, visible key) pairs of rows [begin, end) of a list, assuming evenly spread positions.
double visible_pairs(const AttentionShape& shape, const List& list, std::int64_t begin, std::int64_t end) {
  return estimated_sum(begin, end, [&](std::int64_t row) { return visible_keys(shape, list, row).size(); });
}

/// Pairs of a list's rows with keys [begin, end), likewise.
double pairs_with_keys(const AttentionShape& shape, const List& list, std::int64_t begin, std::int64_t end) {
  return estimated_sum(begin, end, [&](std::int64_t key) {
    return rows_seeing(shape, list, {key, key + 1}).size();
  });
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::int64_t longest_list(const AttentionShape& shape, const RowLists& lists) {
  std::int64_t longest = 0;
  for (std::int64_t l = 0; l < shape.batch * shape.kv_heads; ++l) {
    longest = std::max(longest, list_at(shape, lists, l).rows);
  }
  return longest;
}

std::vector<RowTask> plan_rows(const AttentionShape& shape, const RowLists& lists, int threads) {
  const std::int64_t per_task = ceil_div(total_rows(shape, lists), threads * kTasksPerThread);
  const std::int64_t wanted_rows = std::max(per_task, kMinTaskRows);
  std::vector<Costed<RowTask>> costed;
  for (std::int64_t l = 0; l < shape.batch * shape.kv_heads; ++l) {
    const List list = list_at(shape, lists, l);
    const std::int64_t parts = threads == 1 ? 1 : std::max<std::int64_t>(1, list.rows / wanted_rows);
    const std::int64_t rows = std::max<std::int64_t>(1, ceil_div(list.rows, parts));
    std::int64_t begin = 0;
    do {
      const std::int64_t end = std::min(list.rows, begin + rows);
      costed.push_back({visible_pairs(shape, list, begin, end), {l, begin, end}});
      begin = end;
    } while (begin < list.rows);
  }
  return dealt(std::move(costed), threads);
}

KeyGroups key_groups(const AttentionShape& shape, int threads) {
  const std::int64_t num_lists = shape.batch * shape.kv_heads;
  if (num_lists == 0 || shape.keys == 0) return {};
  constexpr std::int64_t kUnit = 64;  // the kernels' blocks of keys
  const std::int64_t keys =
      std::max(ceil_div(ceil_div(shape.keys, kMaxGroups), kUnit) * kUnit, kMinGroupKeys);
  const std::int64_t count = ceil_div(shape.keys, keys);
  return {count, keys, count == 1 || threads == 1 || num_lists >= threads * kListsPerThread};
}

std::vector<KeyTask> plan_keys(const AttentionShape& shape, const RowLists& lists, const KeyGroups& groups,
                               int threads) {
  const std::int64_t keys = groups.whole_lists ? std::max<std::int64_t>(shape.keys, 1) : groups.keys;
  std::vector<Costed<KeyTask>> costed;
  for (std::int64_t l = 0; l < shape.batch * shape.kv_heads; ++l) {
    const List list = list_at(shape, lists, l);
    for (std::int64_t begin = 0; begin < list.keys; begin += keys) {
      const std::int64_t end = std::min(list.keys, begin + keys);
      costed.push_back({pairs_with_keys(shape, list, begin, end), {l, begin, end, begin / keys}});
    }
  }
  return dealt(std::move(costed), threads);
}

}  // namespace moh

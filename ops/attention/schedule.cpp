#include "ops/attention/schedule.h"

#include <algorithm>

#include "ops/attention/list_walk.h"

namespace moh {

namespace {

constexpr std::int64_t kTasksPerThread = 4;
// Each task packs the keys and values it attends to: with fewer rows than this, packing would dominate.
constexpr std::int64_t kMinTaskRows = 240;
// Each key range gathers the rows that see it, and keeps its contribution to dq until all are summed.
constexpr std::int64_t kMinGroupKeys = 512;
constexpr std::int64_t kKeyTasks = 32;
constexpr std::int64_t kMaxGroups = 8;  // bounds the memory for dq: linear in the number of tokens

template <class Task>
struct Costed {
  double cost;
  Task task;
};

template <class Task>
std::vector<Task> longest_first(std::vector<Costed<Task>> costed) {
  std::stable_sort(costed.begin(), costed.end(),
                   [](const auto& a, const auto& b) { return a.cost > b.cost; });
  std::vector<Task> tasks;
  tasks.reserve(costed.size());
  for (const Costed<Task>& entry : costed) tasks.push_back(entry.task);
  return tasks;
}

/// Number of (row, visible key) pairs of rows [begin, end) of a list, assuming evenly spread positions.
double visible_pairs(const AttentionShape& shape, const List& list, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return 0.0;
  const auto first = static_cast<double>(visible_keys(shape, pair_at(list, begin).token));
  const auto last = static_cast<double>(visible_keys(shape, pair_at(list, end - 1).token));
  return static_cast<double>(end - begin) * (first + last) / 2;
}

/// Pairs of a list's rows with keys [begin, end), likewise.
double pairs_with_keys(const AttentionShape& shape, const List& list, std::int64_t begin, std::int64_t end) {
  const auto rows_at = [&](std::int64_t key) {
    return static_cast<double>(list.rows - first_row_seeing(shape, list, key));
  };
  return static_cast<double>(end - begin) * (rows_at(begin) + rows_at(end - 1)) / 2;
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
  return longest_first(std::move(costed));
}

KeyGroups key_groups(const AttentionShape& shape) {
  const std::int64_t num_lists = shape.batch * shape.kv_heads;
  KeyGroups groups;
  if (num_lists == 0 || shape.keys == 0) return groups;
  const std::int64_t by_keys = std::clamp<std::int64_t>(shape.keys / kMinGroupKeys, 1, kMaxGroups);
  const std::int64_t wanted = std::min(ceil_div(kKeyTasks, num_lists), by_keys);
  groups.group_keys = ceil_div(ceil_div(shape.keys, wanted), 64) * 64;
  groups.num_groups = ceil_div(shape.keys, groups.group_keys);
  return groups;
}

KeyPlan plan_keys(const AttentionShape& shape, const RowLists& lists) {
  const std::int64_t num_lists = shape.batch * shape.kv_heads;
  KeyPlan plan{key_groups(shape), {}};
  if (num_lists == 0 || shape.keys == 0) return plan;
  std::vector<Costed<KeyTask>> costed;
  for (std::int64_t l = 0; l < num_lists; ++l) {
    const List list = list_at(shape, lists, l);
    for (std::int64_t group = 0; group < plan.num_groups; ++group) {
      const std::int64_t begin = group * plan.group_keys;
      const std::int64_t end = std::min(shape.keys, begin + plan.group_keys);
      costed.push_back({pairs_with_keys(shape, list, begin, end), {l, begin, end, group}});
    }
  }
  plan.tasks = longest_first(std::move(costed));
  return plan;
}

}  // namespace moh

#pragma once

#include <vector>

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Rows of the longest list.
std::int64_t longest_list(const AttentionShape& shape, const RowLists& lists);

/// Divides the rows of all lists into tasks for `threads` threads, the most expensive first; every list has
/// at least one task, even an empty one. A row's result does not depend on its task, so the number of threads
/// may determine the division.
std::vector<RowTask> plan_rows(const AttentionShape& shape, const RowLists& lists, int threads);

/// Divides the keys of all lists into tasks, the most expensive first. The order of sums over keys follows
/// the division, so it depends on the sizes alone, never on the number of threads.
struct KeyGroups {
  std::int64_t num_groups = 1;  ///< key ranges per list
  std::int64_t group_keys = 0;  ///< length of each, the last may be shorter
};
KeyGroups key_groups(const AttentionShape& shape);
struct KeyPlan : KeyGroups {
  std::vector<KeyTask> tasks;
};
KeyPlan plan_keys(const AttentionShape& shape, const RowLists& lists);

}  // namespace moh

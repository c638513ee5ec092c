#pragma once

#include <vector>

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Rows of the longest list.
std::int64_t longest_list(const AttentionShape& shape, const RowLists& lists);

/// The rows of all lists in tasks for `threads` threads, the longest work first; every list has at least one
/// task, an empty one too. Rows come out the same however they are cut, so the number of threads may decide.
std::vector<RowTask> plan_rows(const AttentionShape& shape, const RowLists& lists, int threads);

/// The keys of all lists in tasks, the longest work first. Sums over keys follow the cut, so it depends on
/// the sizes alone, never on the number of threads.
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

#pragma once

#include <vector>

#include "ops/attention/attention_kernels.h"

namespace moh {

/// Rows of the longest list.
std::int64_t longest_list(const AttentionShape& shape, const RowLists& lists);

/// Divides the rows of all lists into tasks for `threads` threads, the most expensive of each thread's share
/// first; every list has at least one task, even an empty one. A row's result does not depend on its task, so
/// the number of threads may determine the division.
std::vector<RowTask> plan_rows(const AttentionShape& shape, const RowLists& lists, int threads);

/// The keys of a list in groups. dq is the sum of the groups' contributions, in their order, so groups are a
/// function of the sizes alone; whether a task has one of them or all, which gives the same bits, follows
/// from the number of threads.
struct KeyGroups {
  std::int64_t count = 1;   ///< groups per list
  std::int64_t keys = 1;    ///< of each, the last may have fewer
  bool whole_lists = true;  ///< a task has a whole list

  /// Whether a task adds up its groups.
  bool sums_groups() const { return whole_lists && count > 1; }
};
KeyGroups key_groups(const AttentionShape& shape, int threads);

/// Divides the keys of all lists into tasks, in the order of plan_rows.
std::vector<KeyTask> plan_keys(const AttentionShape& shape, const RowLists& lists, const KeyGroups& groups,
                               int threads);

}  // namespace moh

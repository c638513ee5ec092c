#pragma once

// Reading head lists. Kernel files, which are compiled once per instruction set, share this with the code
// that plans their work: everything here has internal linkage. Functions are constexpr where device code
// calls them.

#include "ops/attention/attention_kernels.h"

namespace moh {
namespace {

constexpr std::int64_t min_of(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
constexpr std::int64_t clamp(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value < low ? low : min_of(value, high);
}

/// A selected (token, query head) pair; `head` is local, numbered within its KV group.
struct Pair {
  std::int64_t token, head;
};

/// One head list. Pairs are numbered token * group + head, the order of the list.
struct List {
  std::int64_t batch, kv_head;
  std::int64_t group;           // query heads per KV head
  std::int64_t first, rows;     // number of its first row among the rows of all lists, and its length
  std::int64_t num_pairs;       // selected or not
  std::int64_t keys;            // of its sequence
  std::int64_t origin;          // token of the views that the list's first one is, among packed sequences
  const std::int32_t* entries;  // or null: all pairs
};

/// AttentionShape::offsets. Kernels of a GPU never have them, and would spill registers for them.
constexpr const std::int64_t* offsets_of_sequences([[maybe_unused]] const AttentionShape& shape) {
#ifdef __CUDA_ARCH__
  return nullptr;
#else
  return shape.offsets;
#endif
}

constexpr List list_at(const AttentionShape& shape, const RowLists& lists, std::int64_t number) {
  List list{};
  list.batch = number / shape.kv_heads;
  list.kv_head = number % shape.kv_heads;
  list.group = shape.heads / shape.kv_heads;
  list.num_pairs = shape.queries * list.group;
  list.keys = shape.keys;
  if (const std::int64_t* offsets = offsets_of_sequences(shape)) {
    list.first = list.origin = offsets[list.batch];
    list.rows = list.num_pairs = list.keys = offsets[list.batch + 1] - list.first;
  } else if (lists.rows) {
    list.first = lists.offsets[number];
    list.rows = lists.offsets[number + 1] - list.first;
    list.entries = lists.rows + list.first;
  } else {
    list.first = number * list.num_pairs;
    list.rows = list.num_pairs;
  }
  return list;
}

/// The list that contains row `number`, where rows are numbered through all lists.
constexpr List list_of_row(const AttentionShape& shape, const RowLists& lists, std::int64_t number) {
  if (lists.rows == nullptr)  // never among packed sequences, which only the CPU has
    return list_at(shape, lists, number / (shape.queries * (shape.heads / shape.kv_heads)));
  std::int64_t low = 0, high = shape.batch * shape.kv_heads - 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (lists.offsets[middle + 1] > number) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return list_at(shape, lists, low);
}

/// Rows of all lists together.
constexpr std::int64_t total_rows(const AttentionShape& shape, const RowLists& lists) {
  if (const std::int64_t* offsets = offsets_of_sequences(shape)) return offsets[shape.batch];
  return lists.rows ? lists.offsets[shape.batch * shape.kv_heads] : shape.batch * shape.queries * shape.heads;
}

constexpr std::int64_t pair_number(const List& list, const Pair& pair) {
  return pair.token * list.group + pair.head;
}
constexpr Pair numbered_pair(const List& list, std::int64_t number) {
  return {number / list.group, number % list.group};
}
constexpr Pair pair_at(const List& list, std::int64_t row) {
  if (!list.entries) return numbered_pair(list, row);
  constexpr std::int32_t kPositionMask = (1 << kListPositionBits) - 1;
  return {list.entries[row] & kPositionMask, list.entries[row] >> kListPositionBits};
}

/// Numbers [begin, end) of keys or of rows.
struct Range {
  std::int64_t begin, end;

  constexpr std::int64_t size() const { return end - begin; }
};

/// The keys that the queries of a token of sequence `batch` attend to, at least one. Both ends ascend with
/// the token, whatever the mask.
constexpr Range visible_keys(const AttentionShape& shape, std::int64_t batch, std::int64_t token) {
  if (!shape.causal && shape.document_ends == nullptr) return {0, shape.keys};
  const std::int64_t* offsets = offsets_of_sequences(shape);
  const std::int64_t origin = offsets ? offsets[batch] : 0;
  // In 32 bits, as operands.cpp guarantees: kernels of a GPU would spill registers for more.
  const auto row = static_cast<std::int32_t>(offsets ? origin + token : batch * shape.queries + token);
  const std::int64_t position = shape.query_offset + token,
                     end = shape.causal ? min_of(shape.keys, position + 1)
                                        : clamp(shape.document_ends[row], 1, shape.keys);
  std::int64_t begin = shape.window > 0 ? position + 1 - shape.window : 0;
  if (shape.document_starts != nullptr) {
    const std::int64_t start = shape.document_starts[row] - origin;
    begin = begin < start ? start : begin;
  }
  return {clamp(begin, 0, end - 1), end};  // kernels may rely on a key, whatever the tensors say
}
constexpr Range visible_keys(const AttentionShape& shape, const List& list, std::int64_t row) {
  return visible_keys(shape, list.batch, pair_at(list, row).token);
}

/// The rows of a list that see one of `keys`: neighbours, since rows ascend by position.
constexpr Range rows_seeing(const AttentionShape& shape, const List& list, const Range& keys) {
  const auto first_row = [&](auto holds) {
    std::int64_t low = 0, high = list.rows;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (holds(visible_keys(shape, list, middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  return {first_row([&](const Range& seen) { return seen.end > keys.begin; }),
          first_row([&](const Range& seen) { return seen.begin >= keys.end; })};
}

template <class T>
constexpr T* row_of(const HeadView<T>& view, const List& list, const Pair& pair) {
  return view.data + list.batch * view.batch_stride + (list.origin + pair.token) * view.token_stride +
         (list.kv_head * list.group + pair.head) * view.head_stride;
}
template <class T>
constexpr T* key_row(const HeadView<T>& view, const List& list, std::int64_t key) {
  return view.data + list.batch * view.batch_stride + (list.origin + key) * view.token_stride +
         list.kv_head * view.head_stride;
}
constexpr std::int64_t gate_index(const AttentionShape& shape, const List& list, const Pair& pair) {
  return (list.batch * shape.queries + pair.token) * shape.heads + list.kv_head * list.group + pair.head;
}

/// The number of a row's weight for key 0 among the elements of the dropout mask; those of the other keys
/// follow. It is a multiple of 4, so that no random counter has weights of two rows.
constexpr std::int64_t first_weight(const AttentionShape& shape, const List& list, const Pair& pair) {
  const std::int64_t head = list.batch * shape.heads + list.kv_head * list.group + pair.head;
  return (head * shape.queries + pair.token) * ((shape.keys + 3) / 4 * 4);
}

/// Whether a gate is too small for dgate = <dout, gated output> / gate, because the gated output
/// may have underflowed.
template <class F>
constexpr bool is_tiny_gate(F gate) {
  constexpr F kTiny = F(1e-30);
  return gate > -kTiny && gate < kTiny;
}

/// Zeroes the rows of unselected pairs while a task writes the selected ones in list order.
template <class T>
class GapFiller {
 public:
  /// For a task that begins at row `begin` of its list.
  GapFiller(const HeadView<T>& view, const List& list, std::int64_t begin, std::int64_t head_dim)
      : view_(view), list_(list), head_dim_(head_dim) {
    if (begin > 0) next_ = pair_number(list, pair_at(list, begin - 1)) + 1;
  }
  /// Zeroes all pairs before `pair`, which the caller writes.
  void zero_up_to(const Pair& pair) {
    const std::int64_t number = pair_number(list_, pair);
    zero(number);
    next_ = number + 1;
  }
  /// Zeroes all pairs that are left.
  void zero_rest() { zero(list_.num_pairs); }

 private:
  void zero(std::int64_t end) {
    for (; next_ < end; ++next_) {
      __builtin_memset(static_cast<void*>(row_of(view_, list_, numbered_pair(list_, next_))), 0,
                       static_cast<std::size_t>(head_dim_) * sizeof(T));
    }
  }

  HeadView<T> view_;
  List list_;
  std::int64_t head_dim_;
  std::int64_t next_ = 0;
};

}  // namespace
}  // namespace moh

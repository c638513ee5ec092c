#include "ops/attention/attention_backward_cpu.h"
#include "ops/attention/attention_forward_cpu.h"

// Head-sparse attention in cache-sized blocks. For one list (the gathered rows of a batch and KV head)
// against dense keys and values:
//   forward    blocks of rows; for each, all blocks of kKeyBlock keys: scores, online softmax in base 2
//              (log2 e is folded into q), multiplication with v.
//   backward   blocks of kKeyBlock keys; for each, all blocks of rows: scores and probabilities again
//              from the saved lse, then the four matrix multiplications of dq, dk and dv, which stay in
//              cache meanwhile.
// Operands are packed first: q and dout rows gathered, k and v transposed where they are the right operand.
// Factor<T> is the type of packed factors, Acc<T> that of sums and of the softmax. Pairs of bfloat16 along
// the summed axis keep the bits of q, k, v and dout: the scale and the gate are multiplied with the products,
// in float32. What the softmax makes is rounded to bfloat16 once, as factors of the next product. The mask
// gives each row a range of keys, whose ends ascend with the rows, since these ascend by position: a tile
// sees the keys from the begin of its first row's range to the end of its last row's. Key blocks outside are
// skipped, and matrix multiplications are only as wide or as deep as the tile sees.

namespace moh {

template <class Backend, class T>
std::int64_t AttentionKernels<Backend, T>::padded_head_dim(std::int64_t head_dim) {
  return round_up_to_lanes<Acc<T>>(head_dim);
}

template <class Backend, class T>
std::size_t AttentionKernels<Backend, T>::forward_scratch_bytes(const AttentionShape& shape) {
  Arena arena(nullptr);
  ForwardScratch<T>().lay_out(arena, shape, shape.keys);
  return arena.used_bytes();
}

template <class Backend, class T>
void AttentionKernels<Backend, T>::forward(const AttentionForward<T>& args, const RowTask& task,
                                           std::byte* scratch) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim;
  const List list = list_at(args.shape, args.lists, task.list);
  const Range keys = keys_of_task(args.shape, list, task);
  const std::int64_t factors = factors_in<Factor<T>>(d);
  ForwardScratch<T> s;
  Arena arena(scratch);
  s.lay_out(arena, args.shape, keys.size());
  for (std::int64_t key = keys.begin; key < keys.end; key += kKeyBlock) {
    pack_transposed<T>(key_row(args.k, list, key), args.k.token_stride, min_of(kKeyBlock, keys.end - key), d,
                       s.k_transposed + (key - keys.begin) * factors, kKeyBlock);
  }
  const std::int64_t padded = round_up_to_lanes<F>(d);
  const Factor<T>* const v = values_of_task<T>(args.v, list, keys, d, s.v);
  GapFiller<T> gaps(args.out, list, task.begin, d);
  for (std::int64_t begin = task.begin; begin < task.end; begin += row_block(d)) {
    begin_block(args, list, begin, min_of(row_block(d), task.end - begin), s.block);
    const Range seen{first_block(s.block.seen[0].begin), s.block.seen[s.block.rows - 1].end};
    for (std::int64_t key = seen.begin; key < seen.end; key += kKeyBlock) {
      const std::int64_t packed = key - keys.begin;
      forward_step(s.block, s.k_transposed + packed * factors, v + packed / kTerms<Factor<T>> * padded, key,
                   d);
    }
    finish_block(args, list, begin, s.block, gaps);
  }
  if (task.end == list.rows) gaps.zero_rest();
}

template <class Backend, class T>
std::size_t AttentionKernels<Backend, T>::backward_scratch_bytes(const AttentionShape& shape,
                                                                 std::int64_t longest_list,
                                                                 bool sums_groups) {
  Arena arena(nullptr);
  BackwardScratch<T>().lay_out(arena, shape.head_dim, longest_list, sums_groups);
  return arena.used_bytes();
}

template <class Backend, class T>
void AttentionKernels<Backend, T>::backward_keys(const AttentionBackward<T>& args, const KeyTask& task,
                                                 std::byte* scratch) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  const List list = list_at(args.shape, args.lists, task.list);
  // Whole tiles, so that rows are in the same tiles as in a task of the whole list, and sums in the same
  // order.
  const Range seeing = rows_seeing(args.shape, list, {task.begin, task.end});
  const std::int64_t first = seeing.begin / kTileRows * kTileRows;
  const std::int64_t rows = min_of(round_up_to_tile(seeing.end), list.rows) - first;
  const bool sums_groups = task.end - task.begin > args.group_keys;
  BackwardScratch<T> s;
  Arena arena(scratch);
  s.lay_out(arena, d, rows, sums_groups);
  gather_for_backward(args, list, first, rows, s);
  if (args.dgates != nullptr && task.group == 0) write_dgates(args, list);
  const F* lse = args.lse + list.first + first;
  Range tiles{0, 0};
  for (std::int64_t key = task.begin; key < task.end; key += args.group_keys) {
    if (key == task.begin + args.group_keys) {
      F* const first_group = s.dq;
      s.dq = s.earlier;
      s.earlier = first_group;
    }
    const Range group{key, min_of(key + args.group_keys, task.end)};
    tiles = tiles_seeing(s.seen, rows, group, tiles);
    if (key > task.begin)
      set_zero(s.dq + tiles.begin * padded, (round_up_to_tile(tiles.end) - tiles.begin) * padded);
    backward_group(args, list, group, lse, rows, tiles, s);
    if (key > task.begin) add_group(s, tiles, padded);
  }
  if (args.dq_partials == nullptr) {
    finish_queries(args, list, 0, list.rows, sums_groups ? s.earlier : s.dq, 0, args.shape.keys);
  } else {
    F* share =
        args.dq_partials + (task.group * total_rows(args.shape, args.lists) + list.first + first) * padded;
    copy_rows(s.dq, share, rows * padded);
  }
}

template <class Backend, class T>
void AttentionKernels<Backend, T>::backward_queries(const AttentionBackward<T>& args, const RowTask& task) {
  const std::int64_t padded = padded_head_dim(args.shape.head_dim);
  const List list = list_at(args.shape, args.lists, task.list);
  finish_queries(args, list, task.begin, task.end, args.dq_partials + (list.first + task.begin) * padded,
                 total_rows(args.shape, args.lists) * padded, args.group_keys);
}

MOH_MATRIX_KERNELS(AttentionKernels)

}  // namespace moh

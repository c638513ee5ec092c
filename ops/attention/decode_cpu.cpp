#include "ops/attention/decode_kernels.h"
#include "ops/attention/list_walk.h"
#include "ops/attention/softmax_cpu.h"
#include "ops/cpu/pack.h"

namespace moh {
namespace {

template <class F>
struct DecodeScratch {
  F* q;       // [rows, padded d], times scale log2 e
  F* scores;  // [rows, kKeyBlock]
  F* sum;     // [rows, lanes]
  Range* seen;

  void lay_out(Arena& arena, std::int64_t d, std::int64_t rows) {
    q = arena.take<F>(rows * round_up_to_lanes<F>(d));
    scores = arena.take<F>(rows * kKeyBlock);
    sum = arena.take<F>(rows * kLanes<F>);
    seen = arena.take<Range>(rows);
  }
};

/// The inner product of a row in scratch with one in a tensor.
template <class T>
[[gnu::always_inline]] inline Acc<T> dot_with(const Acc<T>* a, const T* b, std::int64_t head_dim) {
  constexpr int kN = kLanes<Acc<T>>;
  Vec<Acc<T>> sum{};
  std::int64_t c = 0;
  for (; c + kN <= head_dim; c += kN) sum += load(a + c) * load_as<T>(b + c);
  if (c < head_dim) sum += load(a + c) * load_first<T>(b + c, head_dim - c);
  return sum_lanes<Acc<T>>(sum);
}

/// Keys whose values are added to an output in registers before it is stored again.
constexpr std::int64_t kValueBlock = 8;

/// to += factors[0] * row 0 + factors[1] * row 1 + ..., in this order, for kVecs vectors. Rows are `stride`
/// apart.
template <class T, int kVecs>
[[gnu::always_inline]] inline void add_vectors(const T* from, std::int64_t stride, const Acc<T>* factors,
                                               std::int64_t rows, Acc<T>* to) {
  constexpr int kN = kLanes<Acc<T>>;
  Vec<Acc<T>> sum[kVecs];
  for (int i = 0; i < kVecs; ++i) sum[i] = load(to + i * kN);
  for (std::int64_t j = 0; j < rows; ++j) {
    for (int i = 0; i < kVecs; ++i) sum[i] += load_as<T>(from + j * stride + i * kN) * factors[j];
  }
  for (int i = 0; i < kVecs; ++i) store(to + i * kN, sum[i]);
}

/// add_vectors() for whole rows of head_dim elements, into scratch.
template <class T>
[[gnu::always_inline]] inline void add_rows(const T* from, std::int64_t stride, const Acc<T>* factors,
                                            std::int64_t rows, Acc<T>* to, std::int64_t head_dim) {
  constexpr int kVecs = 4;
  constexpr std::int64_t kN = kLanes<Acc<T>>;
  std::int64_t c = 0;
  for (; c + kVecs * kN <= head_dim; c += kVecs * kN)
    add_vectors<T, kVecs>(from + c, stride, factors, rows, to + c);
  for (; c + kN <= head_dim; c += kN) add_vectors<T, 1>(from + c, stride, factors, rows, to + c);
  if (c == head_dim) return;
  Vec<Acc<T>> sum = load(to + c);
  for (std::int64_t j = 0; j < rows; ++j)
    sum += load_first<T>(from + j * stride + c, head_dim - c) * factors[j];
  store(to + c, sum);
}

/// Prefetches a row: the hardware prefetcher does not cross the end of a page.
template <class T>
[[gnu::always_inline]] inline void fetch_row(const T* row, std::int64_t head_dim) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t c = 0; c < head_dim; c += kLine) __builtin_prefetch(row + c);
}

/// Adds keys [key, key + keys), without those before the first row's window, to all rows of a list. Keys are
/// the outer loop: each is read from memory once and prefetched a key block ahead: values while scores are
/// computed, the next keys while values are accumulated.
template <class T, class F>
void decode_step(const AttentionDecode<T>& args, const List& list, std::int64_t key, std::int64_t keys,
                 DecodeScratch<F>& s, F* top, F* out) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  const std::int64_t first_seen = in_block(s.seen[0], key).begin;
  for (std::int64_t j = first_seen; j < keys; ++j) {
    const T* k = key_row(args.k, list, key + j);
    fetch_row(key_row(args.v, list, key + j), d);
    for (std::int64_t r = 0; r < list.rows; ++r)
      s.scores[r * kKeyBlock + j] = dot_with<T>(s.q + r * padded, k, d);
  }
  for (std::int64_t r = 0; r < list.rows; ++r) {
    const Range seen = in_block(s.seen[r], key);
    if (seen.size() <= 0) continue;
    F* const scores = s.scores + r * kKeyBlock;
    softmax_step(scores, F(1), vecs_of<F>(seen), seen, top[r], s.sum + r * kLanes<F>, out + r * padded,
                 padded, scores);
  }
  for (std::int64_t first = first_seen / kValueBlock * kValueBlock; first < keys; first += kValueBlock) {
    const std::int64_t next = key + kKeyBlock + first;
    for (std::int64_t k = next; k < min_of(next + kValueBlock, args.shape.keys); ++k)
      fetch_row(key_row(args.k, list, k), d);
    const T* v = key_row(args.v, list, key + first);
    for (std::int64_t r = 0; r < list.rows; ++r) {
      const Range seen = in_block(s.seen[r], key);
      const std::int64_t from = clamp(seen.begin - first, 0, kValueBlock),
                         to = clamp(seen.end - first, 0, kValueBlock);
      add_rows<T>(v + from * args.v.token_stride, args.v.token_stride,
                  s.scores + r * kKeyBlock + first + from, to - from, out + r * padded, d);
    }
  }
}

}  // namespace

template <class Backend, class T>
std::int64_t AttentionDecodeKernels<Backend, T>::padded_head_dim(std::int64_t head_dim) {
  return round_up_to_lanes<Acc<T>>(head_dim);
}

template <class Backend, class T>
std::size_t AttentionDecodeKernels<Backend, T>::part_scratch_bytes(const AttentionShape& shape,
                                                                   std::int64_t longest_list) {
  Arena arena(nullptr);
  DecodeScratch<Acc<T>>().lay_out(arena, shape.head_dim, longest_list);
  return arena.used_bytes();
}

template <class Backend, class T>
void AttentionDecodeKernels<Backend, T>::part(const AttentionDecode<T>& args, const KeyTask& task,
                                              std::byte* scratch) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  const List list = list_at(args.shape, args.lists, task.list);
  DecodeScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, d, list.rows);
  const std::int64_t place = task.group * total_rows(args.shape, args.lists) + list.first;
  F *out = args.part_out + place * padded, *top = args.part_top + place, *sum = args.part_sum + place;
  for (std::int64_t r = 0; r < list.rows; ++r) {
    const Pair pair = pair_at(list, r);
    gather_row<T>(row_of(args.q, list, pair), F(args.shape.scale * kLog2E), s.q + r * padded, d);
    s.seen[r] = visible_keys(args.shape, list.batch, pair.token);
    top[r] = -std::numeric_limits<F>::infinity();
  }
  set_zero(out, list.rows * padded);
  set_zero(s.sum, list.rows * kLanes<F>);
  std::int64_t key = task.begin;
  while (key + kKeyBlock <= s.seen[0].begin) key += kKeyBlock;
  for (; key < task.end; key += kKeyBlock) {
    decode_step(args, list, key, min_of(kKeyBlock, task.end - key), s, top, out);
  }
  for (std::int64_t r = 0; r < list.rows; ++r) sum[r] = sum_lanes<F>(load(s.sum + r * kLanes<F>));
}

template <class Backend, class T>
void AttentionDecodeKernels<Backend, T>::merge(const AttentionDecode<T>& args, std::int64_t number) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  const std::int64_t all_rows = total_rows(args.shape, args.lists);
  const List list = list_at(args.shape, args.lists, number);
  GapFiller<T> gaps(args.out, list, 0, d);
  for (std::int64_t r = 0; r < list.rows; ++r) {
    const Pair pair = pair_at(list, r);
    F* out = args.part_out + (list.first + r) * padded;  // the sum is accumulated in part 0
    F top = args.part_top[list.first + r], sum = args.part_sum[list.first + r];
    for (std::int64_t part = 1; part < args.num_parts; ++part) {
      const std::int64_t place = part * all_rows + list.first + r;
      const F part_top = args.part_top[place];
      if (args.part_sum[place] == F(0)) continue;  // the row sees none of its keys
      const F new_top = part_top > top ? part_top : top;
      const Vec<F> keep = exp2_lanes<F>(splat<F>(top - new_top)),
                   add = exp2_lanes<F>(splat<F>(part_top - new_top));
      const F* part_out = args.part_out + place * padded;
      for (std::int64_t c = 0; c < padded; c += kLanes<F>) {
        store(out + c, load(out + c) * keep + load(part_out + c) * add);
      }
      sum = sum * keep[0] + args.part_sum[place] * add[0];
      top = new_top;
    }
    const F gate = args.gates ? args.gates[gate_index(args.shape, list, pair)] : F(1);
    gaps.zero_up_to(pair);
    store_row<T>(out, gate / sum, row_of(args.out, list, pair), d);
  }
  gaps.zero_rest();
}

template struct AttentionDecodeKernels<cpu::MOH_ISA, float>;
template struct AttentionDecodeKernels<cpu::MOH_ISA, bfloat16>;
template struct AttentionDecodeKernels<cpu::MOH_ISA, double>;

}  // namespace moh

#include "core/cuda/fault.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/head_lists_cuda.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/scan.h"

namespace moh {

namespace {

/// The selected heads of a token within one group.
struct Group {
  const std::uint8_t* bits;
  std::int64_t size;

  MOH_DEVICE std::int32_t count() const {
    std::int32_t count = 0;
    for (std::int64_t h = 0; h < size; ++h) count += bits[h] != 0;
    return count;
  }
};

MOH_DEVICE Group group_of(const HeadListArgs& args, std::int64_t list, std::int64_t token) {
  const std::int64_t size = args.heads / args.kv_heads, batch = list / args.kv_heads;
  return {args.selected + (batch * args.tokens + token) * args.heads + list % args.kv_heads * size, size};
}

/// Nonzero bytes of a word, or of a byte.
MOH_DEVICE std::int32_t count_nonzero(std::uint32_t word) {
  const std::uint32_t tops = (((word & 0x7f7f7f7fU) + 0x7f7f7f7fU) | word) >> 7 & 0x01010101U;
  return static_cast<std::int32_t>(tops * 0x01010101U >> 24);
}

/// A thread's part of the pairs of `tokens` tokens from `first` on, of their first `heads` heads.
template <class Word>
MOH_DEVICE std::int64_t count_pairs(const HeadListArgs& args, std::int64_t first, std::int64_t tokens,
                                    std::int64_t heads) {
  constexpr std::int64_t kBytes = sizeof(Word);
  const auto* const words = reinterpret_cast<const Word*>(args.selected + first * args.heads);
  const std::int64_t of_token = heads / kBytes, stride = args.heads / kBytes;
  if (of_token == 0) return 0;
  // Token and word of a thread advance by these: one division here in place of one for each word.
  const std::int64_t more_tokens = kBlockThreads / of_token, more_words = kBlockThreads % of_token;
  std::int64_t count = 0, t = device::thread_x() / of_token, w = device::thread_x() % of_token;
  while (t < tokens) {
    count += count_nonzero(words[t * stride + w]);
    t += more_tokens;
    w += more_words;
    if (w >= of_token) {
      w -= of_token;
      ++t;
    }
  }
  return count;
}

/// The pairs of all lists before one. Must be called by all threads.
MOH_DEVICE std::int64_t pairs_before(const HeadListArgs& args, std::int64_t list, std::int64_t* sums) {
  const std::int64_t batch = list / args.kv_heads, head = list % args.kv_heads * (args.heads / args.kv_heads);
  const bool in_words = args.heads % 4 == 0 && head % 4 == 0;
  const auto count = [&](std::int64_t first, std::int64_t tokens, std::int64_t heads) {
    return in_words ? count_pairs<std::uint32_t>(args, first, tokens, heads)
                    : count_pairs<std::uint8_t>(args, first, tokens, heads);
  };
  std::int64_t pairs = count(batch * args.tokens, args.tokens, head);
  if (args.of_sequence < 0) pairs += count(0, batch * args.tokens, args.heads);
  pairs = reduce_block(pairs, Sum{}, sums);
  return args.of_sequence < 0 ? pairs : pairs + batch * args.of_sequence;
}

/// Writes the offsets, clamped to the capacity of `rows`, and the rows, tokens in their order. One block per
/// list, which counts what is before it, so that no launch has to write the lengths first.
MOH_KERNEL(kBlockThreads)
void head_lists_kernel(HeadListArgs args, cuda::Fault* fault, std::int32_t fault_kind) {
  auto* const sums = device::shared_memory<std::int64_t>();
  auto* const space = reinterpret_cast<std::int32_t*>(sums + kBlockWarps);
  const std::int64_t list = device::block_x(), batch = list / args.kv_heads;
  const auto clamped = [&](std::int64_t offset) { return offset < args.most_rows ? offset : args.most_rows; };
  std::int64_t next = pairs_before(args, list, sums);
  if (device::thread_x() == 0) args.offsets[list] = clamped(next);
  for (std::int64_t begin = 0; begin < args.tokens; begin += kBlockThreads) {
    const std::int64_t t = begin + device::thread_x();
    const Group group = t < args.tokens ? group_of(args, list, t) : Group{nullptr, 0};
    std::int32_t total = 0;
    std::int64_t at = next + sum_before<kBlockThreads>(group.count(), space, &total);
    for (std::int64_t h = 0; h < group.size; ++h) {
      if (group.bits[h] == 0) continue;
      if (at < args.most_rows) args.rows[at] = static_cast<std::int32_t>(t | h << kListPositionBits);
      ++at;
    }
    next += total;
  }
  if (device::thread_x() != 0) return;
  if (list + 1 == args.batch * args.kv_heads) args.offsets[list + 1] = clamped(next);
  const bool ends_sequence = (list + 1) % args.kv_heads == 0;
  const bool other_number = args.of_sequence >= 0 && ends_sequence && next != (batch + 1) * args.of_sequence;
  if (next > args.most_rows || other_number) {
    fault->value = next;
    fault->place = list;
    fault->kind = fault_kind;
  }
}

}  // namespace

void CudaHeadLists::fill(const HeadListArgs& args) {
  const std::int64_t lists = args.batch * args.kv_heads;
  if (lists == 0) return cuda::set_zero(args.offsets, sizeof(std::int64_t));
  const std::string expected = args.of_sequence < 0
                                   ? "at most " + std::to_string(args.most_rows) + " pairs"
                                   : std::to_string(args.of_sequence) + " pairs in each sequence";
  const std::int32_t kind = cuda::fault_kind("build_head_lists: selected: expected " + expected);
  cuda::launch("head_lists", head_lists_kernel,
               {.blocks_x = lists,
                .threads = kBlockThreads,
                .shared_bytes = kBlockWarps * (sizeof(std::int64_t) + sizeof(std::int32_t))},
               args, cuda::fault_on_device(), kind);
}

}  // namespace moh

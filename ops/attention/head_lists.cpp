#include "ops/attention/head_lists.h"

#include <algorithm>
#include <string>

#include "autograd/profile.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "core/parallel.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/head_lists_cuda.h"

namespace moh {

namespace {

void check_selection(const Tensor& selected, std::int64_t kv_heads) {
  constexpr auto kWhere = "build_head_lists";
  if (selected.dtype() != DType::kUInt8) {
    throw DTypeError(error_message(kWhere, "selected", "uint8", dtype_name(selected.dtype())));
  }
  if (selected.rank() != 3) {
    throw ShapeError(
        error_message(kWhere, "selected", "[batch, tokens, heads]", to_string(selected.shape())));
  }
  const std::int64_t heads = selected.dim(2);
  if (kv_heads < 1 || heads % kv_heads != 0) {
    throw ShapeError(error_message(kWhere, "kv_heads", "a divisor of the " + std::to_string(heads) + " heads",
                                   std::to_string(kv_heads)));
  }
  constexpr std::int64_t kTokenLimit = std::int64_t{1} << kListPositionBits;
  constexpr std::int64_t kGroupLimit = std::int64_t{1} << (31 - kListPositionBits);
  if (selected.dim(1) >= kTokenLimit) {
    throw ValueError(error_message(kWhere, "tokens", "fewer than 2^20 per sequence",
                                   std::to_string(selected.dim(1)), "split the sequence"));
  }
  if (heads / kv_heads > kGroupLimit) {
    throw ValueError(error_message(kWhere, "heads per KV head", "at most " + std::to_string(kGroupLimit),
                                   std::to_string(heads / kv_heads)));
  }
}

/// Calls visit(token, local head) for each selected pair of a list, in list order.
template <class Visit>
void for_each_selected(const Tensor& selected, std::int64_t kv_heads, std::int64_t list, const Visit& visit) {
  const std::int64_t tokens = selected.dim(1), heads = selected.dim(2), group = heads / kv_heads;
  const std::uint8_t* bits =
      selected.data<std::uint8_t>() + list / kv_heads * tokens * heads + list % kv_heads * group;
  for (std::int64_t t = 0; t < tokens; ++t, bits += heads) {
    for (std::int64_t h = 0; h < group; ++h) {
      if (bits[h] != 0) visit(t, h);
    }
  }
}

void fill_on_device(const Tensor& selected, HeadLists& lists) {
  CudaHeadLists::fill({lists.batch, lists.tokens, lists.heads, lists.kv_heads, selected.data<std::uint8_t>(),
                       lists.offsets.data<std::int64_t>(), lists.rows.data<std::int32_t>(),
                       lists.num_rows()});
}

/// On the CPU, where `rows` is allocated with the exact number of pairs.
void fill_on_cpu(const Tensor& selected, HeadLists& lists) {
  const std::int64_t num_lists = lists.batch * lists.kv_heads;
  // Building the lists of a few tokens takes less time than waking another thread.
  constexpr std::int64_t kSmall = 1 << 13;
  const std::int64_t grain = selected.numel() < kSmall ? std::max<std::int64_t>(num_lists, 1) : 1;
  std::int64_t* offsets = lists.offsets.data<std::int64_t>();
  offsets[0] = 0;
  parallel_for(num_lists, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t l = begin; l < end; ++l) {
      std::int64_t count = 0;
      for_each_selected(selected, lists.kv_heads, l, [&](std::int64_t, std::int64_t) { ++count; });
      offsets[l + 1] = count;
    }
  });
  for (std::int64_t l = 0; l < num_lists; ++l) offsets[l + 1] += offsets[l];
  lists.rows = empty({offsets[num_lists]}, DType::kInt32);
  parallel_for(num_lists, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t l = begin; l < end; ++l) {
      std::int32_t* row = lists.rows.data<std::int32_t>() + offsets[l];
      for_each_selected(selected, lists.kv_heads, l, [&](std::int64_t t, std::int64_t h) {
        *row++ = static_cast<std::int32_t>(t | h << kListPositionBits);
      });
    }
  });
}

}  // namespace

HeadLists build_head_lists(const Tensor& selected, std::int64_t kv_heads,
                           std::optional<std::int64_t> most_per_token) {
  const ProfileScope profile("build_head_lists");
  check_selection(selected, kv_heads);
  HeadLists lists;
  lists.batch = selected.dim(0);
  lists.tokens = selected.dim(1);
  lists.heads = selected.dim(2);
  lists.kv_heads = kv_heads;
  lists.offsets = empty({lists.batch * kv_heads + 1}, DType::kInt64, selected.device());
  if (selected.device() == kCpu && !dry_run()) {
    fill_on_cpu(selected, lists);
    return lists;
  }
  const std::int64_t each = most_per_token.value_or(lists.heads);
  lists.rows = empty({lists.batch * lists.tokens * each}, DType::kInt32, selected.device());
  if (dry_run()) {
    lists.longest = num_chunks(lists.tokens * each, kv_heads);
  } else {
    fill_on_device(selected, lists);
  }
  return lists;
}

}  // namespace moh

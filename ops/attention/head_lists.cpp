#include "ops/attention/head_lists.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <vector>

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

constexpr std::int64_t kWord = 64;  ///< pairs of a word of the selection

/// The selection, read eight heads of a token at a time.
class Selection {
 public:
  explicit Selection(const Tensor& selected)
      : heads_(selected.dim(2)), data_(selected.span<std::uint8_t>()) {}

  /// The selection of `count` <= 8 heads from `head` on, a byte each, 0 or 1. Tokens are counted through all
  /// sequences.
  [[gnu::always_inline]] inline std::uint64_t bytes(std::int64_t token, std::int64_t head,
                                                    std::int64_t count) const {
    constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7fU;
    const auto first = static_cast<std::size_t>(token * heads_ + head);
    std::uint64_t raw = 0;
    if (first + 8 <= data_.size()) {
      std::memcpy(&raw, data_.data() + first, 8);
    } else {
      std::memcpy(&raw, data_.data() + first, static_cast<std::size_t>(count));
    }
    return ((((raw & kLow) + kLow) | raw) & ~kLow) >> 7 & ~std::uint64_t{0} >> (64 - 8 * count);
  }
  /// bytes(), as a bit each.
  [[gnu::always_inline]] inline std::uint64_t bits(std::int64_t token, std::int64_t head,
                                                   std::int64_t count) const {
    return bytes(token, head, count) * 0x0102040810204080U >> 56;
  }

 private:
  std::int64_t heads_;
  std::span<const std::uint8_t> data_;
};

/// Where the lists of a sequence are cut into words of selected pairs, in the order of the lists.
struct ListWords {
  explicit ListWords(const HeadLists& of)
      : group(of.heads / of.kv_heads),
        heads(std::min(group, kWord)),
        tokens(kWord / heads),
        lists(group == 1 ? std::min<std::int64_t>(8, of.kv_heads) : 1),
        units(num_chunks(of.kv_heads, lists)) {
    for (std::int64_t bit = 0; bit < kWord; ++bit)
      rows[static_cast<std::size_t>(bit)] =
          static_cast<std::int32_t>(bit / heads | bit % heads << kListPositionBits);
  }

  std::int64_t group;                    ///< heads of a list
  std::int64_t heads, tokens;            ///< of a word
  std::int64_t lists;                    ///< of a unit, which are read together
  std::int64_t units;                    ///< of a sequence
  std::array<std::int32_t, kWord> rows;  ///< what a bit adds to the row of the word's first pair
};

/// Calls visit(list, first row, word) for the words of one list, of several heads.
template <class Visit>
void for_each_word_of_group(const Selection& selection, const HeadLists& of, const ListWords& words,
                            std::int64_t list, const Visit& visit) {
  const std::int64_t sequence = list / of.kv_heads, head = list % of.kv_heads * words.group;
  for (std::int64_t t = 0; t < of.tokens; t += words.tokens) {
    for (std::int64_t first = 0; first < words.group; first += words.heads) {
      const std::int64_t heads = std::min(words.heads, words.group - first);
      std::uint64_t word = 0;
      for (std::int64_t i = 0; i < std::min(words.tokens, of.tokens - t); ++i) {
        for (std::int64_t h = 0; h < heads; h += 8) {
          const std::uint64_t bits = selection.bits(sequence * of.tokens + t + i, head + first + h,
                                                    std::min<std::int64_t>(8, heads - h));
          word |= bits << (i * words.heads + h);
        }
      }
      visit(list, t | first << kListPositionBits, word);
    }
  }
}

/// Calls visit() for up to 8 consecutive lists of one head each: eight tokens become the bits of eight bytes.
template <class Visit>
void for_each_word_of_heads(const Selection& selection, const HeadLists& of, std::int64_t first_list,
                            std::int64_t lists, const Visit& visit) {
  const std::int64_t sequence = first_list / of.kv_heads, head = first_list % of.kv_heads;
  for (std::int64_t t = 0; t < of.tokens; t += kWord) {
    std::array<std::uint64_t, 8> words{};
    for (std::int64_t begin = t; begin < std::min(t + kWord, of.tokens); begin += 8) {
      std::uint64_t bits = 0;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(8, of.tokens - begin); ++i)
        bits |= selection.bytes(sequence * of.tokens + begin + i, head, lists) << i;
      for (std::size_t h = 0; h < 8; ++h) words[h] |= (bits >> (8 * h) & 0xffU) << (begin - t);
    }
    for (std::int64_t l = 0; l < lists; ++l) visit(first_list + l, t, words[static_cast<std::size_t>(l)]);
  }
}

/// Calls visit(list, first row, word) for the words of all lists, in parallel; those of a list in its order.
template <class Visit>
void for_each_word(const Tensor& selected, const HeadLists& of, const ListWords& words, const Visit& visit) {
  const Selection selection(selected);
  // Building the lists of a few tokens takes less time than waking another thread.
  constexpr std::int64_t kSmall = 1 << 15;
  const std::int64_t count = of.batch * words.units;
  parallel_for(count, selected.numel() < kSmall ? std::max<std::int64_t>(count, 1) : 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t u = begin; u < end; ++u) {
                   const std::int64_t in_sequence = u % words.units * words.lists;
                   const std::int64_t list = u / words.units * of.kv_heads + in_sequence;
                   if (words.group > 1) {
                     for_each_word_of_group(selection, of, words, list, visit);
                   } else {
                     for_each_word_of_heads(selection, of, list,
                                            std::min(words.lists, of.kv_heads - in_sequence), visit);
                   }
                 }
               });
}

void fill_on_device(const Tensor& selected, HeadLists& lists, const HeadsPerToken& per_token) {
  CudaHeadLists::fill({lists.batch, lists.tokens, lists.heads, lists.kv_heads, selected.data<std::uint8_t>(),
                       lists.offsets.data<std::int64_t>(), lists.rows.data<std::int32_t>(), lists.num_rows(),
                       per_token.exact ? lists.tokens * per_token.most : -1});
}

/// On the CPU, where `rows` is allocated with the exact number of pairs.
void fill_on_cpu(const Tensor& selected, HeadLists& lists) {
  const std::int64_t num_lists = lists.batch * lists.kv_heads;
  std::int64_t* offsets = lists.offsets.data<std::int64_t>();
  std::fill_n(offsets, num_lists + 1, 0);
  if (selected.numel() == 0) {
    lists.rows = empty({0}, DType::kInt32);
    return;
  }
  const ListWords words(lists);
  for_each_word(selected, lists, words, [=](std::int64_t list, std::int64_t, std::uint64_t word) {
    offsets[list + 1] += std::popcount(word);
  });
  for (std::int64_t l = 0; l < num_lists; ++l) offsets[l + 1] += offsets[l];
  lists.rows = empty({offsets[num_lists]}, DType::kInt32);
  std::vector<std::int32_t*> ends;
  for (std::int64_t l = 0; l < num_lists; ++l) ends.push_back(lists.rows.data<std::int32_t>() + offsets[l]);
  for_each_word(selected, lists, words, [&](std::int64_t list, std::int64_t first_row, std::uint64_t word) {
    std::int32_t* to = ends[static_cast<std::size_t>(list)];
    for (; word != 0; word &= word - 1)
      *to++ =
          static_cast<std::int32_t>(first_row) + words.rows[static_cast<std::size_t>(std::countr_zero(word))];
    ends[static_cast<std::size_t>(list)] = to;
  });
}

}  // namespace

HeadLists build_head_lists(const Tensor& selected, std::int64_t kv_heads,
                           std::optional<HeadsPerToken> per_token) {
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
  const HeadsPerToken heads = per_token.value_or(lists.heads);
  const std::int64_t each = heads.most;
  lists.rows = empty({lists.batch * lists.tokens * each}, DType::kInt32, selected.device());
  if (dry_run()) {
    lists.longest = num_chunks(lists.tokens * each, kv_heads);
  } else {
    fill_on_device(selected, lists, heads);
  }
  return lists;
}

}  // namespace moh

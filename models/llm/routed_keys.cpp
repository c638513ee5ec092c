#include "models/llm/routed_keys.h"

#include <algorithm>

#include "autograd/node.h"
#include "autograd/profile.h"
#include "core/parallel.h"
#include "ops/attention/attention.h"
#include "ops/attention/decode.h"

namespace moh {

namespace {

/// The window of each head of a layer: shared ones have one, routed ones see their whole sequence.
std::vector<std::int64_t> windows_of(const LlamaConfig& c, std::int64_t layer) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(c.heads));
  for (const std::int64_t head : query_head_kinds(routing_of(c, layer)).shared)
    windows[static_cast<std::size_t>(head)] = c.moh.shared_window;
  return windows;
}

/// 1 + 2 + ... + count, of which no number is above `most`, over count: keys that a token sees on average.
double mean_of_causal(double count, double most) {
  if (count <= most) return (count + 1) / 2;
  return (most * (most + 1) / 2 + (count - most) * most) / count;
}

/// Rows [begin, end) of packed rows [1, R, 1, d], as a view of that form.
Tensor rows_of(const Tensor& packed, std::int64_t begin, std::int64_t end) {
  return packed.reshape({packed.dim(1), packed.dim(3)})
      .slice(begin, end)
      .reshape({1, end - begin, 1, packed.dim(3)});
}

}  // namespace

RoutedKeys::RoutedKeys(const LlamaConfig& c, std::int64_t layer, Device device)
    : positions_in_head_(c.moh.positions == HeadPositions::kHead),
      num_shared_(c.moh.num_shared.at(layer)),
      shared_window_(c.moh.shared_window),
      windows_(windows_of(c, layer)) {
  if (std::ranges::all_of(windows_, [](std::int64_t window) { return window == 0; })) return;
  Tensor windows = empty({c.heads}, DType::kInt32);
  std::ranges::transform(windows_, windows.data<std::int32_t>(),
                         [](std::int64_t window) { return static_cast<std::int32_t>(window); });
  windows_on_device_ = windows.to(device);
}

Variable RoutedKeys::rotated(const Variable& x, const RmsNorm* norm, const RopeTable& table,
                             const HeadSequences& sequences) const {
  const Variable rows = gather_pairs(x, sequences);
  return rope_at(norm != nullptr ? (*norm)(rows) : rows, table, sequences.positions);
}

double RoutedKeys::mean_visible(std::int64_t tokens, std::int64_t computed_heads) const {
  const auto length = static_cast<double>(tokens);
  const auto routed = static_cast<double>(std::ssize(windows_) - num_shared_),
             kept = static_cast<double>(computed_heads - num_shared_),
             shared = static_cast<double>(num_shared_);
  const double window = shared_window_ > 0 ? static_cast<double>(shared_window_) : length;
  const double of_routed = routed > 0 ? mean_of_causal(length * kept / routed, length) : 0;
  return (shared * mean_of_causal(length, window) + kept * of_routed) / static_cast<double>(computed_heads);
}

Variable RoutedKeys::forward(const Heads& heads, const RopeTable& table, const HeadChoice& choice,
                             const ForwardContext& context) const {
  const HeadSequences s = head_sequences(choice.lists, {.document_starts = context.document_starts,
                                                        .reset_positions = context.reset_positions,
                                                        .positions_in_head = positions_in_head_,
                                                        .windows = windows_on_device_});
  const AttentionOptions causal{
      .document_starts = s.starts,
      .sequences = {s.offsets, s.longest, mean_visible(choice.gates.dim(1), choice.computed_heads)}};
  const Variable out = attention(rotated(heads.q, heads.q_norm, table, s),
                                 rotated(heads.k, heads.k_norm, table, s), gather_pairs(heads.v, s), causal);
  return scatter_pairs(out, choice.gates, s);
}

Tensor RoutedKeys::decode(const Heads& heads, const RopeTable& table, const Tensor& gates,
                          const HeadLists& lists, LayerCache& cache) const {
  const ProfileScope profile("attention_decode");
  const NoGrad no_grad;
  const std::span<LayerCache> caches = cache.heads();
  cache.advance(lists.tokens);
  HeadSequenceOptions options{.positions_in_head = positions_in_head_};
  if (positions_in_head_) {
    Tensor first = empty({static_cast<std::int64_t>(caches.size())}, DType::kInt32);
    std::ranges::transform(caches, first.data<std::int32_t>(),
                           [](const LayerCache& of) { return static_cast<std::int32_t>(of.length()); });
    options.first_positions = first.to(gates.device());
  }
  const HeadSequences s = head_sequences(lists, options);
  const Tensor q = rotated(heads.q, heads.q_norm, table, s).value(),
               k = rotated(heads.k, heads.k_norm, table, s).value(), v = gather_pairs(heads.v, s).value();
  const Tensor out = zeros(q.shape(), q.dtype(), q.device()), offsets = s.offsets.to(kCpu);
  const auto attend = [&](std::int64_t first_list, std::int64_t end_list) {
    for (std::int64_t l = first_list; l < end_list; ++l) {
      const std::int64_t begin = offsets.data<std::int64_t>()[l], end = offsets.data<std::int64_t>()[l + 1];
      if (begin == end) continue;
      const auto head = static_cast<std::size_t>(l);
      const LayerCache::Keys keys = caches[head].append(rows_of(k, begin, end), rows_of(v, begin, end));
      const AttentionOptions causal{.window = windows_[head % windows_.size()]};
      rows_of(out, begin, end)
          .copy_from(attention_decode(rows_of(q, begin, end), keys.k, keys.v, keys.count, {}, {}, causal));
    }
  };
  // Heads of a few rows have a thread each; else threads share a head.
  constexpr std::int64_t kShort = 16;
  const auto num_lists = static_cast<std::int64_t>(caches.size());
  if (q.device() == kCpu && lists.tokens <= kShort) {
    parallel_for(num_lists, 1, attend);
  } else {
    attend(0, num_lists);
  }
  return scatter_pairs(Variable(out), Variable(gates), s).value();
}

}  // namespace moh

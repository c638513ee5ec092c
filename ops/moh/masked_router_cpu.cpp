#include <cmath>
#include <limits>

#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/moh/masked_router_kernels.h"

namespace moh {
namespace {

/// Weighted softmaxes of a token, in scratch: shares of the shared heads' gates, of the kept heads' gates,
/// and the probabilities of the routed heads. 0 where a head has no weight.
template <class A>
struct TokenShares {
  A *shared, *kept, *routed;  // [H]
  A all_shared = 0, all_kept = 0;
  A type[2] = {1, 1};
};

/// share = weight exp(z) / sum of that, over the heads with a weight. Returns the sum of the weights.
template <class A, class Weight>
[[gnu::always_inline]] inline A weighted_softmax(const A* z, std::int64_t heads, const Weight& weight,
                                                 A* share) {
  A top = -std::numeric_limits<A>::infinity(), sum = 0, all = 0;
  for (std::int64_t h = 0; h < heads; ++h) {
    if (weight(h) > A(0) && z[h] > top) top = z[h];
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    share[h] = weight(h) > A(0) ? weight(h) * std::exp(z[h] - top) : A(0);
    sum += share[h];
    all += weight(h);
  }
  for (std::int64_t h = 0; h < heads && all > A(0); ++h) share[h] /= sum;
  return all;
}

template <class A>
[[gnu::always_inline]] inline void shares_of(const MaskedRouterArgs<A>& args, std::int64_t t,
                                             TokenShares<A>& token) {
  const std::int64_t heads = args.heads;
  const A* z = args.masks;
  const std::uint8_t* kept = args.kept + t * heads;
  const A* routed = args.routed_logits + t * heads;
  token.all_shared = weighted_softmax<A>(
      args.shared_logits + t * heads, heads, [=](std::int64_t h) { return z[h]; }, token.shared);
  token.all_kept = weighted_softmax<A>(
      routed, heads, [=](std::int64_t h) { return kept[h] != 0 ? A(1) - z[h] : A(0); }, token.kept);
  weighted_softmax<A>(
      routed, heads, [=](std::int64_t h) { return A(1) - z[h]; }, token.routed);
  if (args.type_logits == nullptr) return;
  const A difference = args.type_logits[2 * t + 1] - args.type_logits[2 * t];
  token.type[0] = A(2) / (A(1) + std::exp(difference));
  token.type[1] = A(2) - token.type[0];
}

/// The K heads with the largest r + ln e, marked in `kept`; NaN ranks below every number.
template <class A>
[[gnu::always_inline]] inline void keep_best(const MaskedRouterArgs<A>& args, const A* log_routed,
                                             std::int64_t t) {
  const A* logits = args.routed_logits + t * args.heads;
  std::uint8_t* kept = args.kept + t * args.heads;
  for (std::int64_t h = 0; h < args.heads; ++h) kept[h] = 0;
  const auto top_k = static_cast<std::int64_t>(args.counts[0]);
  for (std::int64_t k = 0; k < top_k; ++k) {
    std::int64_t best = -1;
    A best_key = 0;
    for (std::int64_t h = 0; h < args.heads; ++h) {
      if (kept[h] != 0 || !(args.masks[h] < A(1))) continue;
      const A key = logits[h] + log_routed[h];
      const bool nan_before = best >= 0 && best_key != best_key && key == key;
      if (best >= 0 && !(key > best_key) && !nan_before) continue;
      best = h;
      best_key = key;
    }
    kept[best] = 1;
  }
}

/// Scratch for TokenShares of one thread, and a row more.
template <class A>
class SharesScratch {
 public:
  explicit SharesScratch(std::int64_t heads) : scratch_(static_cast<std::size_t>(4 * heads) * sizeof(A)) {
    A* at = scratch_.as<A>();
    token = {at, at + heads, at + 2 * heads};
    row = at + 3 * heads;
  }
  TokenShares<A> token;
  A* row;

 private:
  Scratch scratch_;
};

/// Gradients of a token's logits, and what it adds to those of the masks.
template <class A>
[[gnu::always_inline]] inline void backward_token(const MaskedRouterArgs<A>& args, std::int64_t t,
                                                  TokenShares<A>& token, A balance, A* d_masks) {
  const std::int64_t heads = args.heads;
  shares_of(args, t, token);
  A of_shared = 0, of_kept = 0, mean_load = 0;
  const auto d_gate = [&](std::int64_t h) { return args.d_gates ? args.d_gates[t * heads + h] : A(0); };
  for (std::int64_t h = 0; h < heads; ++h) {
    of_shared += d_gate(h) * token.shared[h];
    of_kept += d_gate(h) * token.kept[h];
    mean_load += token.routed[h] * args.balance_load[h];
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    const A z = args.masks[h], to_shared = token.type[0] * (d_gate(h) - of_shared),
            to_kept = token.type[1] * (d_gate(h) - of_kept);
    args.d_shared_logits[t * heads + h] = token.all_shared * token.shared[h] * to_shared;
    args.d_routed_logits[t * heads + h] = token.all_kept * token.kept[h] * to_kept +
                                          balance * token.routed[h] * (args.balance_load[h] - mean_load);
    if (!(z > A(0)) || !(z < A(1))) continue;
    d_masks[h] += token.type[0] * of_shared + token.all_shared * token.shared[h] / z * to_shared;
    if (args.kept[t * heads + h] == 0) continue;
    d_masks[h] -= token.type[1] * of_kept + token.all_kept * token.kept[h] / (A(1) - z) * to_kept;
  }
  if (args.d_type_logits == nullptr) return;
  // w = 2 softmax(types): dw_k = w_k (D_k - mean of D under softmax).
  const A d_shared = token.all_shared * of_shared, d_kept = token.all_kept * of_kept;
  const A mean = (token.type[0] * d_shared + token.type[1] * d_kept) / A(2);
  args.d_type_logits[2 * t] = token.type[0] * (d_shared - mean);
  args.d_type_logits[2 * t + 1] = token.type[1] * (d_kept - mean);
}

std::int64_t token_grain(std::int64_t tokens) {
  return row_grain(tokens, 256);
}

}  // namespace

template <class Backend, class A>
void MaskedRouterKernels<Backend, A>::count(const MaskedRouterArgs<A>& args, double kept_share,
                                            BalanceLoss form) {
  const RoutedCount count = count_routed(args.masks, args.heads, kept_share, form);
  args.counts[0] = count.top_k;
  args.counts[1] = count.balance_factor;
}

template <class Backend, class A>
void MaskedRouterKernels<Backend, A>::forward(const MaskedRouterArgs<A>& args) {
  const std::int64_t heads = args.heads;
  const Scratch scratch(static_cast<std::size_t>(3 * heads + 1) * sizeof(A));
  // Sums of probabilities, of kept heads, of the weights of routed heads.
  A *log_routed = scratch.as<A>(), *sums = log_routed + heads;
  for (std::int64_t h = 0; h < heads; ++h) log_routed[h] = std::log(A(1) - args.masks[h]);
  const auto chunk = [&](std::int64_t begin, std::int64_t end, A* partial) {
    SharesScratch<A> own(heads);
    TokenShares<A>& token = own.token;
    for (std::int64_t t = begin; t < end; ++t) {
      keep_best(args, log_routed, t);
      shares_of(args, t, token);
      for (std::int64_t h = 0; h < heads; ++h) {
        const bool kept = args.kept[t * heads + h] != 0;
        args.gates[t * heads + h] = token.type[0] * token.all_shared * token.shared[h] +
                                    token.type[1] * token.all_kept * token.kept[h];
        args.selected[t * heads + h] = args.masks[h] > A(0) || kept ? 1 : 0;
        partial[h] += token.routed[h];
        partial[heads + h] += kept ? A(1) : A(0);
      }
      partial[2 * heads] += token.type[1] / 2;
    }
  };
  sum_over_chunks<A>(args.tokens, token_grain(args.tokens), 2 * heads + 1, sums, chunk);
  const A share = args.tokens > 0 ? A(1) / A(args.tokens) : A(0);
  double balance = 0, heads_each = 0;
  for (std::int64_t h = 0; h < heads; ++h) {
    args.load[h] = sums[heads + h] * share;
    balance += static_cast<double>(sums[h] * share) * static_cast<double>(args.balance_load[h]);
    heads_each += args.masks[h] > A(0) ? 1.0 : static_cast<double>(args.load[h]);
  }
  *args.balance = static_cast<A>(args.counts[1] * balance);
  *args.heads_each = static_cast<A>(heads_each);
  if (args.routed_weight != nullptr) *args.routed_weight = sums[2 * heads] * share;
}

template <class Backend, class A>
void MaskedRouterKernels<Backend, A>::backward(const MaskedRouterArgs<A>& args) {
  const A balance = args.d_balance != nullptr && args.tokens > 0
                        ? *args.d_balance * A(args.counts[1]) / A(args.tokens)
                        : A(0);
  sum_over_chunks<A>(args.tokens, token_grain(args.tokens), args.heads, args.d_masks,
                     [&](std::int64_t begin, std::int64_t end, A* partial) {
                       SharesScratch<A> own(args.heads);
                       for (std::int64_t t = begin; t < end; ++t)
                         backward_token(args, t, own.token, balance, partial);
                     });
}

template struct MaskedRouterKernels<cpu::MOH_ISA, float>;
template struct MaskedRouterKernels<cpu::MOH_ISA, double>;

}  // namespace moh

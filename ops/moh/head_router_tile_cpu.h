#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The router's arithmetic on a tile of kLanes tokens: a vector for each head, with a token in each lane.

#include <limits>

#include "core/scratch.h"
#include "ops/cpu/columns.h"
#include "ops/cpu/math.h"
#include "ops/moh/head_router_kernels.h"

namespace moh {
namespace {

/// The columns of a tile, in scratch memory that serves tile after tile. Each has room for whole squares.
template <class A>
class RouterTile {
  using Bits = BitsOf<A>;

 public:
  explicit RouterTile(const RouterOptions& o)
      : width_(round_up_to_lanes<A>(o.heads > 2 ? o.heads : 2)),
        scratch_(static_cast<std::size_t>(kArrays * width_) * sizeof(Vec<A>) +
                 static_cast<std::size_t>(staged_elements<A>(width_)) * sizeof(A)),
        staging_(scratch_.as<A>() + kArrays * width_ * kLanes<A>) {
    A* const all = scratch_.as<A>();  // lanes without a token are computed, too
    for (A* at = all; at < staging_ + staged_elements<A>(width_); ++at) *at = A(0);
  }

  std::int64_t first = 0, count = 0;           ///< tokens
  Vec<A>* shared() const { return array(0); }  ///< [S] logits, then probabilities
  Vec<A>* routed() const { return array(1); }  ///< [E] logits, then probabilities
  Vec<A>* types() const { return array(2); }   ///< [2] logits, then probabilities
  /// [E] how often a head is among the K: 0 or 1, but for a forced choice.
  Vec<A>* times() const { return array(3); }
  Vec<A>* gates() const { return array(4); }      ///< [H]
  Vec<A>* dp() const { return array(5); }         ///< [E] gradients of probabilities
  Vec<A>* dz() const { return array(6); }         ///< [E] gradients of logits
  Vec<A>* mean() const { return array(7); }       ///< [E] sums of probabilities over tiles
  Vec<A>* load_sums() const { return array(8); }  ///< [E] sums of times() over tiles
  Vec<Bits>* keys() const { return reinterpret_cast<Vec<Bits>*>(array(9)); }      ///< [E]
  Vec<Bits>* ranks() const { return reinterpret_cast<Vec<Bits>*>(array(10)); }    ///< [E]
  Vec<Bits>* numbers() const { return reinterpret_cast<Vec<Bits>*>(array(11)); }  ///< [H]
  Vec<A>* in_groups() const { return array(12); }   ///< [E] RouterArgs::group_probabilities
  Vec<A>* statistics() const { return array(13); }  ///< [2] sums of RouterArgs::statistics over tiles

  /// The rows of this tile in an array [tokens, width], or in these columns of a wider one, and back.
  [[gnu::always_inline]] void load(const Columns<const A>& from, std::int64_t tokens, std::int64_t width,
                                   Vec<A>* to) const {
    const std::int64_t available = (tokens - first - 1) * from.stride + width;
    load_columns<A>(from.row(first), from.stride, available, count, width, to, staging_);
  }
  [[gnu::always_inline]] void load(const A* from, std::int64_t tokens, std::int64_t width, Vec<A>* to) const {
    load(Columns<const A>{from, width}, tokens, width, to);
  }
  [[gnu::always_inline]] void store(const Vec<A>* from, std::int64_t width, const Columns<A>& to) const {
    store_columns<A>(from, count, width, to.row(first), to.stride, staging_);
  }
  [[gnu::always_inline]] void store(const Vec<A>* from, std::int64_t width, A* to) const {
    store(from, width, Columns<A>{to, width});
  }
  template <class To>
  [[gnu::always_inline]] void store_numbers(std::int64_t width, To* to) const {
    store_integers<A>(numbers(), count, width, to + first * width, staging_);
  }
  /// v, with zeros in lanes without a token.
  [[gnu::always_inline]] Vec<A> masked(Vec<A> v) const {
    return lane_numbers<A>() < static_cast<Bits>(count) ? v : Vec<A>{};
  }

 private:
  static constexpr std::int64_t kArrays = 14;

  Vec<A>* array(std::int64_t number) const { return scratch_.as<Vec<A>>() + number * width_; }

  std::int64_t width_;
  Scratch scratch_;
  A* staging_;
};

/// p = softmax(z) over n columns, in place.
template <class A>
[[gnu::always_inline]] inline void softmax_columns(Vec<A>* z, std::int64_t n) {
  Vec<A> top = z[0], sum{};
  for (std::int64_t i = 1; i < n; ++i) top = larger<A>(z[i], top);
  for (std::int64_t i = 0; i < n; ++i) sum += z[i] = exp_of_negative(z[i] - top);
  const Vec<A> share = A(1) / sum;
  for (std::int64_t i = 0; i < n; ++i) z[i] *= share;
}

/// p = softmax(z) of each `size` columns in succession, of n, in place.
template <class A>
[[gnu::always_inline]] inline void softmax_parts(Vec<A>* z, std::int64_t n, std::int64_t size) {
  for (std::int64_t e = 0; e < n; e += size) softmax_columns<A>(z + e, size);
}

/// Columns of the routed logits that a softmax is of: those of the layer, or with kShares of a group.
inline std::int64_t softmax_width(const RouterOptions& o) {
  return o.scaling == GateScaling::kShares ? o.group_routed() : o.routed();
}

/// Adds the backward pass of p = softmax(z) to dz: p (dp - <p, dp>).
template <class A>
[[gnu::always_inline]] inline void add_softmax_backward(const Vec<A>* p, const Vec<A>* dp, Vec<A>* dz,
                                                        std::int64_t n) {
  Vec<A> mean{};
  for (std::int64_t i = 0; i < n; ++i) mean += p[i] * dp[i];
  for (std::int64_t i = 0; i < n; ++i) dz[i] += p[i] * (dp[i] - mean);
}

/// The best heads of each group, into tile.numbers(), best first, and tile.times(). NaN ranks below every
/// number.
template <class A>
[[gnu::always_inline]] inline void choose(const RouterTile<A>& tile, const RouterOptions& o) {
  using Bits = BitsOf<A>;
  const std::int64_t size = o.group_routed(), k = o.group_top_k();
  for (std::int64_t g = 0; g < o.groups; ++g) {
    const std::int64_t begin = g * size, end = begin + size;
    rank_columns<A>(tile.routed() + begin, size, tile.keys(), tile.ranks() + begin);
    for (std::int64_t e = begin; e < end; ++e)
      tile.times()[e] = tile.ranks()[e] < static_cast<Bits>(k) ? splat(A(1)) : Vec<A>{};
    for (std::int64_t r = 0; r < k; ++r) {
      Vec<Bits> number{};
      for (std::int64_t e = begin; e < end; ++e)
        number |= (tile.ranks()[e] == static_cast<Bits>(r)) & static_cast<Bits>(e);
      tile.numbers()[g * k + r] = number;
    }
  }
}

/// z_k - z_r of the last kept logit and the first refused one, the mean over the groups, once choose() has
/// ranked tile.routed(). 0 where none is refused, or none that is finite.
template <class A>
[[gnu::always_inline]] inline Vec<A> margin(const RouterTile<A>& tile, const RouterOptions& o) {
  using Bits = BitsOf<A>;
  const std::int64_t size = o.group_routed();
  const auto k = static_cast<Bits>(o.group_top_k());
  const Vec<A> none = splat(-std::numeric_limits<A>::infinity());
  Vec<A> sum{};
  for (std::int64_t begin = 0; begin < o.routed(); begin += size) {
    Vec<A> kept = none, refused = none;
    for (std::int64_t e = begin; e < begin + size; ++e) {
      kept = tile.ranks()[e] == k - 1 ? tile.routed()[e] : kept;
      refused = tile.ranks()[e] == k ? tile.routed()[e] : refused;
    }
    sum += refused > none ? kept - refused : Vec<A>{};
  }
  return sum * (A(1) / A(o.groups));
}

/// tile.times() of a choice that was made before, [tokens, k].
template <class A>
[[gnu::always_inline]] inline void count_choice(const RouterTile<A>& tile, std::int64_t experts,
                                                std::int64_t k, const std::int32_t* top) {
  for (std::int64_t e = 0; e < experts; ++e) tile.times()[e] = Vec<A>{};
  for (std::int64_t lane = 0; lane < tile.count; ++lane) {
    const std::int32_t* of_token = top + (tile.first + lane) * k;
    for (std::int64_t r = 0; r < k; ++r) reinterpret_cast<A*>(tile.times() + of_token[r])[lane] += A(1);
  }
}

/// The head of the layer at index i of the router's order, shared heads first.
template <class A>
[[gnu::always_inline]] inline std::int64_t head_at(const RouterArgs<A>& args, std::int64_t i) {
  return args.order ? args.order[i] : i;
}

/// Weights of the two kinds of heads: of shared ones, of routed ones.
template <class A>
struct TypeWeights {
  Vec<A> shared, routed;
};
template <class A>
[[gnu::always_inline]] inline TypeWeights<A> type_weights(const RouterArgs<A>& args,
                                                          const RouterTile<A>& tile) {
  if (args.options.scaling == GateScaling::kShares) return {Vec<A>{}, splat(A(1))};
  const bool code = args.options.scaling == GateScaling::kCode;
  const Vec<A>* w = tile.types();
  if (args.type_probabilities) return code ? TypeWeights<A>{2 * w[0], 2 * w[1]} : TypeWeights<A>{w[0], w[1]};
  const bool both = args.options.num_shared > 0 && args.options.top_k > 0;
  const Vec<A> each = splat(!code && both ? A(0.5) : A(1));
  return {each, each};
}

/// The gate of a shared head without the type weight.
template <class A>
[[gnu::always_inline]] inline Vec<A> shared_weight(const RouterArgs<A>& args, const RouterTile<A>& tile,
                                                   std::int64_t head) {
  if (!args.shared_probabilities) return splat(A(1));
  const Vec<A> p = tile.shared()[head];
  return args.options.scaling == GateScaling::kCode ? A(args.options.num_shared) * p : p;
}

/// The factor of p in a routed gate without the type weight: K / sum(m p), with kShares 1 / sum(m p), or 1.
template <class A>
[[gnu::always_inline]] inline Vec<A> routed_factor(const RouterArgs<A>& args, const RouterTile<A>& tile) {
  const GateScaling scaling = args.options.scaling;
  if (scaling != GateScaling::kCode && scaling != GateScaling::kShares) return splat(A(1));
  const std::int64_t experts = args.options.heads - args.options.num_shared;
  Vec<A> sum{};
  for (std::int64_t e = 0; e < experts; ++e) sum += tile.times()[e] * tile.routed()[e];
  // The best K of all heads have at least K / E of the probability; a forced selection, or the best of each
  // group, may have less.
  const A least = sizeof(A) == 8 ? A(2.2e-16) : A(1.19e-7);
  const A whole = scaling == GateScaling::kCode ? A(args.options.top_k) : A(1);
  return whole / (sum > least ? sum : splat(least));
}

/// Calls fn() with the tile on the tokens [begin, end), kLanes at a time.
template <class A, class Fn>
[[gnu::always_inline]] inline void for_each_tile(RouterTile<A>& tile, std::int64_t begin, std::int64_t end,
                                                 const Fn& fn) {
  for (tile.first = begin; tile.first < end; tile.first += kLanes<A>) {
    tile.count = end - tile.first < kLanes<A> ? end - tile.first : kLanes<A>;
    fn();
  }
}

}  // namespace
}  // namespace moh

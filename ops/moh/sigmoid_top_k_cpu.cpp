#include <algorithm>

#include "core/cpu_isa.h"
#include "core/scratch.h"
#include "ops/cpu/columns.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"
#include "ops/cpu/reduce.h"
#include "ops/moh/sigmoid_top_k_kernels.h"

namespace moh {
namespace {

/// A tile of kLanes groups: a column for each expert, with a group in each lane.
template <class A>
class GroupTile {
  using Bits = BitsOf<A>;

 public:
  explicit GroupTile(const LogitGroups& of)
      : groups(of),
        width_(round_up_to_lanes<A>(of.experts)),
        scratch_(static_cast<std::size_t>(3 * width_) * sizeof(Vec<A>) +
                 static_cast<std::size_t>(staged_elements<A>(width_)) * sizeof(A)),
        staging_(scratch_.template as<A>() + 3 * width_ * kLanes<A>) {
    std::fill_n(scratch_.template as<A>(), 3 * width_ * kLanes<A> + staged_elements<A>(width_), A(0));
  }

  /// The gates and the selection of `count` groups from `first` on.
  [[gnu::always_inline]] void run(std::int64_t first, std::int64_t count, const A* logits, A* gates,
                                  std::uint8_t* selected) const {
    Vec<A>* columns = scratch_.template as<Vec<A>>();
    Vec<Bits>*keys = reinterpret_cast<Vec<Bits>*>(columns + width_), *ranks = keys + width_;
    const std::int64_t experts = groups.experts, at = first * experts;
    load_columns<A>(logits + at, experts, (groups.count - first) * experts, count, experts, columns,
                    staging_);
    rank_columns<A>(columns, experts, keys, ranks);
    for (std::int64_t e = 0; e < experts; ++e) {
      const Vec<Bits> is_selected = ranks[e] < static_cast<Bits>(groups.kept);  // -1 where true
      columns[e] = is_selected ? sigmoid_of(columns[e]).value : Vec<A>{};
      ranks[e] = -is_selected;
    }
    store_columns<A>(columns, count, experts, gates + at, experts, staging_);
    store_integers<A>(ranks, count, experts, selected + at, staging_);
  }

  LogitGroups groups;

 private:
  std::int64_t width_;
  Scratch scratch_;
  A* staging_;
};

}  // namespace

template <class Backend, class A>
void SigmoidTopKKernels<Backend, A>::forward(const A* logits, A* gates, std::uint8_t* selected,
                                             const LogitGroups& groups) {
  parallel_for(groups.count, row_grain(groups.count, groups.experts),
               [=](std::int64_t begin, std::int64_t end) {
                 const GroupTile<A> tile(groups);
                 for (std::int64_t first = begin; first < end; first += kLanes<A>)
                   tile.run(first, std::min<std::int64_t>(kLanes<A>, end - first), logits, gates, selected);
               });
}

template <class Backend, class A>
void SigmoidTopKKernels<Backend, A>::backward(const A* d_gates, const A* logits, const A* gates, A* d_logits,
                                              std::int64_t count) {
  for_each_vector<A>(count, [=](auto at) {
    const Vec<A> gate = at.load(gates);
    const Vec<A> gradient = gate * sigmoid_of(at.load(logits)).rest * at.load(d_gates);
    at.store(d_logits, gate != 0 ? gradient : Vec<A>{});
  });
}

template struct SigmoidTopKKernels<cpu::MOH_ISA, float>;
template struct SigmoidTopKKernels<cpu::MOH_ISA, double>;

}  // namespace moh

#include "core/cpu_isa.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"
#include "ops/cpu/reduce.h"
#include "ops/moh/sigmoid_gate_kernels.h"

namespace moh {
namespace {

/// Calls body(head, value, rest) for all heads, in parallel, with the sigmoid of the head's logit and 1 minus
/// it: those of as many heads as a vector has lanes are computed at once.
template <class T, class Body>
[[gnu::always_inline]] inline void for_each_gate(const T* logits, GatedHeads shape, const Body& body) {
  using A = Acc<T>;
  const std::int64_t count = shape.count;
  parallel_for(count, row_grain(count, shape.head_dim), [=](std::int64_t begin, std::int64_t end) {
    for_vectors_in<A>(begin, end, [=](auto at) {
      const Sigmoid<A> gates = sigmoid_of(at.load_cached(logits));
      for (int lane = 0; lane < kLanes<A> && at.first + lane < end; ++lane)
        body(at.first + lane, gates.value[lane], gates.rest[lane]);
    });
  });
}

}  // namespace

template <class Backend, class T>
void SigmoidGateKernels<Backend, T>::forward(const T* x, const T* logits, T* y, GatedHeads shape) {
  using A = Acc<T>;
  const std::int64_t d = shape.head_dim;
  if (shape.each_element) {
    for_each_vector<A>(shape.count * d,
                       [=](auto at) { at.store(y, sigmoid_of(at.load(logits)).value * at.load(x)); });
    return;
  }
  for_each_gate(logits, shape, [=](std::int64_t head, A gate, A) {
    const T* from = x + head * d;
    T* to = y + head * d;
    for_vectors_in<A>(0, d, [=](auto at) { at.store(to, gate * at.load(from)); });
  });
}

template <class Backend, class T>
void SigmoidGateKernels<Backend, T>::backward(const T* dy, const T* x, const T* logits, T* dx, T* dlogits,
                                              GatedHeads shape) {
  using A = Acc<T>;
  const std::int64_t d = shape.head_dim;
  if (shape.each_element) {
    for_each_vector<A>(shape.count * d, [=](auto at) {
      const Sigmoid<A> gate = sigmoid_of(at.load(logits));
      const Vec<A> scaled = at.load(dy) * gate.value;
      at.store(dlogits, scaled * at.load(x) * gate.rest);
      at.store(dx, scaled);
    });
    return;
  }
  for_each_gate(logits, shape, [=](std::int64_t head, A gate, A rest) {
    const T *from = dy + head * d, *output = x + head * d;
    T* to = dx + head * d;
    Vec<A> sum{};
    for_vectors_in<A>(0, d, [&](auto at) {
      const Vec<A> gradient = at.load(from);
      sum += gradient * at.load(output);
      at.store(to, gate * gradient);
    });
    dlogits[head] = static_cast<T>(gate * rest * sum_lanes<A>(sum));
  });
}

template struct SigmoidGateKernels<cpu::MOH_ISA, float>;
template struct SigmoidGateKernels<cpu::MOH_ISA, bfloat16>;
template struct SigmoidGateKernels<cpu::MOH_ISA, double>;

}  // namespace moh

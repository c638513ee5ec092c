#include "core/cpu_isa.h"
#include "ops/activation/swiglu_kernels.h"
#include "ops/cpu/brief_math.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"

namespace moh {

namespace {

/// Calls body(at, row) for the vectors of a row's halves, of `rows.width` elements, row after row, in
/// parallel.
template <class A, class Body>
[[gnu::always_inline]] inline void for_each_half(Rows rows, const Body& body) {
  parallel_for(
      rows.count, row_grain(rows.count, rows.width), [&body, rows](std::int64_t begin, std::int64_t end) {
        const Body local = body;  // a local copy, so that stores in the loop cannot alias the captures
        for (std::int64_t row = begin; row < end; ++row)
          for_vectors_in<A>(0, rows.width, [&](auto at) { local(at, row); });
      });
}

}  // namespace

template <class Backend, class T>
void SwigluKernels<Backend, T>::forward(const T* x, T* y, Rows rows) {
  using A = Acc<T>;
  for_each_half<A>(rows, [=](auto at, std::int64_t row) {
    const T* gate = x + row * 2 * rows.width;
    const Vec<A> g = at.load(gate);
    at.store(y + row * rows.width, g * sigmoid_for<T>(g).value * at.load(gate + rows.width));
  });
}

// With g the gate and s = sigmoid(g): dup = dy g s, dgate = dy up s (1 + g (1 - s)).
template <class Backend, class T>
void SwigluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, Rows rows) {
  using A = Acc<T>;
  for_each_half<A>(rows, [=](auto at, std::int64_t row) {
    const T* gate = x + row * 2 * rows.width;
    T* dgate = dx + row * 2 * rows.width;
    const Vec<A> g = at.load(gate), upi = at.load(gate + rows.width);
    const Sigmoid<A> s = sigmoid_for<T>(g);
    const Vec<A> part = at.load(dy + row * rows.width) * s.value;
    at.store(dgate + rows.width, part * g);
    at.store(dgate, part * upi * (A(1) + g * s.rest));
  });
}

MOH_MATRIX_KERNELS(SwigluKernels)

}  // namespace moh

#include "core/cpu_isa.h"
#include "ops/activation/gelu_kernels.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"

namespace moh {

namespace {

// (1 + tanh(u)) / 2 is the logistic function s(2u), so the tanh form is y = x s(2u) with 2u = ax + bx^3:
// a = 2 sqrt(2 / pi), b = 0.044715 a.
constexpr double kLinear = 1.5957691216057308, kCubic = kLinear * 0.044715;

template <class A>
[[gnu::always_inline]] inline A twice_u(A x) {
  return x * (A(kLinear) + A(kCubic) * x * x);
}

/// dy/dx = s + x s (1 - s) d(2u)/dx.
template <class A>
[[gnu::always_inline]] inline A tanh_form_derivative(A x) {
  const Sigmoid<A> s = sigmoid_of(twice_u(x));
  // Where s (1 - s) has become 0, x^3 may be infinite: the bound keeps their product at 0.
  const A bounded = x > A(100) ? A(100) : (x < A(-100) ? A(-100) : x);
  return s.value + s.value * s.rest * bounded * (A(kLinear) + A(3 * kCubic) * bounded * bounded);
}

/// dy/dx = P(Z <= x) + x times the density at x.
template <class A>
[[gnu::always_inline]] inline A exact_derivative(A x) {
  const Normal<A> n = normal_of(x);
  return n.cumulative + x * n.density;
}

}  // namespace

template <class Backend, class T>
void GeluKernels<Backend, T>::forward(const T* x, T* y, std::int64_t count, GeluForm form) {
  using A = Acc<T>;
  if (form == GeluForm::kExact) {
    for_each_element(count, [=](std::int64_t i) { y[i] = A(x[i]) * normal_of(A(x[i])).cumulative; });
  } else {
    for_each_element(count, [=](std::int64_t i) { y[i] = A(x[i]) * sigmoid_of(twice_u(A(x[i]))).value; });
  }
}

template <class Backend, class T>
void GeluKernels<Backend, T>::backward(const T* dy, const T* x, T* dx, std::int64_t count, GeluForm form) {
  using A = Acc<T>;
  if (form == GeluForm::kExact) {
    for_each_element(count, [=](std::int64_t i) { dx[i] = A(dy[i]) * exact_derivative(A(x[i])); });
  } else {
    for_each_element(count, [=](std::int64_t i) { dx[i] = A(dy[i]) * tanh_form_derivative(A(x[i])); });
  }
}

template struct GeluKernels<cpu::MOH_ISA, float>;
template struct GeluKernels<cpu::MOH_ISA, bfloat16>;
template struct GeluKernels<cpu::MOH_ISA, double>;

}  // namespace moh

#include <cmath>

#include "ops/activation/sigmoid_cuda.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/lanes.h"
#include "ops/cuda/map.h"
#include "ops/moh/sigmoid_gate_kernels.h"

namespace moh {

namespace {

/// An element of a head times the head's gate.
template <class T>
struct TimesGateOfHead {
  const T* logits;
  std::int64_t head_dim;
  MOH_DEVICE void operator()(const float (&in)[1], float (&out)[1], std::int64_t i) const {
    out[0] = sigmoid_pair(static_cast<float>(logits[i / head_dim])).value * in[0];
  }
};

/// In: x and its logit.
struct TimesGate {
  MOH_DEVICE void operator()(const float (&in)[2], float (&out)[1], std::int64_t) const {
    out[0] = sigmoid_pair(in[1]).value * in[0];
  }
};

/// In: dy, x and its logit. Out: dx and the gradient of the logit.
struct GateGradient {
  MOH_DEVICE void operator()(const float (&in)[3], float (&out)[2], std::int64_t) const {
    const SigmoidPair gate = sigmoid_pair(in[2]);
    out[0] = gate.value * in[0];
    out[1] = out[0] * in[1] * gate.rest;
  }
};

template <class T>
struct HeadGateGradient {
  const T *dy, *x, *logits;
  T *dx, *dlogits;
  GatedHeads shape;
};

/// One warp per head of a token.
template <class T>
MOH_KERNEL(kItemThreads)
void sigmoid_gate_gradient_kernel(HeadGateGradient<T> g) {
  const std::int64_t head = item_of_warp();
  if (head >= g.shape.count) return;
  const std::int64_t d = g.shape.head_dim, first = head * d;
  const SigmoidPair gate = sigmoid_pair(static_cast<float>(g.logits[head]));
  const float sum = sum_on_lanes(d, [&](std::int64_t j) {
    const float gradient = static_cast<float>(g.dy[first + j]);
    g.dx[first + j] = gate.value * gradient;
    return gradient * static_cast<float>(g.x[first + j]);
  });
  if (device::thread_x() % device::kWarp == 0) g.dlogits[head] = gate.value * gate.rest * sum;
}

}  // namespace

template <class Backend, class T>
void SigmoidGateKernels<Backend, T>::forward(const T* x, const T* logits, T* y, GatedHeads shape) {
  const std::int64_t count = shape.count * shape.head_dim;
  if (shape.each_element) {
    launch_map<T, 2, 1>("sigmoid_gate", count, {{x, logits}, {y}}, TimesGate{});
  } else {
    launch_map<T, 1, 1>("sigmoid_gate", count, {{x}, {y}}, TimesGateOfHead<T>{logits, shape.head_dim});
  }
}

template <class Backend, class T>
void SigmoidGateKernels<Backend, T>::backward(const T* dy, const T* x, const T* logits, T* dx, T* dlogits,
                                              GatedHeads shape) {
  if (shape.each_element) {
    launch_map<T, 3, 2>("sigmoid_gate_gradient", shape.count * shape.head_dim,
                        {{dy, x, logits}, {dx, dlogits}}, GateGradient{});
  } else {
    const std::int64_t blocks = item_blocks(shape.count);
    cuda::launch("sigmoid_gate_gradient", sigmoid_gate_gradient_kernel<T>,
                 {.blocks_x = blocks, .threads = kItemThreads},
                 HeadGateGradient<T>{dy, x, logits, dx, dlogits, shape});
  }
}

template struct SigmoidGateKernels<Cuda, float>;
template struct SigmoidGateKernels<Cuda, bfloat16>;

}  // namespace moh

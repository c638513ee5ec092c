#include "ops/cuda/block_sizes.h"
#include "ops/cuda/divide.h"
#include "ops/cuda/rows.h"
#include "ops/moh/add_expert_kernels.h"

namespace moh {

namespace {

/// A thread computes 16 bytes (a piece) of a row.
template <class T>
struct AddExpert {
  RowAccess<const T> sum, output;
  const float* gates;
  RowAccess<T> y;
  std::int64_t stride, pieces;

  MOH_DEVICE void operator()(std::int64_t i) const {
    constexpr int kPack = Pack<T>::kCount;
    const Division at = divide(i, pieces);
    const std::int64_t row = at.quotient, first = at.rest * kPack;
    const float gate = gates[row * stride];
    float before[kPack] = {}, values[kPack];
    if (sum.row != nullptr) sum.at(row).load(first, before);
    if (gate != 0.0F) {
      output.at(row).load(first, values);
      for (int j = 0; j < kPack; ++j) before[j] += gate * values[j];
    }
    y.at(row).store(first, before);
  }
};

template <class T>
struct AddExpertGradient {
  RowAccess<const T> dy, output;
  const float* gates;
  RowAccess<T> doutput;
  float* dgates;
  std::int64_t rows, stride;
};

/// One warp per row.
template <class T>
MOH_KERNEL(kItemThreads)
void add_expert_gradient_kernel(AddExpertGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const int lane = device::thread_x() % device::kWarp;
  const std::int64_t row = item_of_warp();
  if (row >= g.rows) return;
  const float gate = g.gates[row * g.stride];
  float dot = 0, dy[kPack], values[kPack];
  for (std::int64_t first = std::int64_t{lane} * kPack; first < g.dy.width; first += device::kWarp * kPack) {
    if (gate != 0.0F) {
      g.dy.at(row).load(first, dy);
      g.output.at(row).load(first, values);
      for (int j = 0; j < kPack; ++j) dot += dy[j] * values[j];  // zeros past the end
      for (int j = 0; j < kPack; ++j) dy[j] *= gate;
    } else {
      for (int j = 0; j < kPack; ++j) dy[j] = 0;
    }
    g.doutput.at(row).store(first, dy);
  }
  dot = reduce_warp(dot, Sum{});
  if (lane == 0) g.dgates[row * g.stride] = dot;
}

}  // namespace

template <class Backend, class T>
void AddExpertKernels<Backend, T>::forward(const T* sum, const T* output, const Acc<T>* gates, T* y,
                                           AddedExpertRows r) {
  const std::int64_t pieces = (r.width + Pack<T>::kCount - 1) / Pack<T>::kCount;
  cuda::launch_each("add_expert", r.count * pieces,
                    AddExpert<T>{rows_at(sum, r.width), rows_at(output, r.width), gates, rows_at(y, r.width),
                                 r.stride, pieces});
}

template <class Backend, class T>
void AddExpertKernels<Backend, T>::backward(const T* dy, const T* output, const Acc<T>* gates, T* doutput,
                                            Acc<T>* dgates, AddedExpertRows r) {
  cuda::launch("add_expert_gradient", add_expert_gradient_kernel<T>,
               {.blocks_x = item_blocks(r.count), .threads = kItemThreads},
               AddExpertGradient<T>{rows_at(dy, r.width), rows_at(output, r.width), gates,
                                    rows_at(doutput, r.width), dgates, r.count, r.stride});
}

template struct AddExpertKernels<Cuda, float>;
template struct AddExpertKernels<Cuda, bfloat16>;

}  // namespace moh

#include "ops/cuda/part_sums.h"
#include "ops/cuda/rows.h"
#include "ops/elementwise/gate_residual_kernels.h"

namespace moh {

namespace {

/// The gates of a group.
template <class T>
MOH_DEVICE RowAccess<const T> gates_of(RowAccess<const T> gate, std::int64_t group, std::int64_t stride) {
  return {gate.row + group * stride, gate.width, gate.aligned};
}

template <class T>
struct GateResidual {
  RowAccess<const T> residual, x, gate;
  RowAccess<T> y;
  std::int64_t stride, group_rows;
};

/// One block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void gate_residual_kernel(GateResidual<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x();
  const RowAccess<const T> gates = gates_of(g.gate, i / g.group_rows, g.stride);
  each_piece<T>(g.x.width, [&](std::int64_t first) {
    float residual[kPack], x[kPack], gate[kPack];
    g.residual.at(i).load(first, residual);
    g.x.at(i).load(first, x);
    gates.load(first, gate);
    for (int j = 0; j < kPack; ++j) x[j] = residual[j] + gate[j] * x[j];
    g.y.at(i).store(first, x);
  });
}

/// Operands of the backward pass; partials [groups, parts, width].
template <class T>
struct GateResidualGradient {
  RowAccess<const T> dy, x, gate;
  RowAccess<T> dx;
  std::int64_t stride, group_rows;
  float* partials;
};

/// Grid: x is the group; y strides over the group's rows in steps of gridDim.y.
template <class T>
MOH_KERNEL(kMostRowThreads)
void gate_residual_gradient_kernel(GateResidualGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t group = device::block_x(), width = g.x.width;
  const std::int64_t end = (group + 1) * g.group_rows;
  float* to = g.partials + (group * device::blocks_y() + device::block_y()) * width;
  each_piece<T>(width, [&](std::int64_t first) {
    float gate[kPack], sums[kPack] = {};
    gates_of(g.gate, group, g.stride).load(first, gate);
    for (std::int64_t i = group * g.group_rows + device::block_y(); i < end; i += device::blocks_y()) {
      float dy[kPack], x[kPack];
      g.dy.at(i).load(first, dy);
      g.x.at(i).load(first, x);
      for (int j = 0; j < kPack; ++j) {
        sums[j] += dy[j] * x[j];
        dy[j] *= gate[j];
      }
      g.dx.at(i).store(first, dy);
    }
    for (int j = 0; j < kPack && first + j < width; ++j) to[first + j] = sums[j];
  });
}

std::int64_t group_rows(const GatedRows& at) {
  return at.groups > 0 ? at.rows.count / at.groups : 0;
}

}  // namespace

template <class Backend, class T>
void GateResidualKernels<Backend, T>::forward(const T* residual, const T* x, const T* gate, T* y,
                                              GatedRows at) {
  const std::int64_t width = at.rows.width;
  const GateResidual<T> g{rows_at(residual, width), rows_at(x, width), rows_at(gate, width),
                          rows_at(y, width),        at.stride,         group_rows(at)};
  cuda::launch("gate_residual", gate_residual_kernel<T>,
               {.blocks_x = at.rows.count, .threads = row_threads<T>(width)}, g);
}

template <class Backend, class T>
void GateResidualKernels<Backend, T>::backward(const T* dy, const T* x, const T* gate, T* dx,
                                               const GradientDestination<T>& dgate, GatedRows at) {
  const std::int64_t width = at.rows.width, parts = summing_blocks(group_rows(at), at.groups);
  const DeviceScratch partials(static_cast<std::size_t>(at.groups * parts * width) * sizeof(float));
  const GateResidualGradient<T> g{rows_at(dy, width),  rows_at(x, width), rows_at(gate, width),
                                  rows_at(dx, width),  at.stride,         group_rows(at),
                                  partials.as<float>()};
  cuda::launch("gate_residual_gradient", gate_residual_gradient_kernel<T>,
               {.blocks_x = at.groups, .blocks_y = parts, .threads = row_threads<T>(width)}, g);
  sum_parts("sum_parts", {partials.as<float>(), at.groups, parts, width},
            StoreGradients<T>{dgate, at.stride});
}

template struct GateResidualKernels<Cuda, float>;
template struct GateResidualKernels<Cuda, bfloat16>;

}  // namespace moh

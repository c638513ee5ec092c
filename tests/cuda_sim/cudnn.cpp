#include "tests/cuda_sim/cudnn.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/dtype.h"
#include "ops/conv/cudnn/cudnn_library.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/number_formats.h"
#include "tests/cuda_sim/stream.h"

// cuDNN's convolutions in plain loops. They are strict: sizes, formats, alignments, algorithms and workspaces
// that the real library would refuse, or that would make it read elsewhere, are refused here.

using moh::bfloat16;
using moh::sim::Cudnn;
using moh::sim::DeviceMemory;
using Direction = Cudnn::Direction;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

/// An image [n, h, w, c], or a weight [k, h, w, c].
struct cudnnExtents {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int n = 0, c = 0, h = 0, w = 0;

  std::int64_t at(std::int64_t i, std::int64_t y, std::int64_t x, std::int64_t channel) const {
    return ((i * h + y) * w + x) * c + channel;
  }
  std::size_t item() const { return type == CUDNN_DATA_BFLOAT16 ? 2 : 4; }
  std::size_t count() const { return static_cast<std::size_t>(at(n, 0, 0, 0)); }
};
struct cudnnTensorStruct : cudnnExtents {};
struct cudnnFilterStruct : cudnnExtents {};
struct cudnnConvolutionStruct {
  int pad_h = 0, pad_w = 0, stride_h = 0, stride_w = 0, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

constexpr int kReproducible = 1;  // ALGO_1, or IMPLICIT_PRECOMP_GEMM
constexpr int kTransforming = 4;  // ALGO_WINOGRAD, or ALGO_FFT

/// A convolution with everything that it is made of.
struct Problem {
  cudnnExtents x, w, y;
  cudnnConvolutionStruct convolution;

  int output(int input, int kernel, int pad, int stride) const {
    return (input + 2 * pad - kernel) / stride + 1;
  }
  bool is_consistent() const {
    const auto& v = convolution;
    return x.type == w.type && w.type == y.type && x.n == y.n && w.n == y.c && v.groups > 0 &&
           v.stride_h > 0 && v.stride_w > 0 && x.c == w.c * v.groups && w.n % v.groups == 0 &&
           y.h == output(x.h, w.h, v.pad_h, v.stride_h) && y.w == output(x.w, w.w, v.pad_w, v.stride_w);
  }
};

template <class Descriptor>
cudnnStatus_t create(Descriptor** made) {
  *made = new Descriptor;
  ++Cudnn::instance().descriptors;
  return CUDNN_STATUS_SUCCESS;
}
template <class Descriptor>
cudnnStatus_t destroy(Descriptor* descriptor) {
  delete descriptor;
  --Cudnn::instance().descriptors;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t set_extents(cudnnExtents& to, const cudnnExtents& from, cudnnTensorFormat_t format) {
  if (std::min({from.n, from.c, from.h, from.w}) <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (format != CUDNN_TENSOR_NHWC) return CUDNN_STATUS_NOT_SUPPORTED;
  to = from;
  return CUDNN_STATUS_SUCCESS;
}

template <class Proposal>
cudnnStatus_t propose(const Problem& problem, int most, int* count, Proposal* results) {
  using Algorithm = decltype(Proposal::algo);
  Cudnn& state = Cudnn::instance();
  ++state.queries;
  if (!problem.is_consistent()) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  const auto proposal = [&](int algorithm, cudnnStatus_t status, cudnnDeterminism_t determinism) {
    const auto math = static_cast<cudnnMathType_t>(state.proposed_math.value_or(problem.convolution.math));
    return Proposal{
        static_cast<Algorithm>(algorithm), status, 1.0F, state.workspace_bytes / 2, determinism, math, {}};
  };
  std::vector<Proposal> all = {proposal(0, CUDNN_STATUS_SUCCESS, CUDNN_NON_DETERMINISTIC),
                               proposal(kReproducible, CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC),
                               proposal(kTransforming, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC)};
  if (state.has_reproducible)
    all.push_back(proposal(kReproducible, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC));
  *count = std::min(most, static_cast<int>(all.size()));
  std::copy_n(all.begin(), *count, results);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_of(const Problem& problem, int algorithm, std::size_t* bytes) {
  if (!problem.is_consistent()) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  if (algorithm != kReproducible || !Cudnn::instance().knows_reproducible) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = Cudnn::instance().workspace_bytes;
  return CUDNN_STATUS_SUCCESS;
}

/// The elements of a tensor on the device, widened, as tensor cores see them.
std::vector<float> values_of(const cudnnExtents& extents, const void* from, bool tf32) {
  std::vector<float> values(extents.count());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = extents.type == CUDNN_DATA_BFLOAT16
                    ? static_cast<float>(static_cast<const bfloat16*>(from)[i])
                    : static_cast<const float*>(from)[i];
    if (tf32) values[i] = moh::sim::rounded_to_tf32(values[i]);
  }
  return values;
}
void store(const cudnnExtents& extents, const std::vector<float>& values, void* to) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (extents.type == CUDNN_DATA_BFLOAT16) {
      static_cast<bfloat16*>(to)[i] = values[i];
    } else {
      static_cast<float*>(to)[i] = values[i];
    }
  }
}

/// Calls body(of x, of w, of y) with the places of all factors and sums that belong together.
template <class Body>
void each_product(const Problem& p, const Body& body) {
  const int outputs = p.w.n / p.convolution.groups;
  for (int n = 0; n < p.y.n; ++n) {
    for (int i = 0; i < p.y.h; ++i) {
      for (int j = 0; j < p.y.w; ++j) {
        for (int r = 0; r < p.w.h; ++r) {
          for (int s = 0; s < p.w.w; ++s) {
            const int y = i * p.convolution.stride_h - p.convolution.pad_h + r;
            const int x = j * p.convolution.stride_w - p.convolution.pad_w + s;
            if (y < 0 || y >= p.x.h || x < 0 || x >= p.x.w) continue;
            for (int o = 0; o < p.w.n; ++o) {
              for (int c = 0; c < p.w.c; ++c)
                body(p.x.at(n, y, x, o / outputs * p.w.c + c), p.w.at(o, r, s, c), p.y.at(n, i, j, o));
            }
          }
        }
      }
    }
  }
}

struct Pointers {
  const void *x, *w, *y;
};

void compute(const Problem& p, Direction direction, const Pointers& at) {
  const bool tf32 = p.x.type == CUDNN_DATA_FLOAT && p.convolution.math == CUDNN_DEFAULT_MATH;
  const auto get = [&](const cudnnExtents& extents, const void* from, bool is_result) {
    return is_result ? std::vector<float>(extents.count()) : values_of(extents, from, tf32);
  };
  std::vector<float> x = get(p.x, at.x, direction == Direction::kData);
  std::vector<float> w = get(p.w, at.w, direction == Direction::kWeights);
  std::vector<float> y = get(p.y, at.y, direction == Direction::kForward);
  each_product(p, [&](std::int64_t of_x, std::int64_t of_w, std::int64_t of_y) {
    float &xi = x[static_cast<std::size_t>(of_x)], &wi = w[static_cast<std::size_t>(of_w)];
    float& yi = y[static_cast<std::size_t>(of_y)];
    if (direction == Direction::kForward) yi += xi * wi;
    if (direction == Direction::kData) xi += yi * wi;
    if (direction == Direction::kWeights) wi += xi * yi;
  });
  if (direction == Direction::kForward) store(p.y, y, const_cast<void*>(at.y));
  if (direction == Direction::kData) store(p.x, x, const_cast<void*>(at.x));
  if (direction == Direction::kWeights) store(p.w, w, const_cast<void*>(at.w));
}

struct Workspace {
  void* place;
  std::size_t bytes;
};

cudnnStatus_t run(cudnnHandle_t handle, const Problem& p, Direction direction, int algorithm,
                  const Pointers& at, const Workspace& workspace, const void* alpha, const void* beta) {
  float one, zero;
  std::memcpy(&one, alpha, sizeof one);
  std::memcpy(&zero, beta, sizeof zero);
  if (handle->stream == nullptr || one != 1 || zero != 0 || !p.is_consistent()) return CUDNN_STATUS_BAD_PARAM;
  if (algorithm != kReproducible) return CUDNN_STATUS_NOT_SUPPORTED;
  Cudnn& state = Cudnn::instance();
  if (workspace.bytes < state.workspace_bytes) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  const DeviceMemory& memory = DeviceMemory::instance();
  if (state.workspace_bytes > 0) memory.require(workspace.place, state.workspace_bytes, "cuDNN: workspace");
  for (const auto& [pointer, extents] : {std::pair{at.x, &p.x}, {at.w, &p.w}, {at.y, &p.y}}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    memory.require(pointer, extents->count() * extents->item(), "cuDNN: an operand");
  }
  moh::sim::Streams::instance().submit(handle->stream, [p, direction, at] {
    const DeviceMemory::Access access;
    if (moh::sim::computes()) compute(p, direction, at);
  });
  ++state.calls[{direction, p.x.type, p.convolution.math}];
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "refused by the simulated cuDNN";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  return set_extents(*descriptor, {type, n, c, h, w}, format);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return set_extents(*descriptor, {type, k, c, h, w}, format);
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor) {
  return create(descriptor);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  return destroy(descriptor);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_h, int pad_w,
                                              int u, int v, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
  if (pad_h < 0 || pad_w < 0 || u <= 0 || v <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (dilation_h != 1 || dilation_w != 1 || mode != CUDNN_CROSS_CORRELATION ||
      compute_type != CUDNN_DATA_FLOAT)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *descriptor = {pad_h, pad_w, u, v};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  descriptor->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math) {
  descriptor->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y, int most, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return propose({*x, *w, *y, *convolution}, most, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnTensorDescriptor_t dx, int most, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return propose({*dx, *w, *dy, *convolution}, most, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t convolution,
                                                            cudnnFilterDescriptor_t dw, int most, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return propose({*x, *dw, *dy, *convolution}, most, count, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t convolution,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  return workspace_of({*x, *w, *y, *convolution}, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t dy,
                                                           cudnnConvolutionDescriptor_t convolution,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return workspace_of({*dx, *w, *dy, *convolution}, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                             cudnnTensorDescriptor_t dy,
                                                             cudnnConvolutionDescriptor_t convolution,
                                                             cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             std::size_t* bytes) {
  return workspace_of({*x, *dw, *dy, *convolution}, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x_descriptor, const void* x,
                                      cudnnFilterDescriptor_t w_descriptor, const void* w,
                                      cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_descriptor, void* y) {
  return run(handle, {*x_descriptor, *w_descriptor, *y_descriptor, *convolution}, Direction::kForward,
             algorithm, {x, w, y}, {workspace, workspace_bytes}, alpha, beta);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w_descriptor, const void* w,
                                           cudnnTensorDescriptor_t dy_descriptor, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  return run(handle, {*dx_descriptor, *w_descriptor, *dy_descriptor, *convolution}, Direction::kData,
             algorithm, {dx, w, dy}, {workspace, workspace_bytes}, alpha, beta);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x_descriptor, const void* x,
                                             cudnnTensorDescriptor_t dy_descriptor, const void* dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw_descriptor, void* dw) {
  return run(handle, {*x_descriptor, *dw_descriptor, *dy_descriptor, *convolution}, Direction::kWeights,
             algorithm, {x, dw, dy}, {workspace, workspace_bytes}, alpha, beta);
}

Cudnn& Cudnn::instance() {
  static auto* state = new Cudnn;
  return *state;
}

namespace moh {

const CudnnLibrary& CudnnLibrary::get() {
#define MOH_NAME(name) &::name,
  static const CudnnLibrary functions{MOH_CUDNN_FUNCTIONS(MOH_NAME)};
#undef MOH_NAME
  return functions;
}

}  // namespace moh

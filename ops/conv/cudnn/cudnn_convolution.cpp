#include "ops/conv/cudnn/cudnn_convolution.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>

#include "core/cuda/device.h"
#include "core/cuda/launch_timer.h"
#include "core/cuda/tag.h"
#include "core/error.h"
#include "core/math_mode.h"
#include "ops/aligned.h"
#include "ops/conv/cudnn/cudnn_library.h"
#include "ops/cuda/scratch.h"
#include "ops/linalg/gemm_cuda.h"
#include "ops/linalg/linear_kernels.h"

// The convolution functions of cuDNN's legacy API: they need only its headers, report for each algorithm
// whether it is deterministic, and are in every version 9, although NVIDIA recommends the graph API, which
// attention uses (ops/attention/cudnn), for new code.

namespace moh {

namespace {

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw DeviceError(
      error_message("conv2d", call, "success", CudnnLibrary::get().cudnnGetErrorString(status)));
}
#define MOH_CUDNN_CALL(name, ...) check_cudnn(CudnnLibrary::get().name(__VA_ARGS__), #name)

struct Destroy {
  void operator()(cudnnTensorDescriptor_t d) const { CudnnLibrary::get().cudnnDestroyTensorDescriptor(d); }
  void operator()(cudnnFilterDescriptor_t d) const { CudnnLibrary::get().cudnnDestroyFilterDescriptor(d); }
  void operator()(cudnnConvolutionDescriptor_t d) const {
    CudnnLibrary::get().cudnnDestroyConvolutionDescriptor(d);
  }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

int as_int(std::int64_t value) {
  if (value <= std::numeric_limits<int>::max()) return static_cast<int>(value);
  throw ShapeError(
      error_message("conv2d", "size on a GPU", "below 2^31, the limit of cuDNN", std::to_string(value)));
}

Owned<cudnnTensorDescriptor_t> image_descriptor(std::int64_t batch, std::int64_t channels,
                                                std::int64_t height, std::int64_t width,
                                                cudnnDataType_t type) {
  cudnnTensorDescriptor_t made = nullptr;
  MOH_CUDNN_CALL(cudnnCreateTensorDescriptor, &made);
  Owned<cudnnTensorDescriptor_t> owned(made);
  MOH_CUDNN_CALL(cudnnSetTensor4dDescriptor, made, CUDNN_TENSOR_NHWC, type, as_int(batch), as_int(channels),
                 as_int(height), as_int(width));
  return owned;
}

Owned<cudnnFilterDescriptor_t> weight_descriptor(const ConvShape& s, cudnnDataType_t type) {
  cudnnFilterDescriptor_t made = nullptr;
  MOH_CUDNN_CALL(cudnnCreateFilterDescriptor, &made);
  Owned<cudnnFilterDescriptor_t> owned(made);
  MOH_CUDNN_CALL(cudnnSetFilter4dDescriptor, made, type, CUDNN_TENSOR_NHWC, as_int(s.outputs),
                 as_int(s.group_channels()), as_int(s.y.kernel), as_int(s.x.kernel));
  return owned;
}

/// cuDNN's math mode: float32 operands as they are or rounded to TF32; bfloat16 on tensor cores.
cudnnMathType_t math_type(DType dtype, bool tf32) {
  if (dtype == DType::kBFloat16) return CUDNN_TENSOR_OP_MATH;
  return tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

Owned<cudnnConvolutionDescriptor_t> convolution_descriptor(const ConvShape& s, cudnnMathType_t math) {
  cudnnConvolutionDescriptor_t made = nullptr;
  MOH_CUDNN_CALL(cudnnCreateConvolutionDescriptor, &made);
  Owned<cudnnConvolutionDescriptor_t> owned(made);
  MOH_CUDNN_CALL(cudnnSetConvolution2dDescriptor, made, as_int(s.y.padding), as_int(s.x.padding),
                 as_int(s.y.stride), as_int(s.x.stride), /*dilation_h=*/1, /*dilation_w=*/1,
                 CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  MOH_CUDNN_CALL(cudnnSetConvolutionGroupCount, made, as_int(s.groups));
  MOH_CUDNN_CALL(cudnnSetConvolutionMathType, made, math);
  return owned;
}

enum class Direction { kForward, kData, kWeights };

/// The key of a cached plan.
struct Problem {
  ConvShape shape;
  Direction direction;
  DType dtype;
  bool tf32;

  // NOLINTNEXTLINE(modernize-use-nullptr): the zero of the generated comparison is taken for a pointer
  auto operator<=>(const Problem&) const = default;
};

/// Addresses of the tensors of a call; one of them is the output.
struct Places {
  void *x, *w, *y;
};

constexpr std::size_t kMostWorkspaceBytes = std::size_t{256} << 20;

/// Whether a proposal of cuDNN is deterministic, does not transform its operands (FFT and Winograd lose
/// precision), and does not round float32 operands to float16.
template <class Proposal>
bool is_usable(const Proposal& proposal, std::initializer_list<decltype(Proposal::algo)> direct) {
  return proposal.status == CUDNN_STATUS_SUCCESS && proposal.determinism == CUDNN_DETERMINISTIC &&
         proposal.mathType != CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION &&
         std::find(direct.begin(), direct.end(), proposal.algo) != direct.end();
}

/// A convolution with descriptors and a chosen algorithm.
class ConvolutionPlan {
 public:
  ConvolutionPlan(cudnnHandle_t handle, const Problem& problem)
      : direction_(problem.direction),
        math_(math_type(problem.dtype, problem.tf32)),
        x_(image_descriptor(problem.shape.batch, problem.shape.channels, problem.shape.y.input,
                            problem.shape.x.input, type_of(problem.dtype))),
        y_(image_descriptor(problem.shape.batch, problem.shape.outputs, problem.shape.y.output,
                            problem.shape.x.output, type_of(problem.dtype))),
        w_(weight_descriptor(problem.shape, type_of(problem.dtype))),
        convolution_(convolution_descriptor(problem.shape, math_)) {
    const CudnnLibrary& cudnn = CudnnLibrary::get();
    switch (direction_) {
      case Direction::kForward:
        find<cudnnConvolutionFwdAlgoPerf_t>(
            {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
             CUDNN_CONVOLUTION_FWD_ALGO_GEMM},
            cudnn.cudnnGetConvolutionForwardAlgorithm_v7, cudnn.cudnnGetConvolutionForwardWorkspaceSize,
            handle, x_.get(), w_.get(), convolution_.get(), y_.get());
        break;
      case Direction::kData:
        find<cudnnConvolutionBwdDataAlgoPerf_t>({CUDNN_CONVOLUTION_BWD_DATA_ALGO_1},
                                                cudnn.cudnnGetConvolutionBackwardDataAlgorithm_v7,
                                                cudnn.cudnnGetConvolutionBackwardDataWorkspaceSize, handle,
                                                w_.get(), y_.get(), convolution_.get(), x_.get());
        break;
      case Direction::kWeights:
        find<cudnnConvolutionBwdFilterAlgoPerf_t>({CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1},
                                                  cudnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7,
                                                  cudnn.cudnnGetConvolutionBackwardFilterWorkspaceSize,
                                                  handle, x_.get(), y_.get(), convolution_.get(), w_.get());
        break;
    }
  }

  void run(cudnnHandle_t handle, const Places& at) const {
    const float one = 1, zero = 0;
    std::optional<DeviceScratch> scratch;
    void* const space = workspace_bytes_ > 0 ? scratch.emplace(workspace_bytes_).as<void>() : nullptr;
    switch (direction_) {
      case Direction::kForward:
        return MOH_CUDNN_CALL(cudnnConvolutionForward, handle, &one, x_.get(), at.x, w_.get(), at.w,
                              convolution_.get(), static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), space,
                              workspace_bytes_, &zero, y_.get(), at.y);
      case Direction::kData:
        return MOH_CUDNN_CALL(cudnnConvolutionBackwardData, handle, &one, w_.get(), at.w, y_.get(), at.y,
                              convolution_.get(), static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_),
                              space, workspace_bytes_, &zero, x_.get(), at.x);
      case Direction::kWeights:
        return MOH_CUDNN_CALL(cudnnConvolutionBackwardFilter, handle, &one, x_.get(), at.x, y_.get(), at.y,
                              convolution_.get(), static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_),
                              space, workspace_bytes_, &zero, w_.get(), at.w);
    }
  }

 private:
  static cudnnDataType_t type_of(DType dtype) {
    return dtype == DType::kBFloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  }

  /// Takes the first usable proposal, in the order of expected time, whose workspace is not too large. A
  /// proposal is an algorithm with a math type, which may be another than that of the descriptor, so that it
  /// is set there; only where float32 must not be rounded to TF32 the descriptor stays as it is. The
  /// workspace is that of the algorithm with the descriptor, not what the proposal says.
  ///
  /// Proposals come from a heuristic, which may leave out what the library can do. Where none is usable, the
  /// direct algorithms, which cuDNN's documentation calls deterministic, are asked for by their names, and
  /// the one with the smallest workspace is taken, however large that is.
  template <class Proposal, class Query, class QueryWorkspace, class... Descriptors>
  void find(std::initializer_list<decltype(Proposal::algo)> direct, Query* query,
            QueryWorkspace* query_workspace, cudnnHandle_t handle, Descriptors... descriptors) {
    std::array<Proposal, 16> proposals;
    int count = 0;
    check_cudnn(query(handle, descriptors..., static_cast<int>(proposals.size()), &count, proposals.data()),
                "the choice of an algorithm");
    for (const Proposal& proposal : std::span(proposals).first(static_cast<std::size_t>(count))) {
      if (!is_usable(proposal, direct)) continue;
      if (math_ != CUDNN_FMA_MATH)
        MOH_CUDNN_CALL(cudnnSetConvolutionMathType, convolution_.get(), proposal.mathType);
      if (query_workspace(handle, descriptors..., proposal.algo, &workspace_bytes_) != CUDNN_STATUS_SUCCESS ||
          workspace_bytes_ > kMostWorkspaceBytes)
        continue;
      algorithm_ = static_cast<int>(proposal.algo);
      return;
    }
    if (math_ != CUDNN_FMA_MATH) MOH_CUDNN_CALL(cudnnSetConvolutionMathType, convolution_.get(), math_);
    std::optional<std::size_t> smallest;
    for (const auto algorithm : direct) {
      std::size_t bytes = 0;
      if (query_workspace(handle, descriptors..., algorithm, &bytes) != CUDNN_STATUS_SUCCESS) continue;
      if (smallest && bytes >= *smallest) continue;
      workspace_bytes_ = *(smallest = bytes);
      algorithm_ = static_cast<int>(algorithm);
    }
    if (smallest) return;
    throw DeviceError(error_message(
        "conv2d", "cuDNN", "an algorithm that gives the same bits in each run",
        "none of " + std::to_string(count) + " proposals, and that it does not support the direct ones"));
  }

  Direction direction_;
  cudnnMathType_t math_;  // of the problem
  Owned<cudnnTensorDescriptor_t> x_, y_;
  Owned<cudnnFilterDescriptor_t> w_;
  Owned<cudnnConvolutionDescriptor_t> convolution_;
  int algorithm_ = 0;
  std::size_t workspace_bytes_ = 0;
};

/// The handle and the cached plans of the process.
class Convolutions {
 public:
  static Convolutions& instance() {
    static auto* convolutions = new Convolutions;  // never destroyed, as the device it belongs to
    return *convolutions;
  }

  void run(const Problem& problem, const Places& at) {
    const std::lock_guard lock(mutex_);
    auto plan = plans_.find(problem);
    if (plan == plans_.end()) plan = plans_.try_emplace(problem, handle_, problem).first;
    cuda::timed_call("cudnnConvolution", {at.x, at.w, at.y}, [&] { plan->second.run(handle_, at); });
  }

 private:
  Convolutions() {
    MOH_CUDNN_CALL(cudnnCreate, &handle_);
    MOH_CUDNN_CALL(cudnnSetStream, handle_, cuda::stream());
  }

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Problem, ConvolutionPlan> plans_;
};

void run(const ConvShape& shape, Direction direction, bool tf32, const Tensor& x, const Tensor& w,
         const Tensor& y) {
  Convolutions::instance().run({shape, direction, x.dtype(), tf32}, {x.raw(), w.raw(), y.raw()});
}

void add_bias(const Tensor& b, const Tensor& y) {
  const Rows rows{y.numel() / b.numel(), b.numel()};
  visit_floating(y.dtype(), "conv2d", [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>)
      LinearKernels<Cuda, T>::add_bias(b.data<T>(), y.data<T>(), rows, rows.width);
  });
}

}  // namespace

std::string CudnnConvolution::absence() {
  try {
    CudnnLibrary::get();
    return {};
  } catch (const DeviceError& reason) {
    return reason.what();
  }
}

void CudnnConvolution::forward(const ConvShape& shape, const Tensor& x, const Tensor& w, const Tensor& b,
                               const Tensor& y) {
  if (shape.output_pixels() == 0) return;
  run(shape, Direction::kForward, math_mode().tf32, aligned_on_gpu(x), w, y);
  if (b.defined()) add_bias(b, y);
}

void CudnnConvolution::backward_data(const ConvShape& shape, const Tensor& dy, const Tensor& w,
                                     const Tensor& dx) {
  if (shape.output_pixels() == 0) return;
  run(shape, Direction::kData, math_mode().tf32, dx, w, aligned_on_gpu(dy));
}

// cuDNN's result has the dtype of its operands, but the gradient must not be rounded to bfloat16. So the
// operands are upcast: bfloat16 is exact in TF32, which runs on tensor cores as well.
void CudnnConvolution::backward_weights(const ConvShape& shape, const Tensor& x, const Tensor& dy,
                                        const Tensor& dw) {
  if (shape.output_pixels() == 0) return dw.fill(0);
  const bool exact_in_tf32 = x.dtype() == DType::kBFloat16;
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  run(shape, Direction::kWeights, exact_in_tf32 || math_mode().tf32, aligned_on_gpu(x.to(DType::kFloat32)),
      dw, aligned_on_gpu(dy.to(DType::kFloat32)));
}

}  // namespace moh

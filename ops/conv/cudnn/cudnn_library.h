#pragma once

#include <cudnn.h>

namespace moh {

/// The functions of cuDNN that convolutions call, as members of the same names.
struct CudnnLibrary {
  /// Loads the library at the first call. Throws DeviceError.
  static const CudnnLibrary& get();

#define MOH_CUDNN_FUNCTIONS(X)                      \
  X(cudnnConvolutionBackwardData)                   \
  X(cudnnConvolutionBackwardFilter)                 \
  X(cudnnConvolutionForward)                        \
  X(cudnnCreate)                                    \
  X(cudnnCreateConvolutionDescriptor)               \
  X(cudnnCreateFilterDescriptor)                    \
  X(cudnnCreateTensorDescriptor)                    \
  X(cudnnDestroyConvolutionDescriptor)              \
  X(cudnnDestroyFilterDescriptor)                   \
  X(cudnnDestroyTensorDescriptor)                   \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
  X(cudnnGetConvolutionForwardAlgorithm_v7)         \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  X(cudnnGetConvolutionForwardWorkspaceSize)        \
  X(cudnnGetErrorString)                            \
  X(cudnnSetConvolution2dDescriptor)                \
  X(cudnnSetConvolutionGroupCount)                  \
  X(cudnnSetConvolutionMathType)                    \
  X(cudnnSetFilter4dDescriptor)                     \
  X(cudnnSetStream)                                 \
  X(cudnnSetTensor4dDescriptor)
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define MOH_DECLARE(name) decltype(&::name) name;  // NOLINT: a name takes no parentheses
  MOH_CUDNN_FUNCTIONS(MOH_DECLARE)
#undef MOH_DECLARE
};

}  // namespace moh

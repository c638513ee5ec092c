#pragma once

#include <string_view>

namespace moh::cuda {

/// NVTX ranges of the calling thread, which Nsight Systems shows above the kernels that are launched in them:
/// begins one, and ends the innermost. Nothing in a build without CUDA, and next to nothing where no tool
/// listens.
void push_range(std::string_view name);
void pop_range();

}  // namespace moh::cuda

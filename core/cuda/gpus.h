#pragma once

#include <string>

namespace moh::cuda {

/// Number of GPUs that this process sees; 0 without a driver, or in a build without CUDA.
int count_gpus();
/// "0000:1b:00.0", the PCI address of one of them.
std::string gpu_address(int index);

}  // namespace moh::cuda

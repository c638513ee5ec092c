#pragma once

namespace moh {

/// The back end tag of CUDA kernels: RmsNormKernels<Cuda, bfloat16>. They exist in float32 and bfloat16.
struct Cuda {};

}  // namespace moh

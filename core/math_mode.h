#pragma once

#include <cstdint>

namespace moh {

/// Whose kernels compute dense attention on a GPU; attention of selected heads always runs moh's own.
enum class AttentionBackend : std::uint8_t {
  kAuto,    ///< cuDNN's where they support the case and are expected to be faster, else moh's
  kNative,  ///< moh's
  kCudnn,   ///< cuDNN's; a case that they do not support is an error
};

/// Choices of arithmetic and kernels on a GPU. A model has one mode (Placement), in which its forward pass
/// runs; a recorded op keeps the mode of its forward pass for its backward pass.
struct MathMode {
  /// Round the operands of float32 matrix multiplications and convolutions to TF32 (10 bits of mantissa), for
  /// the tensor cores. Accumulation stays float32.
  bool tf32 = false;
  AttentionBackend attention = AttentionBackend::kAuto;
  /// Take of cuDNN's gradients of attention only those that have the same bits in every run, as moh's have.
  bool deterministic_attention = true;

  bool operator==(const MathMode&) const = default;
};

/// The mode of this thread; the default outside all scopes.
MathMode math_mode();

/// Sets the mode of the calling thread for its own lifetime.
class MathModeScope {
 public:
  explicit MathModeScope(MathMode mode);
  ~MathModeScope();
  MathModeScope(const MathModeScope&) = delete;
  MathModeScope& operator=(const MathModeScope&) = delete;

 private:
  MathMode previous_;
};

}  // namespace moh

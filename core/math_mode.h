#pragma once

#include <cstdint>

namespace moh {

/// Whose kernels compute dense attention on a GPU; that of selected heads is always moh's own.
enum class AttentionBackend : std::uint8_t {
  kAuto,    ///< cuDNN's where they are expected to be faster and compute the case, else moh's
  kNative,  ///< moh's
  kCudnn,   ///< cuDNN's; what they do not compute is an error
};

/// How ops compute on a GPU where there is a choice. A model has one (Placement), its forward pass runs in
/// it, and so does the backward pass: a recorded op keeps that of its forward pass.
struct MathMode {
  /// Round the factors of float32 matrix multiplications and convolutions to TF32 (10 bits of mantissa),
  /// which tensor cores multiply. Sums stay float32.
  bool tf32 = false;
  AttentionBackend attention = AttentionBackend::kAuto;

  bool operator==(const MathMode&) const = default;
};

/// That of this thread; the default outside of all scopes.
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

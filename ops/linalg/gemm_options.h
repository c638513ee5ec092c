#pragma once

#include <functional>
#include <string>

namespace moh {

/// Which algorithms compute matrix multiplications on a GPU: for the whole process, as the device is.
struct GemmOptions {
  /// Time the algorithms that cuBLASLt proposes for a product when it is first computed, and take the
  /// fastest, rather than its first proposal. Timing differs from run to run; `algorithms` makes the choice
  /// repeatable.
  bool search = false;
  /// Algorithms found before, as `on_found` was given them; empty: none.
  std::string algorithms;
  /// What errors in `algorithms` are reported against: its file.
  std::string algorithms_name = "algorithms";
  /// Called with all algorithms, those of `algorithms` among them, whenever the search has found another.
  std::function<void(const std::string& algorithms)> on_found;
};

/// From the next product on. A device must be open. Throws DeviceError when cuBLASLt cannot be loaded,
/// DataError when `algorithms` cannot be read, or is of another GPU or version of cuBLASLt.
void set_gemm_options(const GemmOptions& options);

}  // namespace moh

#pragma once

#include <string>

#include "core/math_mode.h"
#include "ops/linalg/gemm_options.h"
#include "tests/cuda_sim/cublas.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_run.h"
#include "tests/support/same_bits.h"

// Common parts of the tests of products on the simulated GPU.

namespace moh::test {

inline constexpr unsigned kPlain = 1, kBias = 4, kRowSums = 512;  // epilogues
inline constexpr unsigned kGelu = 32, kGeluBias = 36, kGeluAux = 160, kGeluAuxBias = 164, kGeluGradient = 192;

/// Options of products for the lifetime of the scope, with a simulated library as it comes.
class Gemms {
 public:
  explicit Gemms(GemmOptions options = {}) {
    open_gpu();
    sim::Cublas::instance() = {};
    set_gemm_options(options);
  }
  ~Gemms() {
    sim::Cublas::instance() = {};
    set_gemm_options({});
  }
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;

  /// How often algorithm `id` ran.
  static int runs(int id) {
    int sum = 0;
    for (const auto& [call, count] : sim::Cublas::instance().calls) sum += call.id == id ? count : 0;
    return sum;
  }
  static int runs(int id, unsigned epilogue) {
    int sum = 0;
    for (const auto& [call, count] : sim::Cublas::instance().calls)
      sum += call.id == id && call.epilogue == epilogue ? count : 0;
    return sum;
  }
};

inline GemmOptions searching(std::string& found) {
  GemmOptions options;
  options.search = true;
  options.on_found = [&found](const std::string& text) { found = text; };
  return options;
}

inline Tensor on_gpu(const Shape& shape, DType dtype, std::uint64_t seed) {
  return normal(shape, seed).to(dtype).to(parse_device("cuda"));
}

}  // namespace moh::test

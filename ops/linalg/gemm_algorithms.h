#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace moh {

/// An algorithm of cuBLASLt: the attributes that configure it, in the order of
/// cublasLtMatmulAlgoConfigAttributes_t.
struct GemmAlgorithm {
  static constexpr std::array<std::string_view, 9> kNames = {
      "id", "tile", "splits", "reduction", "swizzle", "custom", "stages", "inner_shape", "cluster_shape"};

  bool fused = true;  ///< GemmExtra is computed by the epilogue, not by a separate kernel
  std::array<std::uint32_t, kNames.size()> settings{};

  bool operator==(const GemmAlgorithm&) const = default;
};

/// Algorithms by the name of a matrix multiplication (gemm_cublas.cpp), and their text form for files:
///   moh gemm algorithms 1
///   cuBLASLt 130100, NVIDIA H100 80GB HBM3
///   NT 4096x1024x512 ld 512 512 1024 ...: fused id 66 tile 20 splits 1 ...
class GemmAlgorithms {
 public:
  /// `made_for`: version of cuBLASLt and name of the GPU; algorithms are valid for these alone.
  explicit GemmAlgorithms(std::string made_for) : made_for_(std::move(made_for)) {}
  /// Parses the result of to_text(); empty text: no algorithms. Throws DataError naming `where` and the line.
  GemmAlgorithms(std::string made_for, std::string_view text, std::string_view where);

  /// Null if there is none for this matrix multiplication.
  const GemmAlgorithm* find(const std::string& product) const;
  void add(const std::string& product, const GemmAlgorithm& algorithm) { of_[product] = algorithm; }
  std::string to_text() const;

 private:
  std::string made_for_;
  std::map<std::string, GemmAlgorithm> of_;
};

}  // namespace moh

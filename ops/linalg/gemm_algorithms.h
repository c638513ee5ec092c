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

  bool fused = true;  ///< what a product does besides multiplying is part of it, not a kernel of its own
  std::array<std::uint32_t, kNames.size()> settings{};

  bool operator==(const GemmAlgorithm&) const = default;
};

/// The algorithms of products, by a text that names the product, and as text that can be kept:
///   moh gemm algorithms 1
///   cuBLASLt 130100, NVIDIA H100 80GB HBM3
///   NT 4096x1024x512 ld 512 512 1024 ...: fused id 66 tile 20 splits 1 ...
class GemmAlgorithms {
 public:
  /// `made_for`: version of the library and name of the GPU, without which an algorithm means nothing.
  explicit GemmAlgorithms(std::string made_for) : made_for_(std::move(made_for)) {}
  /// What to_text() gave; empty text: none. Throws DataError that names `where` and the line.
  GemmAlgorithms(std::string made_for, std::string_view text, std::string_view where);

  /// Null when there is none for the product.
  const GemmAlgorithm* find(const std::string& product) const;
  void add(const std::string& product, const GemmAlgorithm& algorithm) { of_[product] = algorithm; }
  std::string to_text() const;

 private:
  std::string made_for_;
  std::map<std::string, GemmAlgorithm> of_;
};

}  // namespace moh

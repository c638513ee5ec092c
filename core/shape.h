#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace moh {

/// Extents of a tensor, outermost first; rank 0 is a scalar. Holds up to kMaxRank extents without allocating.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  /// Throws ShapeError for a rank above kMaxRank, a negative extent, or more than 2^63 - 1 elements.
  explicit Shape(std::span<const std::int64_t> extents);

  int rank() const { return rank_; }
  /// Extent of `axis`; negative axes count from the end. Throws ShapeError when out of range.
  std::int64_t operator[](int axis) const;
  /// Product of the extents; 1 for a scalar.
  std::int64_t numel() const;
  std::span<const std::int64_t> extents() const { return {extents_.data(), static_cast<std::size_t>(rank_)}; }

  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// "[8, 256]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

}  // namespace moh

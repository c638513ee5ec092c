#include "core/shape.h"

#include <algorithm>

#include "core/error.h"

namespace moh {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) {
  if (extents.size() > kMaxRank) {
    throw ShapeError(error_message("shape", "rank", "at most " + std::to_string(kMaxRank),
                                   std::to_string(extents.size())));
  }
  std::int64_t count = 1;
  bool overflow = false;
  for (std::int64_t extent : extents) {
    if (extent < 0) throw ShapeError(error_message("shape", "extent", "0 or more", std::to_string(extent)));
    overflow = overflow || __builtin_mul_overflow(count, extent, &count);
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  // A zero extent makes any product zero, whatever an intermediate product was.
  const bool empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
  if (overflow && !empty) {
    throw ShapeError("shape: " + to_string(*this) + ": the number of elements does not fit into 63 bits");
  }
}

std::int64_t Shape::operator[](int axis) const {
  const int index = axis < 0 ? axis + rank_ : axis;
  if (index < 0 || index >= rank_) {
    throw ShapeError(error_message("shape " + to_string(*this), "axis", "below " + std::to_string(rank_),
                                   std::to_string(axis)));
  }
  return extents_[static_cast<std::size_t>(index)];
}

std::int64_t Shape::numel() const {
  std::int64_t count = 1;
  for (std::int64_t extent : extents()) {
    if (extent == 0) return 0;
  }
  for (std::int64_t extent : extents()) count *= extent;
  return count;
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(extents(), other.extents());
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::int64_t extent : shape.extents()) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

}  // namespace moh

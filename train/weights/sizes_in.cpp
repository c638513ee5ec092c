#include "train/weights/sizes_in.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace moh {

std::int64_t length_in(const WeightFile& weights, std::string_view tensor, std::int64_t axis) {
  const WeightInfo* const found = weights.find(tensor);
  return found != nullptr && axis < found->shape.rank() ? found->shape[axis] : 0;
}

std::int64_t count_in(const WeightFile& weights, std::string_view prefix, std::string_view suffix,
                      std::int64_t first) {
  std::int64_t count = 0;
  while (weights.find(std::string(prefix) + std::to_string(first + count) + std::string(suffix)) != nullptr)
    ++count;
  return count;
}

std::int64_t side_of_square(std::int64_t tokens) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(tokens))));
  return side * side == tokens ? side : 0;
}

bool has_routers(const WeightFile& weights) {
  return std::ranges::any_of(weights.tensors(), [](const WeightInfo& tensor) {
    return tensor.name.find("attn.wg") != std::string::npos;
  });
}

}  // namespace moh

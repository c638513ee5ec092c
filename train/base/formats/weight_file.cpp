#include "train/base/formats/weight_file.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "train/base/formats/element_blocks.h"

namespace moh {

const WeightInfo* WeightFile::set_tensors(std::vector<WeightInfo> tensors) {
  tensors_ = std::move(tensors);
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  const auto name = [this](std::uint32_t i) -> const std::string& { return tensors_[i].name; };
  std::ranges::sort(by_name_, std::less<>(), name);
  const auto twice = std::ranges::adjacent_find(by_name_, std::equal_to<>(), name);
  return twice == by_name_.end() ? nullptr : &tensors_[*twice];
}

const WeightInfo* WeightFile::find(std::string_view name) const {
  const auto by = [this](std::uint32_t i) -> std::string_view { return tensors_[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, std::less<>(), by);
  if (found == by_name_.end() || by(*found) != name) return nullptr;
  return &tensors_[*found];
}

void WeightFile::stream(const WeightInfo& tensor, FunctionRef<void(std::span<const std::byte>)> sink) const {
  const auto fill = [&](std::uint64_t offset, std::span<std::byte> block) { read(tensor, offset, block); };
  stream_blocks(tensor.bytes, fill, sink);
}

}  // namespace moh

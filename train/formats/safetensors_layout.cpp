#include "train/formats/safetensors_layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "train/formats/stored_dtype.h"
#include "train/io/checksum.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::size_t kAlignment = 8;

void require_utf8(const std::string& text) {
  if (!is_utf8(text)) throw ValueError(error_message("safetensors", "text", "UTF-8", printable(text)));
}

std::uint64_t bytes_of_item(const WeightInfo& item) {
  if (const auto bytes = stored_bytes(item.stored_dtype, item.shape)) return *bytes;
  throw ValueError(error_message("safetensors", printable(item.name),
                                 "a type and shape that the format can store",
                                 std::string(item.stored_dtype) + " " + to_string(item.shape)));
}

std::string entry_text(const WeightInfo& item, std::uint64_t begin, std::uint64_t end) {
  const std::span<const std::int64_t> extents = item.shape.extents();
  const nlohmann::ordered_json entry = {{"dtype", std::string(item.stored_dtype)},
                                        {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                                        {"data_offsets", {begin, end}}};
  return nlohmann::json(item.name).dump() + ':' + entry.dump();
}

void check_texts(std::span<const WeightInfo> items, const WeightFile::Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    require_utf8(key);
    require_utf8(value);
  }
  std::vector<std::string_view> names = {"__metadata__"};
  for (const WeightInfo& item : items) {
    require_utf8(item.name);
    names.push_back(item.name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return;
  throw ValueError(error_message("safetensors", printable(*twice), "a name that is used once", "it twice"));
}

/// Orders as the format's own writer does: the larger elements first, so that each tensor is aligned to its
/// own.
bool comes_before(const WeightInfo& a, const WeightInfo& b) {
  const int a_bits = find_safetensors_dtype(a.stored_dtype)->bits;
  const int b_bits = find_safetensors_dtype(b.stored_dtype)->bits;
  return a_bits != b_bits ? a_bits > b_bits : a.name < b.name;
}

}  // namespace

std::optional<std::uint64_t> stored_bytes(std::string_view stored_dtype, const Shape& shape) {
  const StoredDType* dtype = find_safetensors_dtype(stored_dtype);
  std::uint64_t bits = 0;
  const bool overflow =
      dtype == nullptr || __builtin_mul_overflow(static_cast<std::uint64_t>(shape.numel()),
                                                 static_cast<std::uint64_t>(dtype->bits), &bits);
  if (overflow || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

SafetensorsLayout::SafetensorsLayout(std::span<const WeightInfo> items, const WeightFile::Metadata& metadata,
                                     std::size_t header_bytes)
    : order_(items.size()) {
  check_texts(items, metadata);
  std::vector<std::uint64_t> bytes;
  for (const WeightInfo& item : items) bytes.push_back(bytes_of_item(item));
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::sort(order_, [&](std::size_t a, std::size_t b) { return comes_before(items[a], items[b]); });
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + nlohmann::json(metadata).dump();
  std::uint64_t end = 0;
  for (std::size_t index : order_) {
    if (text.size() > 1) text += ',';
    text += entry_text(items[index], end, end + bytes[index]);
    end += bytes[index];
  }
  text += '}';
  const std::size_t least = std::max(text.size() + kAlignment, header_bytes) - kAlignment;
  text.resize((least + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = text.size();
  header_.assign(reinterpret_cast<const char*>(&length), sizeof(length));  // little-endian, as all hosts
  header_ += text;
  bytes_ = header_.size() + end;
}

SafetensorsChecksums write_safetensors(const SafetensorsLayout& layout,
                                       FunctionRef<void(std::size_t index, ByteSink to)> elements,
                                       ByteSink sink) {
  SafetensorsChecksums checksums;
  checksums.tensors.resize(layout.order().size());
  Checksum file;
  const auto write = [&](std::span<const std::byte> bytes) {
    file.update(bytes);
    sink(bytes);
  };
  write(layout.header());
  for (std::size_t index : layout.order()) {
    Checksum tensor;
    elements(index, [&](std::span<const std::byte> bytes) {
      tensor.update(bytes);
      write(bytes);
    });
    checksums.tensors[index] = tensor.hex();
  }
  checksums.file = file.hex();
  return checksums;
}

}  // namespace moh

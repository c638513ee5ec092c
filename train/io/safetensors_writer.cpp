#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "train/io/durable_file.h"
#include "train/io/printable.h"
#include "train/io/safetensors.h"
#include "train/io/safetensors_dtype.h"

namespace moh {

namespace {

constexpr std::size_t kAlignment = 8;

/// JSON text of a string. Throws ValueError when it is not UTF-8.
std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError(error_message("safetensors", "text", "UTF-8", printable(text)));
  }
}

std::string entry_text(const NamedTensor& named, std::uint64_t begin) {
  std::string shape;
  for (std::int64_t extent : named.tensor.shape().extents()) {
    shape.append(shape.empty() ? "" : ",").append(std::to_string(extent));
  }
  return quoted(named.name) + ":{\"dtype\":\"" + std::string(safetensors_dtype_name(named.tensor.dtype())) +
         "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(begin) + "," +
         std::to_string(begin + named.tensor.bytes()) + "]}";
}

std::string metadata_text(const SafetensorsWriter::Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    text.append(text.empty() ? "" : ",").append(quoted(key)).append(":").append(quoted(value));
  }
  return "\"__metadata__\":{" + text + "}";
}

void check_names(std::span<const NamedTensor> tensors) {
  std::vector<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    MOH_CHECK(named.tensor.defined(), "tensor " + named.name + " is undefined");
    names.push_back(named.name);
  }
  names.push_back("__metadata__");
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return;
  throw ValueError(error_message("safetensors", printable(*twice), "a name that is used once", "it twice"));
}

/// Orders as the format's own writer does: the larger elements first, so that each tensor is aligned to its
/// own.
bool comes_before(const NamedTensor& a, const NamedTensor& b) {
  const std::size_t a_size = dtype_size(a.tensor.dtype()), b_size = dtype_size(b.tensor.dtype());
  return a_size != b_size ? a_size > b_size : a.name < b.name;
}

std::array<std::byte, 8> to_little_endian(std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

}  // namespace

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()};
}

SafetensorsWriter::SafetensorsWriter(std::span<const NamedTensor> tensors, const Metadata& metadata)
    : tensors_(tensors.begin(), tensors.end()) {
  check_names(tensors_);
  std::ranges::sort(tensors_, comes_before);
  header_ = "{";
  if (!metadata.empty()) header_ += metadata_text(metadata);
  std::uint64_t data_bytes = 0;
  for (const NamedTensor& named : tensors_) {
    if (header_.size() > 1) header_ += ',';
    header_ += entry_text(named, data_bytes);
    data_bytes += named.tensor.bytes();
  }
  header_ += '}';
  header_.resize((header_.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  bytes_ = sizeof(std::uint64_t) + header_.size() + data_bytes;
}

void SafetensorsWriter::write(FunctionRef<void(std::span<const std::byte>)> sink) const {
  sink(to_little_endian(header_.size()));
  sink(std::as_bytes(std::span(header_)));
  for (const NamedTensor& named : tensors_) sink(bytes_of(named.tensor));
}

void save_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      const SafetensorsWriter::Metadata& metadata) {
  const SafetensorsWriter writer(tensors, metadata);
  DurableFile file(path, writer.bytes());
  writer.write([&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace moh

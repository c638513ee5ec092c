#include "train/weights/stream_tensor.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"
#include "train/formats/element_blocks.h"
#include "train/formats/element_conversion.h"
#include "train/formats/safetensors_dtype.h"
#include "train/io/checksum.h"
#include "train/io/printable.h"

namespace moh {

namespace {

std::size_t element_bytes(std::string_view stored_dtype) {
  return static_cast<std::size_t>(find_safetensors_dtype(stored_dtype)->bits) / 8;
}

ConvertElements conversion_of(const WeightFile& file, const WeightInfo& tensor, std::string_view to) {
  if (const ConvertElements convert = find_conversion(tensor.stored_dtype, to)) return convert;
  throw CheckpointError(error_message(file.path().string(), printable(tensor.name),
                                      "a type that converts to " + std::string(to), tensor.stored_dtype,
                                      "the type can only be kept"));
}

void add_text(Checksum& hash, std::string_view text) {
  hash.update(std::as_bytes(std::span(text)));
  hash.update(std::as_bytes(std::span("\0", 1)));
}

}  // namespace

bool can_convert(std::string_view from, std::string_view to) {
  return from == to || find_conversion(from, to) != nullptr;
}

void stream_tensor(const WeightFile& file, const WeightInfo& tensor, std::string_view to,
                   FunctionRef<void(std::span<const std::byte>)> sink) {
  const bool same = tensor.stored_dtype == to;
  const ConvertElements convert = same ? nullptr : conversion_of(file, tensor, to);
  const std::size_t block = std::min<std::uint64_t>(kStreamBlockBytes, tensor.bytes);
  const std::size_t from_size = same ? 1 : element_bytes(tensor.stored_dtype);
  const std::size_t to_size = same ? 1 : element_bytes(to);
  const auto converted = std::make_unique_for_overwrite<std::byte[]>(same ? 0 : block / from_size * to_size);
  const auto read = [&](std::uint64_t offset, std::span<std::byte> to_fill) {
    file.read(tensor, offset, to_fill);
  };
  stream_blocks(tensor.bytes, read, [&](std::span<const std::byte> stored) {
    if (same) return sink(stored);
    convert(stored.data(), converted.get(), stored.size() / from_size);
    sink({converted.get(), stored.size() / from_size * to_size});
  });
}

bool same_elements(const WeightFile& file, const WeightInfo& a, const WeightInfo& b) {
  if (a.stored_dtype != b.stored_dtype || a.shape != b.shape) return false;
  const auto other = std::make_unique_for_overwrite<std::byte[]>(kStreamBlockBytes);
  std::uint64_t offset = 0;
  bool same = true;
  stream_tensor(file, a, a.stored_dtype, [&](std::span<const std::byte> bytes) {
    if (!same) return;
    file.read(b, offset, {other.get(), bytes.size()});
    same = std::memcmp(bytes.data(), other.get(), bytes.size()) == 0;
    offset += bytes.size();
  });
  return same;
}

std::string content_hash(const WeightFile& file, FunctionRef<void(std::uint64_t bytes)> done) {
  std::vector<const WeightInfo*> by_name;
  for (const WeightInfo& tensor : file.tensors()) by_name.push_back(&tensor);
  std::ranges::sort(by_name, std::less<>(), &WeightInfo::name);
  Checksum hash;
  for (const WeightInfo* tensor : by_name) {
    add_text(hash, tensor->name);
    add_text(hash, tensor->stored_dtype);
    add_text(hash, to_string(tensor->shape));
    stream_tensor(file, *tensor, tensor->stored_dtype, [&](std::span<const std::byte> bytes) {
      hash.update(bytes);
      done(bytes.size());
    });
  }
  return hash.hex();
}

}  // namespace moh

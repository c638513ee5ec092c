#include <utility>

#include "core/error.h"
#include "train/io/durable_file.h"
#include "train/io/safetensors.h"
#include "train/io/safetensors_dtype.h"

namespace moh {

namespace {

std::vector<SafetensorsItem> items_of(std::span<const NamedTensor> tensors) {
  std::vector<SafetensorsItem> items;
  for (const NamedTensor& named : tensors) {
    MOH_CHECK(named.tensor.defined(), "tensor " + named.name + " is undefined");
    items.push_back({named.name, safetensors_dtype_name(named.tensor.dtype()), named.tensor.shape()});
  }
  return items;
}

}  // namespace

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()};
}

SafetensorsWriter::SafetensorsWriter(std::span<const NamedTensor> tensors, const Metadata& metadata)
    : layout_(items_of(tensors), metadata) {
  for (std::size_t index : layout_.order()) tensors_.push_back(tensors[index]);
}

void SafetensorsWriter::write(FunctionRef<void(std::span<const std::byte>)> sink) const {
  sink(layout_.header());
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

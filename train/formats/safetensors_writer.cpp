#include "core/error.h"
#include "train/formats/element_blocks.h"
#include "train/formats/safetensors.h"
#include "train/formats/safetensors_dtype.h"
#include "train/io/durable_file.h"

namespace moh {

SafetensorsLayout layout_of(std::span<const NamedTensor> tensors,
                            const SafetensorsLayout::Metadata& metadata) {
  std::vector<SafetensorsItem> items;
  for (const NamedTensor& named : tensors) {
    MOH_CHECK(named.tensor.defined(), "tensor " + named.name + " is undefined");
    items.push_back({named.name, safetensors_dtype_name(named.tensor.dtype()), named.tensor.shape()});
  }
  return SafetensorsLayout(items, metadata);
}

SafetensorsChecksums write_safetensors(const SafetensorsLayout& layout, std::span<const NamedTensor> tensors,
                                       ByteSink sink) {
  const auto elements = [&](std::size_t index, ByteSink to) { stream_elements(tensors[index].tensor, to); };
  return write_safetensors(layout, elements, sink);
}

void save_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      const SafetensorsLayout::Metadata& metadata) {
  const SafetensorsLayout layout = layout_of(tensors, metadata);
  DurableFile file(path, layout.bytes());
  write_safetensors(layout, tensors, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace moh

#include "core/error.h"
#include "train/formats/element_blocks.h"
#include "train/formats/safetensors.h"
#include "train/formats/stored_dtype.h"
#include "train/io/durable_file.h"

namespace moh {

std::vector<WeightInfo> infos_of(std::span<const NamedTensor> tensors) {
  std::vector<WeightInfo> infos;
  for (const auto& [name, tensor] : tensors) {
    MOH_CHECK(tensor.defined(), "tensor " + name + " is undefined");
    infos.push_back({name, safetensors_dtype_name(tensor.dtype()), tensor.shape(), tensor.bytes()});
  }
  return infos;
}

SafetensorsLayout layout_of(std::span<const NamedTensor> tensors, const WeightFile::Metadata& metadata) {
  return SafetensorsLayout(infos_of(tensors), metadata);
}

SafetensorsChecksums write_safetensors(const SafetensorsLayout& layout, std::span<const NamedTensor> tensors,
                                       ByteSink sink) {
  const auto elements = [&](std::size_t index, ByteSink to) { stream_elements(tensors[index].tensor, to); };
  return write_safetensors(layout, elements, sink);
}

void save_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      const WeightFile::Metadata& metadata) {
  const SafetensorsLayout layout = layout_of(tensors, metadata);
  DurableFile file(path, layout.bytes());
  write_safetensors(layout, tensors, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace moh

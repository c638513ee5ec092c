#include "train/run/sharded_state.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/formats/element_blocks.h"
#include "train/formats/stored_dtype.h"

namespace moh {

namespace {

std::int64_t elements_of(const WeightInfo& tensor) {
  return tensor.shape.numel();
}

void check(std::string_view where, std::span<const StoredTensors> from, const TensorPart& part) {
  const std::string dtype(safetensors_dtype_name(part.tensor.dtype()));
  std::int64_t elements = 0;
  for (const StoredTensors& file : from) {
    const WeightInfo* const tensor = file.find(part.name);
    if (tensor == nullptr) continue;
    elements += elements_of(*tensor);
    if (tensor->stored_dtype == dtype) continue;
    throw CheckpointError(error_message(where, part.name, dtype, std::string(tensor->stored_dtype)));
  }
  if (elements == part.whole) return;
  throw CheckpointError(error_message(where, part.name, std::to_string(part.whole) + " elements in all files",
                                      std::to_string(elements)));
}

/// Elements [begin, end) of a stored tensor, block by block.
void append_elements(TensorFiller& filler, const StoredTensors& file, const WeightInfo& tensor,
                     std::size_t element_bytes, std::int64_t begin, std::int64_t end) {
  const std::uint64_t first = static_cast<std::uint64_t>(begin) * element_bytes;
  stream_blocks(
      static_cast<std::uint64_t>(end - begin) * element_bytes,
      [&](std::uint64_t offset, std::span<std::byte> block) { file.read(tensor, first + offset, block); },
      [&](std::span<const std::byte> block) { filler.append(block); });
}

void load(std::span<const StoredTensors> from, const TensorPart& part) {
  TensorFiller filler(part.tensor);
  const std::int64_t end = part.begin + part.tensor.numel();
  std::int64_t place = 0;  // of the file's part in the whole tensor
  for (const StoredTensors& file : from) {
    const WeightInfo* const tensor = file.find(part.name);
    if (tensor == nullptr) continue;
    const std::int64_t next = place + elements_of(*tensor);
    const std::int64_t first = std::max(place, part.begin), last = std::min(next, end);
    if (first < last)
      append_elements(filler, file, *tensor, dtype_size(part.tensor.dtype()), first - place, last - place);
    place = next;
  }
}

}  // namespace

void load_parts(std::string_view where, std::span<const StoredTensors> from, std::span<const TensorPart> to) {
  for (const StoredTensors& file : from) file.verify();
  for (const TensorPart& part : to) check(where, from, part);
  for (const TensorPart& part : to) load(from, part);
}

}  // namespace moh

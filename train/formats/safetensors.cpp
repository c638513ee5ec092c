#include "train/formats/safetensors.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/formats/element_blocks.h"
#include "train/formats/records.h"
#include "train/formats/safetensors_header.h"
#include "train/formats/stored_dtype.h"
#include "train/io/durable_file.h"
#include "train/io/printable.h"

namespace moh {

namespace {

std::uint64_t read_header_length(const InputFile& file) {
  using Length = std::uint64_t;
  if (file.size() < sizeof(Length)) {
    file.fail("header length", "a safetensors file, which begins with 8 bytes",
              "a file of " + std::to_string(file.size()) + " bytes");
  }
  const auto length = read_record<Length>(file, 0, "header length");
  const Length most = std::min(SafetensorsFile::kMaxHeaderBytes, file.size() - sizeof(Length));
  constexpr Length kLeast = 2;  // {}
  if (length < kLeast || length > most) {
    file.fail("header length", "2 to " + std::to_string(most), std::to_string(length),
              "this is not a safetensors file, or it is truncated");
  }
  return length;
}

/// Tensors must cover the data from its first to its last byte, once.
void check_ranges(const InputFile& file, std::span<const WeightInfo> tensors, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (const WeightInfo& tensor : tensors) {
    if (tensor.place != end) {
      file.fail("header, " + printable(tensor.name) + ", data_offsets",
                "a begin of " + std::to_string(end) + ", where the tensor before ends",
                std::to_string(tensor.place));
    }
    end += tensor.bytes;
  }
  if (end != data_bytes) {
    file.fail("data", std::to_string(end) + " bytes, as the header says", std::to_string(data_bytes),
              end > data_bytes ? "the file is truncated" : "something was appended to the file");
  }
}

}  // namespace

bool looks_like_safetensors(std::string_view first_bytes) {
  return first_bytes.size() >= 9 && first_bytes.substr(5, 3) == std::string_view("\0\0\0", 3) &&
         std::string_view("{ \t\r\n").find(first_bytes[8]) != std::string_view::npos;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, InputKind kind) : file_(path, kind) {
  const std::uint64_t header_bytes = read_header_length(file_);
  SafetensorsHeader header = parse_safetensors_header(file_, header_bytes);
  metadata_ = std::move(header.metadata);
  data_begin_ = sizeof(std::uint64_t) + header_bytes;
  // Empty tensors sort before the one that begins where they are.
  std::ranges::sort(header.tensors, std::less<>(),
                    [](const WeightInfo& tensor) { return std::pair(tensor.place, tensor.bytes); });
  check_ranges(file_, header.tensors, file_.size() - data_begin_);
  if (const WeightInfo* twice = set_tensors(std::move(header.tensors)))
    file_.fail("header, " + printable(twice->name), "this key once", "it twice");
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const WeightInfo* found = find(name);
  if (found == nullptr) {
    file_.fail(printable(name), "a tensor of this name", "none among " + std::to_string(tensors().size()));
  }
  return tensor(*found);
}

DType SafetensorsFile::dtype_of(const WeightInfo& tensor) const {
  if (const auto dtype = find_safetensors_dtype(tensor.stored_dtype)->loads_as) return *dtype;
  file_.fail(printable(tensor.name), "F32, BF16, F64, I32, I64, U8 or BOOL", tensor.stored_dtype,
             "convert the file to one of these");
}

Tensor SafetensorsFile::tensor(const WeightInfo& tensor) const {
  Tensor loaded = empty(tensor.shape, dtype_of(tensor));
  read(tensor, 0, {static_cast<std::byte*>(loaded.raw()), loaded.bytes()});
  return loaded;
}

void SafetensorsFile::read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const {
  MOH_CHECK(offset <= tensor.bytes && to.size() <= tensor.bytes - offset, "a read within the tensor");
  file_.read(data_begin_ + tensor.place + offset, to, printable(tensor.name));
}

std::vector<std::byte> SafetensorsFile::raw_header() const {
  std::vector<std::byte> bytes(data_begin_);
  file_.read(0, bytes, "header");
  return bytes;
}

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

#include "train/base/formats/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/records.h"
#include "train/base/formats/safetensors_header.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/checksum.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/printable.h"

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

/// Checks that the tensors cover the data without gaps or overlaps.
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

/// The order of the reference writer: larger elements first, so that each tensor is aligned to its element
/// size.
bool comes_before(const WeightInfo& a, const WeightInfo& b) {
  const int a_bits = find_safetensors_dtype(a.stored_dtype)->bits;
  const int b_bits = find_safetensors_dtype(b.stored_dtype)->bits;
  return a_bits != b_bits ? a_bits > b_bits : a.name < b.name;
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
  // Empty tensors come before the tensor that begins at the same offset.
  std::ranges::sort(header.tensors, std::less<>(),
                    [](const WeightInfo& tensor) { return std::pair(tensor.place, tensor.bytes); });
  check_ranges(file_, header.tensors, file_.size() - data_begin_);
  if (const WeightInfo* twice = set_tensors(std::move(header.tensors)))
    file_.fail("header, " + printable(twice->name), "this key once", "it twice");
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const WeightInfo* found = find(name);
  if (found == nullptr) {
    file_.fail(printable(name), "a tensor of this name",
               "none among the " + std::to_string(tensors().size()) + " tensors");
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

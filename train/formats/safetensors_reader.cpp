#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/formats/element_blocks.h"
#include "train/formats/safetensors.h"
#include "train/formats/safetensors_header.h"
#include "train/io/printable.h"

namespace moh {

namespace {

std::uint64_t from_little_endian(std::span<const std::byte, 8> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::uint64_t read_header_length(const InputFile& file) {
  std::array<std::byte, 8> bytes;
  if (file.size() < bytes.size()) {
    file.fail("header length", "a safetensors file, which begins with 8 bytes",
              "a file of " + std::to_string(file.size()) + " bytes");
  }
  file.read(0, bytes, "header length");
  const std::uint64_t length = from_little_endian(bytes);
  const std::uint64_t most =
      std::min<std::uint64_t>(SafetensorsFile::kMaxHeaderBytes, file.size() - bytes.size());
  constexpr std::uint64_t kLeast = 2;  // {}
  if (length < kLeast || length > most) {
    file.fail("header length", "2 to " + std::to_string(most), std::to_string(length),
              "this is not a safetensors file, or it is truncated");
  }
  return length;
}

/// Tensors must cover the data from its first to its last byte, once.
void check_ranges(const InputFile& file, std::span<const SafetensorsEntry> entries,
                  std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != end) {
      file.fail("header, " + printable(entry.name) + ", data_offsets",
                "a begin of " + std::to_string(end) + ", where the tensor before ends",
                std::to_string(entry.begin));
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    file.fail("data", std::to_string(end) + " bytes, as the header says", std::to_string(data_bytes),
              end > data_bytes ? "the file is truncated" : "something was appended to the file");
  }
}

/// Indices of the entries in the order of their names. Throws for a name twice.
std::vector<std::uint32_t> index_by_name(const InputFile& file, std::span<const SafetensorsEntry> entries) {
  std::vector<std::uint32_t> index(entries.size());
  std::iota(index.begin(), index.end(), 0U);
  const auto name = [&](std::uint32_t i) -> const std::string& { return entries[i].name; };
  std::ranges::sort(index, std::less<>(), name);
  const auto twice = std::ranges::adjacent_find(index, std::equal_to<>(), name);
  if (twice != index.end()) file.fail("header, " + printable(name(*twice)), "this key once", "it twice");
  return index;
}

}  // namespace

bool looks_like_safetensors(std::string_view first_bytes) {
  return first_bytes.size() >= 9 && first_bytes.substr(5, 3) == std::string_view("\0\0\0", 3) &&
         std::string_view("{ \t\r\n").find(first_bytes[8]) != std::string_view::npos;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, InputKind kind) : file_(path, kind) {
  const std::uint64_t header_bytes = read_header_length(file_);
  SafetensorsHeader header = parse_safetensors_header(file_, header_bytes);
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
  data_begin_ = sizeof(std::uint64_t) + header_bytes;
  // Empty tensors sort before the one that begins where they are.
  std::ranges::sort(entries_, std::less<>(),
                    [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  check_ranges(file_, entries_, file_.size() - data_begin_);
  by_name_ = index_by_name(file_, entries_);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto by = [&](std::uint32_t i) -> std::string_view { return entries_[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, std::less<>(), by);
  if (found == by_name_.end() || by(*found) != name) return nullptr;
  return &entries_[*found];
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) {
    file_.fail(printable(name), "a tensor of this name", "none among " + std::to_string(entries_.size()));
  }
  return tensor(*entry);
}

DType SafetensorsFile::dtype_of(const SafetensorsEntry& entry) const {
  if (entry.dtype) return *entry.dtype;
  file_.fail(printable(entry.name), "F32, BF16, F64, I32, I64, U8 or BOOL", entry.stored_dtype,
             "convert the file to one of these");
}

Tensor SafetensorsFile::tensor(const SafetensorsEntry& entry) const {
  Tensor tensor = empty(entry.shape, dtype_of(entry));
  read(entry, 0, {static_cast<std::byte*>(tensor.raw()), tensor.bytes()});
  return tensor;
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::uint64_t offset,
                           std::span<std::byte> to) const {
  MOH_CHECK(offset <= entry.bytes() && to.size() <= entry.bytes() - offset, "a read within the tensor");
  file_.read(data_begin_ + entry.begin + offset, to, printable(entry.name));
}

void SafetensorsFile::stream(const SafetensorsEntry& entry,
                             FunctionRef<void(std::span<const std::byte>)> sink) const {
  const auto fill = [&](std::uint64_t offset, std::span<std::byte> block) { read(entry, offset, block); };
  stream_blocks(entry.bytes(), fill, sink);
}

std::vector<std::byte> SafetensorsFile::raw_header() const {
  std::vector<std::byte> bytes(data_begin_);
  file_.read(0, bytes, "header");
  return bytes;
}

}  // namespace moh

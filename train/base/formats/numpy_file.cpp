#include "train/base/formats/numpy_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "train/base/formats/stored_dtype.h"
#include "train/base/formats/torch/zip_archive.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY", kZipMagic = "PK\x03\x04", kSuffix = ".npy";
constexpr std::uint64_t kMaxHeaderBytes = 1 << 16;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 60;

constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
    {"|u1", "U8"},  {"|i1", "I8"},  {"<u2", "U16"}, {"<i2", "I16"}, {"<u4", "U32"}, {"<i4", "I32"},
    {"<u8", "U64"}, {"<i8", "I64"}, {"<f2", "F16"}, {"<f4", "F32"}, {"<f8", "F64"}};

/// The header: a dictionary as Python writes it, {'descr': '<u2', 'fortran_order': False, 'shape': (3,), }.
class NumpyHeader {
 public:
  NumpyHeader(const InputFile& file, std::string text) : file_(file), text_(std::move(text)) {}

  std::string descr() const {
    const std::string_view value = value_of("descr");
    const std::size_t end = value.find('\'', 1);
    if (!value.starts_with('\'') || end == std::string_view::npos)
      fail("descr", "one type for all elements", value);
    return std::string(value.substr(1, end - 1));
  }

  std::vector<std::int64_t> shape() const {
    std::string_view value = value_of("shape");
    const std::size_t end = value.find(')');
    const std::string_view shown = value.substr(0, std::min(end, value.size()));
    std::vector<std::int64_t> sizes;
    if (!value.starts_with('(') || end == std::string_view::npos) fail("shape", "a tuple", shown);
    value = value.substr(1, end - 1);
    while (true) {
      value.remove_prefix(std::min(value.find_first_not_of(" ,"), value.size()));
      if (value.empty()) break;
      std::int64_t size = 0;
      const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (error != std::errc() || size < 0) fail("shape", "sizes", shown);
      sizes.push_back(size);
      value.remove_prefix(static_cast<std::size_t>(rest - value.data()));
    }
    return sizes;
  }

  bool fortran_order() const { return !value_of("fortran_order").starts_with("False"); }

 private:
  std::string_view value_of(std::string_view key) const {
    const std::string quoted = '\'' + std::string(key) + "':";
    const std::size_t at = text_.find(quoted);
    if (at == std::string::npos) fail(key, "an entry of the header", "none");
    const std::size_t begin = text_.find_first_not_of(' ', at + quoted.size());
    return begin == std::string::npos ? std::string_view() : std::string_view(text_).substr(begin);
  }
  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found) const {
    file_.fail(std::string("header, ") + std::string(what), expected, printable(found.substr(0, 40)));
  }

  const InputFile& file_;
  std::string text_;
};

bool looks_like_numpy(std::string_view first_bytes) {
  return first_bytes.starts_with(kMagic);
}

/// Reads the header of an array that lies in bytes [begin, end) of the file: versions 1 to 3, a type in
/// little-endian order. Compares no size with the bytes. Throws the kind's error for a damaged one.
NumpyArray read_numpy_header(const InputFile& file, std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kFixed = 12;
  std::string first(std::min(kFixed, end - begin), '\0');
  file.read(begin, std::as_writable_bytes(std::span(first)), "header");
  if (!looks_like_numpy(first) || first.size() < kFixed) file.fail("", "a file of NumPy", "other contents");
  const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(first[i])}; };
  if (byte(6) < 1 || byte(6) > 3) file.fail("version", "1, 2 or 3", std::to_string(byte(6)));
  const std::uint64_t place = byte(6) == 1 ? 10 : 12;
  std::uint64_t size = byte(8) | byte(9) << 8;
  if (byte(6) > 1) size |= byte(10) << 16 | byte(11) << 24;
  if (size > kMaxHeaderBytes) file.fail("header", "at most 65536 bytes", std::to_string(size));
  if (size > end - begin - place) file.fail("header", std::to_string(size) + " bytes", "the end before");
  std::string text(size, '\0');
  file.read(begin + place, std::as_writable_bytes(std::span(text)), "header");

  const NumpyHeader header(file, std::move(text));
  NumpyArray array{.descr = header.descr(),
                   .stored_dtype = {},
                   .shape = header.shape(),
                   .begin = begin + place + size,
                   .bytes = end - begin - place - size};
  array.fortran_order = header.fortran_order();
  for (const auto& [descr, dtype] : kTypes) {
    if (array.descr == descr) array.stored_dtype = dtype;
  }
  return array;
}

}  // namespace

std::uint64_t NumpyArray::elements() const {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    const auto factor = static_cast<std::uint64_t>(extent);
    if (factor == 0) return 0;
    if (count > kMostElements / factor) return kMostElements;
    count *= factor;
  }
  return count;
}

NumpyFile::NumpyFile(const std::filesystem::path& path) : file_(path, InputKind::kData) {
  const std::string first = file_.first_bytes(kMagic.size());
  is_archive_ = !looks_like_numpy(first);
  if (is_archive_)
    add_entries(first);
  else
    add("", 0, file_.size());
}

void NumpyFile::add_entries(std::string_view first_bytes) {
  if (!first_bytes.starts_with(kZipMagic)) file_.fail("", "a file of NumPy (.npy or .npz)", "other contents");
  for (const auto& [name, entry] : read_zip_directory(file_)) {
    if (entry.method != 0)
      file_.fail("array " + printable(name), "one without compression", "a compressed one",
                 "save it with numpy.savez, not savez_compressed");
    if (name.ends_with(kSuffix)) add(name.substr(0, name.size() - kSuffix.size()), entry.begin, entry.end());
  }
}

void NumpyFile::add(const std::string& name, std::uint64_t begin, std::uint64_t end) {
  const NumpyArray array = read_numpy_header(file_, begin, end);
  const std::string where = name.empty() ? "array" : "array " + printable(name);
  if (array.stored_dtype.empty())
    file_.fail(where, "numbers in little-endian order, such as '<f4'", printable(array.descr));
  const std::uint64_t item = find_safetensors_dtype(array.stored_dtype)->bytes();
  if (array.elements() >= kMostElements || array.elements() * item != array.bytes)
    file_.fail(where, "the elements of its shape", std::to_string(array.bytes) + " bytes of elements",
               "the file is cut or damaged");
  arrays_.emplace(name, array);
}

const NumpyArray* NumpyFile::find(std::string_view name) const {
  const auto found = arrays_.find(name);
  return found == arrays_.end() ? nullptr : &found->second;
}

std::string NumpyFile::names() const {
  std::string text;
  for (const auto& [name, array] : arrays_) text += (text.empty() ? "" : ", ") + printable(name);
  return text.empty() ? "none" : text;
}

void NumpyFile::verify(std::string_view name) const {
  if (!is_archive_) return;
  const ZipEntries entries = read_zip_directory(file_);
  const auto entry = entries.find(std::string(name) + std::string(kSuffix));
  if (entry != entries.end()) verify_crc32(file_, entry->second);
}

void NumpyFile::read(const NumpyArray& array, std::uint64_t first, std::span<double> to) const {
  const std::uint64_t item = find_safetensors_dtype(array.stored_dtype)->bytes();
  const ConvertElements convert = find_conversion(array.stored_dtype, "F64");
  if (convert == nullptr) file_.fail("array", "floating-point numbers or integers", printable(array.descr));
  std::vector<std::byte> bytes(to.size() * item);
  file_.read(array.begin + first * item, bytes, "elements");
  convert(bytes.data(), std::as_writable_bytes(to).data(), to.size());
}

void NumpyFile::read(const NumpyArray& array, std::uint64_t first, std::span<std::uint8_t> to) const {
  if (array.stored_dtype != "U8") file_.fail("array", "bytes, '|u1'", printable(array.descr));
  file_.read(array.begin + first, std::as_writable_bytes(to), "elements");
}

}  // namespace moh

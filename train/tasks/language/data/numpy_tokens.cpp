#include "train/tasks/language/data/numpy_tokens.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "train/formats/stored_dtype.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxHeaderBytes = 1 << 16;

constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
    {"|u1", "U8"},  {"|i1", "I8"},  {"<u2", "U16"}, {"<i2", "I16"},
    {"<u4", "U32"}, {"<i4", "I32"}, {"<u8", "U64"}, {"<i8", "I64"}};

/// The header: a dictionary as Python writes it, {'descr': '<u2', 'fortran_order': False, 'shape': (3,), }.
class Header {
 public:
  Header(const InputFile& file, std::string text) : file_(file), text_(std::move(text)) {}

  std::string_view stored_dtype() const {
    const std::string_view value = value_of("descr");
    for (const auto& [descr, dtype] : kTypes) {
      if (value.starts_with('\'' + std::string(descr) + '\'')) return dtype;
    }
    fail("descr", "integers in little-endian order, such as '<u2'", value);
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
    if (sizes.empty() || sizes.size() > 2) fail("shape", "one dimension, or two", shown);
    if (sizes.size() == 2 && !value_of("fortran_order").starts_with("False"))
      fail("fortran_order", "False: rows one after the other", "another order");
    return sizes;
  }

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

}  // namespace

bool looks_like_numpy(std::string_view first_bytes) {
  return first_bytes.starts_with(kMagic);
}

NumpyTokens read_numpy_header(const InputFile& file) {
  const std::string first = file.first_bytes(12);
  if (!looks_like_numpy(first) || first.size() < 12) file.fail("", "a file of NumPy", "other contents");
  const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(first[i])}; };
  if (byte(6) < 1 || byte(6) > 3) file.fail("version", "1, 2 or 3", std::to_string(byte(6)));
  const std::uint64_t place = byte(6) == 1 ? 10 : 12;
  std::uint64_t size = byte(8) | byte(9) << 8;
  if (byte(6) > 1) size |= byte(10) << 16 | byte(11) << 24;
  if (size > kMaxHeaderBytes) file.fail("header", "at most 65536 bytes", std::to_string(size));
  std::string text(size, '\0');
  file.read(place, std::as_writable_bytes(std::span(text)), "header");

  const Header header(file, std::move(text));
  NumpyTokens tokens{.stored_dtype = header.stored_dtype(), .begin = place + size};
  const std::vector<std::int64_t> shape = header.shape();
  const std::int64_t width = shape.back();
  tokens.rows = shape.size() == 2 ? shape[0] : 1;
  const std::uint64_t bytes = file.size() - tokens.begin;
  const auto item = static_cast<std::uint64_t>(find_safetensors_dtype(tokens.stored_dtype)->bits) / 8;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 8;
  const bool counts = width == 0 || tokens.rows <= kMost / width;
  tokens.count = counts ? width * tokens.rows : 0;
  if (!counts || static_cast<std::uint64_t>(tokens.count) * item != bytes)
    file.fail("size", "the elements of its shape", std::to_string(bytes) + " bytes of elements");
  if (tokens.count == 0) file.fail("shape", "at least one id", "none");
  return tokens;
}

}  // namespace moh

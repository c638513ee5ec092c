#include "train/base/formats/tar_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::uint64_t kBlock = 512;
/// Long names and pax records are short texts; more would only be read to take memory.
constexpr std::uint64_t kMaxText = 1 << 16;

using TarHeader = std::array<char, kBlock>;

std::string_view field(const TarHeader& header, std::size_t begin, std::size_t size) {
  const std::string_view all(header.data() + begin, size);
  return all.substr(0, all.find('\0'));
}

/// An octal number, or one in base 256 where the first bit is set; nothing for anything else.
std::optional<std::uint64_t> number_field(const TarHeader& header, std::size_t begin, std::size_t size) {
  std::uint64_t value = 0;
  if ((static_cast<unsigned char>(header[begin]) & 0x80) != 0) {
    if (header[begin] != '\x80') return std::nullopt;  // negative, or beyond 64 bits
    for (std::size_t i = begin + 1; i < begin + size; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(header[i]);
    }
    return value;
  }
  std::string_view text(header.data() + begin, size);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find_first_of(std::string_view(" \0", 2)));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The sum of the header's bytes, with spaces in place of the sum itself.
bool has_its_checksum(const TarHeader& header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= 148 && i < 156;
    sum += own ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return number_field(header, 148, 8) == sum;
}

/// The name that a header has itself.
std::string short_name(const TarHeader& header) {
  const std::string_view prefix = field(header, 345, 155), own = field(header, 0, 100);
  const bool has_prefix = field(header, 257, 6) == "ustar" && !prefix.empty();
  return has_prefix ? std::string(prefix) + "/" + std::string(own) : std::string(own);
}

class TarReader {
 public:
  explicit TarReader(const InputFile& file) : file_(file) {}

  void read(FunctionRef<void(const TarMember&)> visit) {
    while (next_header()) {
      const char type = header_[156];
      const std::uint64_t size = stored_size();
      if (type == 'L') {
        long_name_ = text_of(size);
        long_name_.resize(std::min(long_name_.find('\0'), long_name_.size()));
      } else if (type == 'x') {
        read_pax(text_of(size));
      } else {
        if (type == 'S') fail("files without holes", "a sparse file");
        const std::uint64_t real = pax_size_.value_or(size);
        require_within(real);
        const bool regular = type == '0' || type == '\0' || type == '7';
        if (regular) visit({name(), offset_, real});
        // Folders and links have no data, whatever their size says.
        if (regular || type == 'g') skip(real);
        long_name_.clear();
        pax_size_.reset();
        continue;
      }
      skip(size);
    }
  }

 private:
  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    file_.fail("header at byte " + std::to_string(header_at_), expected, found);
  }

  /// Reads the next header; false at the end.
  bool next_header() {
    header_at_ = offset_;
    if (offset_ >= file_.size()) return false;
    if (file_.size() - offset_ < kBlock) fail("512 bytes", std::to_string(file_.size() - offset_));
    file_.read(offset_, std::as_writable_bytes(std::span(header_)), "header");
    offset_ += kBlock;
    if (std::ranges::all_of(header_, [](char c) { return c == 0; })) return false;
    if (!has_its_checksum(header_)) {
      const std::string_view start(header_.data(), 6);
      const bool compressed =
          header_at_ == 0 && (start.starts_with("\x1f\x8b") ||
                              start.starts_with("\xfd"
                                                "7zXZ") ||
                              start.starts_with("BZh") || start.starts_with("\x28\xb5\x2f\xfd"));
      if (compressed) file_.fail("", "an uncompressed tar archive", "a compressed file", "unpack it once");
      fail("one of a tar archive", "bytes without its checksum");
    }
    return true;
  }

  std::uint64_t stored_size() const {
    const auto size = number_field(header_, 124, 12);
    if (!size) fail("a size", "something else");
    return *size;
  }

  void require_within(std::uint64_t size) const {
    if (size <= file_.size() - offset_) return;
    fail("a member within the file's " + std::to_string(file_.size()) + " bytes",
         "one of " + std::to_string(size));
  }

  void skip(std::uint64_t size) {
    require_within(size);
    const std::uint64_t padded = size + (kBlock - size % kBlock) % kBlock;
    offset_ += std::min(padded, file_.size() - offset_);
  }

  std::string text_of(std::uint64_t size) const {
    require_within(size);
    if (size > kMaxText) fail("at most 65536 bytes of names", std::to_string(size));
    std::string text(size, '\0');
    file_.read(offset_, std::as_writable_bytes(std::span(text)), "names");
    return text;
  }

  /// Records "LENGTH KEY=VALUE\n".
  void read_pax(std::string_view text) {
    while (!text.empty()) {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<std::size_t>(end - text.data());
      if (error != std::errc() || length < digits + 2 || length > text.size() || text[digits] != ' ')
        fail("pax records", "something else");
      std::string_view record = text.substr(digits + 1, length - digits - 2);
      text.remove_prefix(length);
      if (record.starts_with("path=")) long_name_ = record.substr(5);
      if (record.starts_with("GNU.sparse")) fail("files without holes", "a sparse file");
      if (record.starts_with("size=")) {
        record.remove_prefix(5);
        std::uint64_t size = 0;
        const auto parsed = std::from_chars(record.data(), record.data() + record.size(), size);
        if (parsed.ec != std::errc() || parsed.ptr != record.data() + record.size())
          fail("a size", printable(record));
        pax_size_ = size;
      }
    }
  }

  std::string name() const { return long_name_.empty() ? short_name(header_) : long_name_; }

  const InputFile& file_;
  TarHeader header_{};
  std::uint64_t header_at_ = 0, offset_ = 0;
  std::string long_name_;
  std::optional<std::uint64_t> pax_size_;
};

}  // namespace

void read_tar(const InputFile& file, FunctionRef<void(const TarMember&)> visit) {
  TarReader(file).read(visit);
}

std::string tar_name_before(const InputFile& file, std::uint64_t offset) {
  if (offset < kBlock || offset > file.size()) return "";
  TarHeader header{};
  file.read(offset - kBlock, std::as_writable_bytes(std::span(header)), "header");
  return has_its_checksum(header) ? short_name(header) : "";
}

}  // namespace moh

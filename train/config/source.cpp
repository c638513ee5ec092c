#include "train/config/source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace moh::config {

namespace {

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

}  // namespace

std::string Mark::text() const {
  if (!source->is_file || offset == kWhole) return source->name;
  const std::string_view before = std::string_view(source->text).substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
  const auto column = 1 + std::count_if(before.begin() + static_cast<std::ptrdiff_t>(line_start),
                                        before.end(), starts_character);
  return source->name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string read_source_file(const std::string& path) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  if (kind == std::filesystem::file_type::directory) throw ConfigError("expected a file, found a folder");
  // Opening it would wait for somebody to write to it.
  if (kind == std::filesystem::file_type::fifo) throw ConfigError("expected a file, found a FIFO");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ConfigError(std::string("expected a readable file, found: ") + std::strerror(errno));

  // One byte more than allowed is enough to know, and an endless device cannot fill the memory.
  std::string text(kMaxSourceBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw ConfigError(std::string("expected a readable file, found: ") + std::strerror(errno));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxSourceBytes) {
    throw ConfigError("expected a config of at most " + std::to_string(kMaxSourceBytes / 1024) +
                      " KiB, found a larger file");
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

}  // namespace moh::config

#pragma once

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace moh::test {

/// An input of a fuzz target.
struct CorpusFile {
  std::string name;
  std::string bytes;
};

/// The inputs of an archive tests/fuzz/corpus/NAME.tar in its order: ustar with plain files alone, as
/// scripts/fuzz.sh writes it. It shares no code with the tar reader of moh, which is a fuzz target itself.
class CorpusArchive {
 public:
  /// Throws std::runtime_error, with the path, for an archive that is missing, damaged, cut or without files.
  static std::vector<CorpusFile> read(const std::filesystem::path& path) {
    CorpusArchive archive(path);
    std::vector<CorpusFile> files;
    while (!archive.at_end()) files.push_back(archive.next());
    archive.require(!files.empty(), "has no files");
    return files;
  }

 private:
  static constexpr std::size_t kBlock = 512;

  explicit CorpusArchive(const std::filesystem::path& path) : path_(path.string()), bytes_(read_file(path)) {}

  /// Whether the two blocks of zeros that end an archive follow. Without them it was cut.
  bool at_end() const {
    require(at_ + 2 * kBlock <= bytes_.size(), "is cut: no end of the archive");
    return bytes_.find_first_not_of('\0', at_) >= at_ + 2 * kBlock;
  }

  CorpusFile next() {
    const std::string_view header = std::string_view(bytes_).substr(at_, kBlock);
    require(header.substr(257, 8) == std::string_view("ustar\00000", 8), "is damaged: a header is not ustar");
    require(sum(header) == octal(header.substr(148, 6)), "is damaged: the checksum of a header differs");
    require(header[156] == '0' && header[345] == '\0', "has what is no plain file, or a long name");
    const std::string name(header.substr(0, header.substr(0, 100).find('\0')));
    const std::size_t size = octal(header.substr(124, 11)), start = at_ + kBlock;
    require(size <= bytes_.size() - start, "is cut: " + name + " is not complete");
    at_ = start + (size + kBlock - 1) / kBlock * kBlock;
    return {name, bytes_.substr(start, size)};
  }

  /// The sum of a header's bytes, with spaces in place of the eight of the checksum itself.
  static std::size_t sum(std::string_view header) {
    std::size_t total = std::size_t{8} * ' ';
    for (std::size_t i = 0; i < header.size(); ++i)
      if (i < 148 || i >= 156) total += static_cast<unsigned char>(header[i]);
    return total;
  }

  std::size_t octal(std::string_view digits) const {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
    require(error == std::errc() && end == digits.data() + digits.size(),
            "is damaged: a number is not octal");
    return value;
  }

  void require(bool holds, const std::string& problem) const {
    if (!holds) throw std::runtime_error(path_ + " " + problem);
  }

  std::string path_;
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace moh::test

#include "train/families/translation/data/message_catalog.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "train/base/formats/records.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/families/translation/data/accelerator.h"
#include "train/families/translation/data/charset.h"

namespace moh {

namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
constexpr std::uint32_t kMagic = 0x950412de, kSwappedMagic = 0xde120495;
constexpr std::uint64_t kHeaderBytes = 28, kEntryBytes = 8;

/// The strings of a catalog, after their tables have been checked.
class CatalogFile {
 public:
  explicit CatalogFile(const std::filesystem::path& path) : file_(path, InputKind::kData) {
    if (file_.size() > kMaxBytes)
      file_.fail("size", "at most " + std::to_string(kMaxBytes) + " bytes", std::to_string(file_.size()));
    if (file_.size() < kHeaderBytes)
      file_.fail("", "a message catalog", std::to_string(file_.size()) + " bytes");
    bytes_.resize(file_.size());
    file_.read(0, bytes_, "contents");
    read_header();
    check_table("messages", ids_);
    check_table("translations", translations_);
  }

  std::uint32_t size() const { return size_; }
  std::string_view id(std::uint32_t i) const { return string_at(ids_, i); }
  std::string_view translation(std::uint32_t i) const { return string_at(translations_, i); }

  /// The character set of the header entry; UTF-8 for a catalog without one or with the template's word for
  /// it. ASCII, the default of gettext, is a part of that.
  std::string_view charset() const {
    constexpr std::string_view kKey = "charset=";
    for (std::uint32_t i = 0; i < size_; ++i) {
      if (!id(i).empty()) continue;
      const std::string_view header = translation(i);
      const std::size_t key = header.find(kKey);
      if (key == std::string_view::npos) break;
      const std::string_view rest = header.substr(key + kKey.size());
      const std::string_view name = rest.substr(0, rest.find_first_of(" \t\r\n;"));
      if (name != "CHARSET") return name;
    }
    return "UTF-8";
  }

  const InputFile& file() const { return file_; }

 private:
  std::uint32_t number_at(std::uint64_t offset) const {
    const auto number = record_at<std::uint32_t>(bytes_, offset);
    return swapped_ ? __builtin_bswap32(number) : number;
  }

  void read_header() {
    const auto magic = record_at<std::uint32_t>(bytes_);
    swapped_ = magic == kSwappedMagic;
    if (magic != kMagic && !swapped_) file_.fail("", "a message catalog (.mo)", "other first bytes");
    const std::uint32_t major = number_at(4) >> 16;
    if (major > 1) file_.fail("major revision", "0 or 1", std::to_string(major));
    size_ = number_at(8);
    ids_ = number_at(12);
    translations_ = number_at(16);
  }

  /// Strings lie in the file, with the NUL that ends them, and are together no longer than it: memory for
  /// what is made of them is bounded by its size.
  void check_table(std::string_view what, std::uint32_t table) const {
    if (table > bytes_.size() || size_ > (bytes_.size() - table) / kEntryBytes)
      file_.fail(what, std::to_string(size_) + " entries inside the file", "a table that ends outside of it");
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < size_; ++i) {
      const std::uint64_t length = number_at(entry(table, i)), offset = number_at(entry(table, i) + 4);
      sum += length + 1;
      if (offset + length >= bytes_.size() || bytes_[offset + length] != std::byte{0})
        file_.fail(std::string(what) + ": entry " + std::to_string(i),
                   "a string inside the file that ends with a NUL", "another place");
    }
    if (sum > bytes_.size()) file_.fail(what, "strings that do not overlap", "overlapping strings");
  }

  static std::uint64_t entry(std::uint32_t table, std::uint32_t i) { return table + kEntryBytes * i; }

  std::string_view string_at(std::uint32_t table, std::uint32_t i) const {
    const std::uint64_t length = number_at(entry(table, i)), offset = number_at(entry(table, i) + 4);
    return {reinterpret_cast<const char*>(bytes_.data()) + offset, length};
  }

  InputFile file_;
  std::vector<std::byte> bytes_;
  bool swapped_ = false;
  std::uint32_t size_ = 0, ids_ = 0, translations_ = 0;
};

std::vector<std::string_view> split_at_nul(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string_view without_context(std::string_view id) {
  return id.substr(id.find('\4') + 1);  // npos + 1 is 0
}

/// A message whose translation is a list of names: those of GTK and of KDE.
bool asks_for_credits(std::string_view id) {
  constexpr std::string_view kIds[] = {"translator-credits",   "translator_credits", "NAME OF TRANSLATORS",
                                       "EMAIL OF TRANSLATORS", "Your names",         "Your emails"};
  return std::ranges::find(kIds, id) != std::end(kIds);
}

/// The texts of a message that translate each other, as they lie in the file.
std::vector<std::pair<std::string_view, std::string_view>> paired_forms(std::string_view id,
                                                                        std::string_view translation,
                                                                        DroppedPairs& dropped) {
  const std::vector<std::string_view> ids = split_at_nul(id), forms = split_at_nul(translation);
  if (ids.size() < 2) return {{ids.front(), forms.front()}};
  if (forms.size() == 2) return {{ids[0], forms[0]}, {ids[1], forms[1]}};
  dropped.add("plural form", std::max<std::int64_t>(1, std::ssize(forms) - 1));
  return {{ids[1], forms.back()}};
}

}  // namespace

std::vector<TextPair> read_message_catalog(const std::filesystem::path& path, DroppedPairs& dropped) {
  const CatalogFile catalog(path);
  const CharsetDecoder decoder(catalog.charset());
  if (!decoder.is_known())
    catalog.file().fail("charset", "a known character set", printable(catalog.charset()));
  std::vector<TextPair> pairs;
  for (std::uint32_t i = 0; i < catalog.size(); ++i) {
    const std::string_view id = without_context(catalog.id(i));
    if (catalog.id(i).empty()) continue;
    if (asks_for_credits(id)) {
      dropped.add("credits");
      continue;
    }
    for (const auto& [source, target] : paired_forms(id, catalog.translation(i), dropped)) {
      std::optional<std::string> from = decoder.decode(source), to = decoder.decode(target);
      if (!from || !to) {
        dropped.add("invalid text");
        continue;
      }
      remove_accelerator(pairs.emplace_back(TextPair{*std::move(from), *std::move(to)}));
    }
  }
  return pairs;
}

}  // namespace moh

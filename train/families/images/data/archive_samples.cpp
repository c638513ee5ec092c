#include "train/families/images/data/archive_samples.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/error.h"
#include "train/base/formats/tar_file.h"
#include "train/base/io/printable.h"
#include "train/config/fields.h"
#include "train/families/images/data/picture_names.h"

namespace moh {

namespace {

constexpr std::uint64_t kMaxLabelBytes = 32;
/// More classes than any model can have.
constexpr auto kMostClasses = static_cast<std::int64_t>(config::kMaxVocab);

constexpr std::string_view kLabel = "cls";

/// A member's name by WebDataset's rule.
struct Parts {
  std::string_view key;   ///< up to the first dot of the last part, with the folders
  std::string extension;  ///< what follows it, in lower case
};

Parts parts_of(std::string_view name) {
  const std::size_t part = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
  const std::size_t dot = name.find('.', part);
  if (dot == std::string_view::npos) return {name, ""};
  return {name.substr(0, dot), lower_case(name.substr(dot + 1))};
}

/// The last folder of a path; empty for a file in none.
std::string_view folder_of(std::string_view name) {
  const std::size_t end = name.rfind('/');
  if (end == std::string_view::npos || end == 0) return "";
  const std::string_view folders = name.substr(0, end);
  const std::size_t begin = folders.rfind('/');
  const std::string_view last = begin == std::string_view::npos ? folders : folders.substr(begin + 1);
  return last == "." || last == ".." ? "" : last;
}

/// The members of one key so far.
struct OpenKey {
  const TarMember *picture = nullptr, *label = nullptr, *other = nullptr;
  std::size_t place = 0;  ///< of the picture in the index
  std::string others;     ///< names of fields that end as pictures do, the first of which is `other`

  bool complete() const { return picture != nullptr && label != nullptr; }
};
using OpenKeys = std::unordered_map<std::string_view, OpenKey>;

class ArchiveSamples {
 public:
  explicit ArchiveSamples(const InputFile& archive) : archive_(archive) {}

  void add(const TarMember& member);
  ShardIndex index() const;

 private:
  ShardIndex by_key() const;
  ShardIndex by_folder() const;
  void require_complete(const OpenKeys& keys) const;
  std::int64_t read_label(const TarMember& member) const;

  [[noreturn]] void fail(const TarMember& member, const std::string& expected, const std::string& found,
                         const std::string& fix = "") const {
    archive_.fail("member " + printable(member.name), expected, found, fix);
  }
  [[noreturn]] void refuse_without_labels() const {
    archive_.fail("pictures", "labels: members NAME.cls, or folders named as classes", "neither", advice_);
  }

  const InputFile& archive_;
  std::vector<TarMember> members_;  ///< pictures by their last extension, and labels
  bool has_labels_ = false;         ///< KEY.cls
  bool has_dotted_labels_ = false;  ///< KEY.x.cls
  std::string advice_;              ///< about a member that looks like a label and is none
};

void ArchiveSamples::add(const TarMember& member) {
  if (is_hidden_path(member.name)) return;
  const Parts parts = parts_of(member.name);
  const bool label = parts.extension == kLabel;
  has_labels_ = has_labels_ || label;
  if (label || is_picture_name(member.name)) {
    members_.push_back(member);
  } else if (!has_dotted_labels_ && parts.extension.ends_with(".cls")) {
    has_dotted_labels_ = true;
    advice_ = printable(member.name) + " is not a label: a key ends at the first dot of the name, here " +
              printable(parts.key) + ", and " + printable(parts.extension) +
              " is its extension; replace the other dots";
  } else if (advice_.empty() && (parts.extension == "json" || parts.extension == "txt")) {
    advice_ = "labels are not read from files such as " + printable(member.name) +
              ": write the number of the class to " + printable(parts.key) + ".cls";
  }
}

ShardIndex ArchiveSamples::index() const {
  const auto picture =
      std::ranges::find_if(members_, [](const TarMember& member) { return is_picture_name(member.name); });
  if (picture == members_.end()) archive_.fail("members", "pictures: .jpg, .jpeg or .png", "none");
  return has_labels_ ? by_key() : by_folder();
}

ShardIndex ArchiveSamples::by_key() const {
  ShardIndex index;
  OpenKeys keys;
  std::string_view last;
  for (const TarMember& member : members_) {
    const Parts parts = parts_of(member.name);
    OpenKey& key = keys[parts.key];
    if (parts.key != last && key.complete()) key = {};
    last = parts.key;
    if (parts.extension == kLabel) {
      if (key.label != nullptr)
        fail(member, "one label for each key", "a second for " + printable(parts.key));
      key.label = &member;
    } else if (is_picture_extension(parts.extension)) {
      if (key.picture != nullptr)
        fail(member, "one picture for each key",
             "a second for " + printable(parts.key) + ", after " + printable(key.picture->name));
      key.picture = &member;
      key.place = index.offsets.size();
      index.offsets.push_back(static_cast<std::int64_t>(member.offset));
      index.sizes.push_back(static_cast<std::int64_t>(member.size));
      index.labels.push_back(-1);
    } else {
      key.others += (key.others.empty() ? "" : ", ") + printable(member.name);
      if (key.other == nullptr) key.other = &member;
      continue;
    }
    if (key.complete()) index.labels[key.place] = read_label(*key.label);
  }
  require_complete(keys);
  return index;
}

void ArchiveSamples::require_complete(const OpenKeys& keys) const {
  for (const TarMember& member : members_) {
    const Parts parts = parts_of(member.name);
    const OpenKey& key = keys.at(parts.key);
    if (key.complete()) continue;
    const std::string name = printable(parts.key);
    std::string expected = "a picture of the key " + name;
    expected.append(": ").append(name).append(".jpg, .jpeg or .png");
    if (key.picture != nullptr)
      archive_.fail("picture " + name, "a label beside it, " + name + ".cls",
                    "none for " + printable(key.picture->name), advice_);
    if (key.other != nullptr)
      fail(*key.other, expected, key.others + " alone",
           "a key ends at the first dot of the name, and has one picture");
    fail(*key.label, expected, "none");
  }
}

ShardIndex ArchiveSamples::by_folder() const {
  ShardIndex index;
  std::unordered_set<std::string_view> names;
  for (const TarMember& member : members_) {
    const std::string_view folder = folder_of(member.name);
    if (folder.empty() || has_dotted_labels_) refuse_without_labels();
    if (printable(folder, folder.size()) != folder)
      fail(member, "a folder named in UTF-8 without control characters, as its class", printable(folder));
    if (!names.insert(member.name).second) fail(member, "each name once", "it twice");
    index.class_names.emplace_back(folder);
  }
  std::ranges::sort(index.class_names);
  index.class_names.erase(std::unique(index.class_names.begin(), index.class_names.end()),
                          index.class_names.end());
  for (const TarMember& member : members_) {
    index.offsets.push_back(static_cast<std::int64_t>(member.offset));
    index.sizes.push_back(static_cast<std::int64_t>(member.size));
    index.labels.push_back(std::ranges::lower_bound(index.class_names, folder_of(member.name)) -
                           index.class_names.begin());
  }
  return index;
}

std::int64_t ArchiveSamples::read_label(const TarMember& member) const {
  std::string text(std::min(member.size, kMaxLabelBytes + 1), '\0');
  archive_.read(member.offset, std::as_writable_bytes(std::span(text)), "label");
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  std::string_view digits = text;
  digits.remove_prefix(std::min(digits.find_first_not_of(kSpace), digits.size()));
  digits = digits.substr(0, digits.find_last_not_of(kSpace) + 1);
  std::int64_t label = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
  const bool number = error != std::errc::invalid_argument && end == digits.data() + digits.size() &&
                      member.size <= kMaxLabelBytes && !digits.starts_with('-');
  if (!number) fail(member, "the number of a class", printable(digits));
  if (error == std::errc::result_out_of_range || label >= kMostClasses)
    fail(member, "the number of a class, less than " + std::to_string(kMostClasses), printable(digits));
  return label;
}

}  // namespace

ShardIndex archive_samples(const InputFile& archive) {
  ArchiveSamples samples(archive);
  read_tar(archive, [&](const TarMember& member) { samples.add(member); });
  return samples.index();
}

}  // namespace moh

#include <algorithm>
#include <array>
#include <utility>

#include "train/formats/torch/little_endian.h"
#include "train/formats/torch/torch_container.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::int64_t kVersion = 1001;
constexpr std::string_view kDamaged = "the file is truncated or damaged; fetch it again";

/// Reads the file from its beginning to its end.
class OldTorchReader {
 public:
  explicit OldTorchReader(const InputFile& file) : file_(file) {}

  TorchContents read() {
    check_magic(next("magic number"));
    check_version(next("format version"));
    check_byte_order(next("system information"));
    PickleTree object = next("object");
    const PickleTree keys = next("storage keys");
    TorchContents contents{std::move(object), {}};
    find_element_sizes(contents.tree);
    read_storages(keys, contents.storages);
    return contents;
  }

 private:
  PickleTree next(const std::string& what) {
    PickleTree tree = read_pickle(PickleText(file_, at_, file_.size(), what));
    at_ += tree.taken();
    return tree;
  }

  void check_magic(const PickleTree& tree) const {
    if (!tree.is(tree.root(), PickleKind::kBigInt) || tree.bytes(tree.root()) != kMagic) {
      file_.fail("magic number", "that of PyTorch", "another", "this is not a PyTorch file");
    }
  }

  void check_version(const PickleTree& tree) const {
    if (!tree.is(tree.root(), PickleKind::kInt) || tree.integer(tree.root()) != kVersion) {
      file_.fail("format version", std::to_string(kVersion), "another", "this is not a PyTorch file");
    }
  }

  void check_byte_order(const PickleTree& tree) const {
    const PickleNode& info = tree.node(tree.root());
    for (std::size_t i = 0; info.kind == PickleKind::kDict && i < info.items.size(); i += 2) {
      if (!tree.is_text(info.items[i], "little_endian")) continue;
      const PickleId value = info.items[i + 1];
      if (tree.is(value, PickleKind::kBool) && tree.integer(value) == 1) return;
    }
    file_.fail("system information", "little_endian: True", "something else",
               "save the file on another machine");
  }

  /// The stream counts elements; only the object says how large they are.
  void find_element_sizes(const PickleTree& tree) {
    for (PickleId id = 0; id < tree.size(); ++id) {
      const auto storage = read_storage_id(file_, tree, id);
      if (!storage) continue;
      const auto [found, is_new] = element_bytes_.emplace(storage->key, storage->element_bytes());
      if (!is_new && found->second != storage->element_bytes()) {
        file_.fail("storage " + printable(storage->key), "one class of storage", "two", kDamaged);
      }
    }
  }

  void read_storages(const PickleTree& keys, TorchStorages& storages) {
    const PickleNode& list = keys.node(keys.root());
    if (list.kind != PickleKind::kList) file_.fail("storage keys", "a list", "something else", kDamaged);
    for (const PickleId id : list.items) {
      if (!keys.is(id, PickleKind::kText)) file_.fail("storage keys", "texts", "something else", kDamaged);
      const std::string key(keys.bytes(id));
      const TorchStorage storage = next_storage(key);
      if (!storages.emplace(key, storage).second) {
        file_.fail("storage " + printable(key), "this key once", "it twice", kDamaged);
      }
    }
    if (at_ != file_.size()) {
      file_.fail("file", "its end at byte " + std::to_string(at_), std::to_string(file_.size()) + " bytes",
                 "something was appended, or the file is damaged");
    }
  }

  TorchStorage next_storage(const std::string& key) {
    const auto size = element_bytes_.find(key);
    if (size == element_bytes_.end()) {
      file_.fail("storage " + printable(key), "a tensor that uses it", "none", kDamaged);
    }
    std::array<std::byte, 8> count;
    file_.read(at_, count, "storage " + printable(key));
    at_ += count.size();
    const auto numel = little_endian<std::uint64_t>(count, 0);
    const std::uint64_t left = file_.size() - at_;
    if (numel > left / size->second) {
      file_.fail("storage " + printable(key), "at most the " + std::to_string(left) + " bytes that are left",
                 std::to_string(numel) + " elements", kDamaged);
    }
    const TorchStorage storage{at_, numel * size->second, std::nullopt};
    at_ += storage.bytes;
    return storage;
  }

  const InputFile& file_;
  std::uint64_t at_ = 0;
  std::map<std::string_view, std::uint64_t, std::less<>> element_bytes_;  // by storage key
};

}  // namespace

bool has_old_torch_magic(const InputFile& file) {
  // PROTO and, from protocol 4 on, FRAME with 8 bytes; then LONG1 with the magic number.
  std::array<char, 24> begin{};
  const std::size_t size = std::min<std::uint64_t>(file.size(), begin.size());
  file.read(0, std::as_writable_bytes(std::span(begin).first(size)), "magic number");
  std::string_view text(begin.data(), size);
  if (text.size() < 2 || text[0] != '\x80') return false;
  text.remove_prefix(2);
  if (text.starts_with('\x95')) text.remove_prefix(std::min<std::size_t>(9, text.size()));
  return text.starts_with("\x8a\x0a") && text.substr(2).starts_with(kMagic);
}

bool has_tar_magic(const InputFile& file) {
  constexpr std::uint64_t kPlace = 257;
  std::array<char, 5> magic{};
  if (file.size() < kPlace + magic.size()) return false;
  file.read(kPlace, std::as_writable_bytes(std::span(magic)), "magic number");
  return std::string_view(magic.data(), magic.size()) == "ustar";
}

TorchContents read_old_torch(const InputFile& file) {
  return OldTorchReader(file).read();
}

}  // namespace moh

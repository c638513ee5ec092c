#include "train/base/formats/torch/torch_container.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "train/base/formats/records.h"
#include "train/base/formats/torch/zip_archive.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kDamaged = "the file is truncated or damaged; fetch it again";
constexpr std::string_view kNotTorch = "this is not a PyTorch file";
constexpr std::string_view kOtherMachine = "save the file on another machine";

enum class Container { kNone, kZip, kStream, kTar };

constexpr std::string_view kStreamMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);

/// Whether the first pickle does: PROTO and, from protocol 4 on, FRAME with 8 bytes; LONG1; the magic number.
bool begins_stream(std::string_view text) {
  if (text.size() < 2 || text[0] != '\x80') return false;
  text.remove_prefix(2);
  if (text.starts_with('\x95')) text.remove_prefix(std::min<std::size_t>(9, text.size()));
  return text.starts_with("\x8a\x0a") && text.substr(2).starts_with(kStreamMagic);
}

Container container_of(const InputFile& file) {
  constexpr std::size_t kTarBytes = 262;
  const std::string begin = file.first_bytes(kTarBytes);
  // The ninth byte distinguishes it from a safetensors file whose header length equals the magic number.
  const bool is_long = begin.size() >= 9;
  constexpr std::string_view kOfSafetensors = "{ \t\r\n";
  const bool may_be_zip = is_long && kOfSafetensors.find(begin[8]) == std::string_view::npos;
  if (is_long && ((begin.starts_with("PK\3\4") && may_be_zip) || begin.starts_with("PK\5\6")))
    return Container::kZip;
  if (begins_stream(begin)) return Container::kStream;
  return begin.size() == kTarBytes && begin.ends_with("ustar") ? Container::kTar : Container::kNone;
}

/// The entry with the object, NAME/data.pkl, where NAME, that of the archive, is arbitrary.
const ZipEntry& find_pickle(const InputFile& file, const ZipEntries& entries, std::string_view file_name) {
  const ZipEntry* found = nullptr;
  for (const auto& [name, entry] : entries) {
    if (!name.ends_with(file_name)) continue;
    if (found != nullptr) {
      file.fail("zip archive", "one data.pkl", printable(found->name) + " and " + printable(name));
    }
    found = &entry;
  }
  if (found == nullptr) {
    file.fail("zip archive", "data.pkl in a folder, as torch.save writes", "none", kNotTorch);
  }
  return *found;
}

void check_byte_order(const InputFile& file, const ZipEntry& entry) {
  constexpr std::string_view kLittle = "little";
  std::string order(std::min<std::uint64_t>(entry.bytes, kLittle.size() + 1), '\0');
  file.read(entry.begin, std::as_writable_bytes(std::span(order)), "byteorder");
  if (order != kLittle) file.fail("byteorder", "little", printable(order), kOtherMachine);
}

TorchContents read_zip(const InputFile& file) {
  constexpr std::string_view kPickle = "/data.pkl";
  const ZipEntries entries = read_zip_directory(file);
  const ZipEntry& pickle = find_pickle(file, entries, kPickle);
  const std::string folder = pickle.name.substr(0, pickle.name.size() - kPickle.size() + 1);
  if (entries.contains(folder + "constants.pkl")) {
    file.fail("zip archive", "a file of torch.save", "a program of TorchScript (torch.jit.save)",
              "in Python, torch.save(torch.jit.load(FILE).state_dict(), OTHER_FILE)");
  }
  require_stored(file, entries);
  const auto byte_order = entries.find(folder + "byteorder");
  if (byte_order != entries.end()) check_byte_order(file, byte_order->second);  // since PyTorch 2.1
  verify_crc32(file, pickle);

  TorchContents contents{read_pickle(PickleText(file, pickle.begin, pickle.end(), "data.pkl")), {}};
  if (contents.tree.taken() != pickle.bytes) {
    file.fail("data.pkl", std::to_string(contents.tree.taken()) + " bytes, where its object ends",
              std::to_string(pickle.bytes), "the file is damaged");
  }
  const std::string storages = folder + "data/";
  for (const auto& [name, entry] : entries) {
    if (name.starts_with(storages))
      contents.storages[name.substr(storages.size())] = {entry.begin, entry.bytes, entry};
  }
  return contents;
}

/// Reads the format before PyTorch 1.6 sequentially.
class StreamReader {
 public:
  explicit StreamReader(const InputFile& file) : file_(file) {}

  TorchContents read() {
    const PickleTree magic = next("magic number");
    if (!magic.is(magic.root(), PickleKind::kBigInt) || magic.bytes(magic.root()) != kStreamMagic) {
      file_.fail("magic number", "that of PyTorch", "another", kNotTorch);
    }
    constexpr std::int64_t kVersion = 1001;
    const PickleTree version = next("format version");
    if (!version.is(version.root(), PickleKind::kInt) || version.integer(version.root()) != kVersion) {
      file_.fail("format version", std::to_string(kVersion), "another", kNotTorch);
    }
    check_byte_order(next("system information"));
    TorchContents contents{next("object"), {}, true};
    const PickleTree keys = next("storage keys");
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

  void check_byte_order(const PickleTree& tree) const {
    const PickleNode& info = tree.node(tree.root());
    for (std::size_t i = 0; info.kind == PickleKind::kDict && i < info.items.size(); i += 2) {
      if (!tree.is_text(info.items[i], "little_endian")) continue;
      const PickleId value = info.items[i + 1];
      if (tree.is(value, PickleKind::kBool) && tree.integer(value) == 1) return;
    }
    file_.fail("system information", "little_endian: True", "something else", kOtherMachine);
  }

  /// The stream has numbers of elements; their sizes follow from the object.
  void find_element_sizes(const PickleTree& tree) {
    for (PickleId id = 0; id < tree.size(); ++id) {
      const auto storage = read_storage_id(file_, tree, id);
      if (!storage) continue;
      const auto [found, is_new] = element_bytes_.emplace(storage->key, storage->element_bytes());
      if (found->second != storage->element_bytes()) fail(storage->key, "one class of storage", "two");
    }
  }

  void read_storages(const PickleTree& keys, TorchStorages& storages) {
    const PickleNode& list = keys.node(keys.root());
    if (list.kind != PickleKind::kList) file_.fail("storage keys", "a list", "something else", kDamaged);
    for (const PickleId id : list.items) {
      if (!keys.is(id, PickleKind::kText)) file_.fail("storage keys", "texts", "something else", kDamaged);
      const std::string key(keys.bytes(id));
      if (!storages.emplace(key, next_storage(key)).second) fail(key, "this key once", "it twice");
    }
    if (at_ != file_.size()) {
      file_.fail("file", "its end at byte " + std::to_string(at_), std::to_string(file_.size()) + " bytes",
                 "something was appended, or the file is damaged");
    }
  }

  TorchStorage next_storage(const std::string& key) {
    const auto size = element_bytes_.find(key);
    if (size == element_bytes_.end()) fail(key, "a tensor that uses it", "none");
    const auto numel = read_record<std::uint64_t>(file_, at_, "storage " + printable(key));
    at_ += sizeof(numel);
    const std::uint64_t left = file_.size() - at_;
    if (numel > left / size->second) {
      fail(key, "at most the " + std::to_string(left) + " bytes that are left",
           std::to_string(numel) + " elements");
    }
    TorchStorage storage{at_, numel * size->second, std::nullopt};
    at_ += storage.bytes;
    return storage;
  }

  [[noreturn]] void fail(std::string_view key, std::string_view expected, std::string_view found) const {
    file_.fail("storage " + printable(key), expected, found, kDamaged);
  }

  const InputFile& file_;
  std::uint64_t at_ = 0;
  std::map<std::string_view, std::uint64_t> element_bytes_;  // by storage key
};

}  // namespace

bool has_torch_magic(const InputFile& file) {
  return container_of(file) != Container::kNone;
}

TorchContents read_torch_contents(const InputFile& file) {
  switch (container_of(file)) {
    case Container::kZip:
      return read_zip(file);
    case Container::kStream:
      return StreamReader(file).read();
    case Container::kTar:
      file.fail("format", "that of PyTorch 0.1.10 or later", "a tar archive, as older versions wrote",
                "load it with PyTorch and save it again");
    default:
      file.fail("format", "a file of torch.save", "something else");
  }
}

}  // namespace moh

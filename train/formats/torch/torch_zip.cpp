#include <algorithm>
#include <array>
#include <utility>

#include "train/formats/torch/torch_container.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kPickle = "/data.pkl";
constexpr std::string_view kSaveStateDict = "in Python, save the state_dict() of the model with torch.save";

/// The entry with the object; in front of its name is the name of the archive, which can be anything.
const ZipEntry& find_pickle(const InputFile& file, const ZipArchive& archive) {
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with(kPickle)) continue;
    if (found != nullptr) {
      file.fail("zip archive", "one data.pkl", printable(found->name) + " and " + printable(entry.name));
    }
    found = &entry;
  }
  if (found == nullptr) {
    file.fail("zip archive", "data.pkl in a folder, as torch.save writes", "none",
              "this is not a PyTorch file");
  }
  return *found;
}

void check_byte_order(const InputFile& file, const ZipArchive& archive, const std::string& prefix) {
  const ZipEntry* entry = archive.find(prefix + "byteorder");
  if (entry == nullptr) return;  // before PyTorch 2.1
  constexpr std::string_view kLittle = "little";
  std::string order(std::min<std::uint64_t>(entry->bytes, kLittle.size() + 1), '\0');
  file.read(entry->begin, std::as_writable_bytes(std::span(order)), "byteorder");
  if (order != kLittle)
    file.fail("byteorder", "little", printable(order), "save the file on another machine");
}

void refuse_torch_script(const InputFile& file, const ZipArchive& archive, const std::string& prefix) {
  if (archive.find(prefix + "constants.pkl") != nullptr) {
    file.fail("zip archive", "a file of torch.save", "a program of TorchScript (torch.jit.save)",
              kSaveStateDict);
  }
}

}  // namespace

bool has_zip_magic(const InputFile& file) {
  // The ninth byte tells it from a safetensors file whose header is as long as the magic number says.
  std::array<char, 9> magic{};
  if (file.size() < magic.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(magic)), "magic number");
  const std::string_view text(magic.data(), magic.size());
  return (text.starts_with("PK\3\4") && text[8] != '{') || text.starts_with("PK\5\6");
}

TorchContents read_torch_zip(const InputFile& file) {
  const ZipArchive archive(file);
  const ZipEntry& pickle = find_pickle(file, archive);
  const std::string prefix = pickle.name.substr(0, pickle.name.size() - kPickle.size() + 1);
  refuse_torch_script(file, archive, prefix);
  check_byte_order(file, archive, prefix);
  verify_crc32(file, pickle);

  PickleTree tree = read_pickle(PickleText(file, pickle.begin, pickle.end(), "data.pkl"));
  if (tree.taken() != pickle.bytes) {
    file.fail("data.pkl", std::to_string(tree.taken()) + " bytes, where its object ends",
              std::to_string(pickle.bytes), "the file is damaged");
  }
  TorchStorages storages;
  const std::string folder = prefix + "data/";
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.starts_with(folder)) continue;
    storages[entry.name.substr(folder.size())] = {entry.begin, entry.bytes, entry};
  }
  return {std::move(tree), std::move(storages)};
}

}  // namespace moh

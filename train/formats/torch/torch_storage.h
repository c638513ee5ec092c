#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "train/formats/stored_dtype.h"
#include "train/formats/torch/pickle.h"
#include "train/formats/torch/zip_archive.h"
#include "train/io/input_file.h"

namespace moh {

/// Elements of one type that lie together in the file; tensors are views of storages.
struct TorchStorage {
  std::uint64_t begin = 0;  ///< byte of the file
  std::uint64_t bytes = 0;
  std::optional<ZipEntry> entry;  ///< with its checksum; nothing in the old format, which has none
};

using TorchStorages = std::map<std::string, TorchStorage, std::less<>>;

/// What a pickle says of a storage: ("storage", class, key, device, number of elements), and in the old
/// format a part of it, (key, first element, number of elements), or None.
struct TorchStorageId {
  std::string_view key;
  const StoredDType* dtype = nullptr;  ///< nullptr for a storage of bytes
  std::uint64_t numel = 0;             ///< of the whole storage
  std::uint64_t view_begin = 0;        ///< first element and number of elements of the part that is meant
  std::uint64_t view_numel = 0;

  std::uint64_t element_bytes() const { return dtype == nullptr ? 1 : dtype->bytes(); }
};

/// Reads what the persistent value `id` says; nothing when it is none of a storage. Throws the file's kind of
/// error for one that contradicts itself or is of an unknown class.
std::optional<TorchStorageId> read_storage_id(const InputFile& file, const PickleTree& tree, PickleId id);

}  // namespace moh

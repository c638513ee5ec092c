#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/base/formats/stored_dtype.h"
#include "train/base/formats/torch/pickle.h"
#include "train/base/formats/torch/zip_archive.h"
#include "train/base/io/input_file.h"

namespace moh {

/// A storage: contiguous elements of one type in the file. Tensors are views of storages.
struct TorchStorage {
  std::uint64_t begin = 0;  ///< offset in the file, bytes
  std::uint64_t bytes = 0;
  std::optional<ZipEntry> entry;  ///< with its checksum; nothing in the old format, which has none
};

using TorchStorages = std::map<std::string, TorchStorage, std::less<>>;

/// A pickle's reference to a storage: ("storage", class, key, device, number of elements), and in the old
/// format a part of it, (key, first element, number of elements), or None.
struct TorchStorageId {
  std::string_view key;
  const StoredDType* dtype = nullptr;  ///< nullptr for a storage of bytes
  std::uint64_t numel = 0;             ///< of the whole storage
  std::uint64_t view_begin = 0;        ///< first element and number of elements of the referenced part
  std::uint64_t view_numel = 0;

  std::uint64_t element_bytes() const { return dtype == nullptr ? 1 : dtype->bytes(); }
};

/// Reads the persistent value `id`; nothing if it does not refer to a storage. Throws the file's kind of
/// error for one that is inconsistent or of an unknown class.
std::optional<TorchStorageId> read_storage_id(const InputFile& file, const PickleTree& tree, PickleId id);

/// A tensor as a PyTorch file describes it: a view of a storage. All its elements lie within the storage.
struct TorchTensor {
  const StoredDType* dtype = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements, 0 or more
  std::int64_t storage_offset = 0;    ///< in elements
  std::string_view storage_key;
  const TorchStorage* storage = nullptr;
  std::uint64_t begin = 0;        ///< offset of its first element in the file, bytes
  std::uint64_t reach_bytes = 0;  ///< bytes in the file from the first to the last element

  std::uint64_t numel() const;
  /// Size of its elements, packed.
  std::uint64_t bytes() const { return numel() * dtype->bytes(); }
  /// Whether its elements are packed in row-major order.
  bool is_contiguous() const;
};

/// Limit of the size of a tensor that is larger than its storage (expanded tensors repeat elements), so that
/// a small file cannot require unlimited memory or disk space. All tensors of a file together may have this
/// size plus kMostUses times that of the file, as several tensors may share a storage.
inline constexpr std::uint64_t kMaxRepeatedBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kMostUses = 4;

/// The tensor of the value `id`; nothing if it is another object. Throws the file's kind of error for a
/// tensor whose storage is missing or too small. `where` names it in messages.
std::optional<TorchTensor> read_tensor(const InputFile& file, const PickleTree& tree,
                                       const TorchStorages& storages, PickleId id, const std::string& where);

/// Gathers elements of a storage in the order of a tensor. Caches the last part of the file that it read, so
/// that a transposed tensor is read once, and not once per block.
class TensorGather {
 public:
  /// Fills `to` with the packed bytes of the tensor from byte `offset` on.
  void read(const InputFile& file, const TorchTensor& tensor, std::uint64_t offset, std::span<std::byte> to);

 private:
  const std::byte* bytes_at(const InputFile& file, const TorchTensor& tensor, std::uint64_t at);

  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;  // offset in the file
};

}  // namespace moh

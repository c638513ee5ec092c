#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// A tensor as a PyTorch file describes it: a view of a storage. All its elements lie within the storage.
struct TorchTensor {
  const StoredDType* dtype = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements, 0 or more
  std::int64_t storage_offset = 0;    ///< in elements
  std::string_view storage_key;
  const TorchStorage* storage = nullptr;
  std::uint64_t begin = 0;        ///< byte of the file where its first element is
  std::uint64_t reach_bytes = 0;  ///< of the file, from the first to the last element

  std::uint64_t numel() const;
  /// Of its elements, packed.
  std::uint64_t bytes() const { return numel() * dtype->bytes(); }
  /// Whether its elements lie packed in row-major order.
  bool is_contiguous() const;
};

/// Bytes that a tensor may have when it has more than its storage (expanded tensors repeat elements), so that
/// a small file cannot ask for any amount of memory or disk. All tensors of a file together may have these
/// and kMostUses times the bytes of the file, as several share a storage.
inline constexpr std::uint64_t kMaxRepeatedBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kMostUses = 4;

/// The tensor that the value `id` stands for; nothing when it is another object. Throws the file's kind of
/// error for a tensor whose storage is not there or does not hold it. `where` names it in messages.
std::optional<TorchTensor> read_tensor(const InputFile& file, const PickleTree& tree,
                                       const TorchStorages& storages, PickleId id, const std::string& where);

/// Copies elements out of a storage in the order of a tensor. Keeps the part of the file that it read last:
/// a transposed tensor is read once, not once per block, as long as it is the same one.
class TensorGather {
 public:
  /// Fills `to` with the packed bytes of the tensor from byte `offset` on.
  void read(const InputFile& file, const TorchTensor& tensor, std::uint64_t offset, std::span<std::byte> to);

 private:
  const std::byte* bytes_at(const InputFile& file, const TorchTensor& tensor, std::uint64_t at);

  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;  // byte of the file
};

}  // namespace moh

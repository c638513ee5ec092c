#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "train/base/formats/torch/torch_container.h"
#include "train/base/formats/torch/torch_tensor.h"
#include "train/base/formats/torch/torch_values.h"
#include "train/base/formats/weight_file.h"
#include "train/base/io/input_file.h"

namespace moh {

/// A file of PyTorch's torch.save, open for reading: the zip archives of PyTorch 1.6 and later, and the
/// earlier streams (0.1.10 to 1.5). The file is untrusted: a pickle is a program, of which nothing is
/// imported, called or constructed here. A call is represented by its function's name and arguments, from
/// which known objects (tensors, parameters, containers of the standard library) are read; all others are
/// opaque.
///
/// Opening checks all structure: the archive, the pickle, every tensor against its storage and every storage
/// against the file; also the pickle's checksum. A storage's checksum is verified when the first of its
/// tensors is read. Memory: the pickle (at most PickleText::kMaxBytes), some 100 bytes for each of its values
/// and leaves, whose numbers are bounded, and one tensor while one that is not contiguous is read.
class TorchFile {
 public:
  explicit TorchFile(const std::filesystem::path& path, InputKind kind = InputKind::kCheckpoint);
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;

  const std::filesystem::path& path() const { return file_.path(); }
  /// Whether it is in the format of PyTorch before 1.6.
  bool is_old_format() const { return contents_.is_old_format; }
  /// All values without children (torch_values.h).
  std::span<const TorchLeaf> leaves() const { return values_.leaves; }
  /// The first leaf with that path, or nullptr.
  const TorchLeaf* find(std::string_view path) const;

  /// The models in the file (torch_values.h).
  std::span<const TorchModel> models() const { return values_.models; }
  /// The model that `part` names by its path or the last name of it. Without a part: the only one, or the one
  /// that the released code of the model loads: "ema" (DiT, MoH-DiT), then "model" (TransNeXt, MoH-ViT), then
  /// other usual names. Throws if there is none, if several remain, and for a torch.nn.Module.
  const TorchModel& choose_model(std::string_view part = {}) const;

  /// Sections for display: models, plain values, other tensors and objects.
  std::vector<WeightSection> describe() const;

  /// Fills `to` with the packed bytes of a tensor of this file from byte `offset` of them on.
  void read(const TorchTensor& tensor, std::uint64_t offset, std::span<std::byte> to) const;

  /// Throws the file's kind of error.
  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const {
    file_.fail(what, expected, found, fix);
  }

 private:
  /// Throws, saying what to do, for a torch.nn.Module.
  const TorchModel& no_module(const TorchModel& model) const;

  InputFile file_;
  TorchContents contents_;
  TorchValues values_;  // of them

  mutable std::mutex reading_;  // guards what follows
  mutable std::set<const TorchStorage*> verified_;
  mutable TensorGather gather_;
};

/// Whether the first bytes of the file are those of a file that TorchFile reads, or refuses with a specific
/// message: older ones (tar archives), and other zip archives. Throws CheckpointError if the path cannot be
/// read.
bool looks_like_torch_file(const std::filesystem::path& path);

}  // namespace moh

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "train/formats/torch/torch_tensor.h"
#include "train/formats/weight_file.h"
#include "train/io/input_file.h"

namespace moh {

enum class TorchKind : std::uint8_t {
  kPlain,  ///< None, a bool, a number or a text
  kTensor,
  kEmpty,   ///< a container without items
  kOpaque,  ///< an object that moh does not know, or bytes
};

struct TorchNone {
  bool operator==(const TorchNone&) const = default;
};
using TorchPlain = std::variant<TorchNone, bool, std::int64_t, double, std::string_view>;

/// A value that contains no others.
struct TorchLeaf {
  std::string path;  ///< "ema/blocks.0.attn.qkv.weight", "args/ckpt_every", "opt/param_groups/0/lr"
  TorchKind kind = TorchKind::kPlain;
  TorchPlain value;  ///< of kPlain; of kOpaque the name of its class, of kEmpty "{}" or "[]"
  const TorchTensor* tensor = nullptr;  ///< of kTensor
};

/// A dict of tensors under names: the parameters of a model, as its state_dict() gives them.
struct TorchModel {
  std::string
      part;  ///< where it is: "ema", "checkpoint/model"; "." when the file's object is the dict itself
  std::vector<std::pair<std::string, const TorchTensor*>> tensors;  ///< in the file's order
  std::vector<std::pair<std::string, std::string>> unread;  ///< name and class of objects that may be tensors
};

/// A file of PyTorch's torch.save, open for reading: the zip archives of PyTorch 1.6 and later, and the
/// streams before (0.1.10 to 1.5). The file is untrusted, and reading it is inert: a pickle is a program, and
/// here nothing of it is imported, called or made. A call becomes the name of what would have been called;
/// what moh knows among these (tensors, parameters, containers of the standard library) it reads from the
/// call's arguments, all else is opaque. Files that name what only an attack has a use for are refused
/// (hostile_names.h).
///
/// Opening checks all structure: the archive, the pickle, every tensor against its storage and every storage
/// against the file; also the pickle's checksum. A storage's checksum is verified when the first of its
/// tensors is read. Memory: the pickle (at most PickleText::kMaxBytes), some 100 bytes for each of its values
/// and leaves, whose numbers are bounded, and one tensor while one that is not contiguous is read.
class TorchFile {
 public:
  static constexpr std::size_t kMaxLeaves = 1 << 20;
  static constexpr std::size_t kMaxDepth = 128;
  static constexpr std::size_t kMaxPathBytes = 1 << 16;
  static constexpr std::size_t kMaxAllPathBytes = 64 << 20;

  explicit TorchFile(const std::filesystem::path& path, InputKind kind = InputKind::kCheckpoint);
  ~TorchFile();
  TorchFile(TorchFile&&) noexcept;
  TorchFile& operator=(TorchFile&&) = delete;

  const std::filesystem::path& path() const;
  /// Whether it is in the format of PyTorch before 1.6.
  bool is_old_format() const;
  /// All values that contain no others, in the file's order. A value that several containers share is there
  /// once for each.
  std::span<const TorchLeaf> leaves() const;
  /// The first leaf of that path, or nullptr.
  const TorchLeaf* find(std::string_view path) const;

  /// The models in the file: dicts with texts as keys that hold tensors directly, wherever dicts and
  /// attributes of objects lead to them, those of optimizers left out; and objects of torch.nn.Module, under
  /// the names of their state_dict() (torch_module.h).
  std::span<const TorchModel> models() const;
  /// The model that `part` names, by its path or by the last name of it. Without a part: the only one, or the
  /// one that the programs that train these models load themselves, which is "ema" (DiT, MoH-DiT), then
  /// "model" (TransNeXt, MoH-ViT), then the other usual names. Throws when that leaves no model or several.
  const TorchModel& choose_model(std::string_view part = {}) const;

  /// Models, plain values, other tensors and objects.
  std::vector<WeightSection> describe() const;

  /// Fills `to` with the packed bytes of a tensor of this file from byte `offset` of them on.
  void read(const TorchTensor& tensor, std::uint64_t offset, std::span<std::byte> to) const;

  /// Throws the file's kind of error.
  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// "0.5", "None", "'text'": a plain value as Python writes it, fit for a message.
std::string to_string(const TorchPlain& value);

/// Whether the file begins as those that TorchFile reads, or refuses with the reason that they are too old
/// (tar archives) or no files of torch.save (other zip archives). Throws CheckpointError when the path cannot
/// be read.
bool looks_like_torch_file(const std::filesystem::path& path);

/// The tensors of one model in a PyTorch file; `part` as for TorchFile::choose_model(). A prefix "module."
/// (DistributedDataParallel) or "_orig_mod." (torch.compile) that all names share is taken off, as often as
/// there is one. Throws CheckpointError, also for a tensor of a dtype without a name in safetensors or with
/// more than Shape::kMaxRank axes, and for an object among the tensors that may be one.
std::unique_ptr<WeightFile> open_torch_weights(const std::filesystem::path& path,
                                               const std::string& part = {});

}  // namespace moh

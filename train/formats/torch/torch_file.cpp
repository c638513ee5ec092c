#include "train/formats/torch/torch_file.h"

#include <utility>

#include "core/error.h"
#include "train/formats/torch/torch_contents.h"
#include "train/io/printable.h"

namespace moh {

TorchFile::TorchFile(const std::filesystem::path& path, InputKind kind)
    : contents_(std::make_unique<Contents>(path, kind)) {
  Contents& c = *contents_;
  c.saved = std::make_unique<TorchContents>(read_torch_contents(c.file));
  c.leaves = find_leaves(c.file, *c.saved, c.tensors);
  c.models = find_models(c.file, c.saved->tree, c.tensors);
}

TorchFile::~TorchFile() = default;
TorchFile::TorchFile(TorchFile&&) noexcept = default;

const std::filesystem::path& TorchFile::path() const {
  return contents_->file.path();
}

bool TorchFile::is_old_format() const {
  return contents_->saved->is_old_format;
}

std::span<const TorchLeaf> TorchFile::leaves() const {
  return contents_->leaves;
}

const TorchLeaf* TorchFile::find(std::string_view path) const {
  for (const TorchLeaf& leaf : contents_->leaves) {
    if (leaf.path == path) return &leaf;
  }
  return nullptr;
}

std::span<const TorchModel> TorchFile::models() const {
  return contents_->models;
}

void TorchFile::read(const TorchTensor& tensor, std::uint64_t offset, std::span<std::byte> to) const {
  Contents& c = *contents_;
  MOH_CHECK(offset <= tensor.bytes() && to.size() <= tensor.bytes() - offset, "a range within the tensor");
  if (to.empty()) return;
  const std::lock_guard lock(c.reading);
  if (bool& verified = c.verified[tensor.storage]; !verified) {
    if (tensor.storage->entry) verify_crc32(c.file, *tensor.storage->entry);
    verified = true;
  }
  if (tensor.is_contiguous()) {
    const std::uint64_t begin =
        tensor.view_begin + static_cast<std::uint64_t>(tensor.storage_offset) * tensor.dtype->bytes();
    c.file.read(begin + offset, to, "storage " + printable(tensor.storage_key));
  } else {
    c.gather.read(c.file, tensor, offset, to);
  }
}

void TorchFile::fail(std::string_view what, std::string_view expected, std::string_view found,
                     std::string_view fix) const {
  contents_->file.fail(what, expected, found, fix);
}

bool looks_like_torch_file(const std::filesystem::path& path) {
  const InputFile file(path, InputKind::kCheckpoint);
  return has_torch_magic(file);
}

}  // namespace moh

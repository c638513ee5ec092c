#include "train/formats/torch/torch_storage.h"

#include "train/io/printable.h"

namespace moh {

namespace {

/// Whether it is a storage of bytes, whose tensors say what they hold.
bool is_untyped_storage(std::string_view class_name) {
  return class_name == "torch.storage.UntypedStorage" || class_name == "torch.UntypedStorage" ||
         class_name == "torch.storage._UntypedStorage";
}

class StorageIdReader {
 public:
  StorageIdReader(const InputFile& file, const PickleTree& tree, const std::vector<PickleId>& items)
      : file_(file), tree_(tree), items_(items) {}

  TorchStorageId read() {
    if (items_.size() != 5 && items_.size() != 6) {
      fail("5 or 6 fields", std::to_string(items_.size()));
    }
    read_type(items_[1]);
    if (!tree_.is(items_[2], PickleKind::kText)) fail("a key of text", "something else");
    id_.key = tree_.bytes(items_[2]);
    id_.numel = count(items_[4], "a number of elements");
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(id_.numel, id_.element_bytes(), &bytes)) {
      fail("a size within 64 bits", std::to_string(id_.numel) + " elements");
    }
    id_.view_numel = id_.numel;
    if (items_.size() == 6 && !tree_.is(items_[5], PickleKind::kNone)) read_view(tree_.node(items_[5]));
    return id_;
  }

 private:
  void read_type(PickleId type) {
    const bool known = tree_.is(type, PickleKind::kGlobal);
    id_.dtype = known ? find_torch_storage(tree_.name(type)) : nullptr;
    if (id_.dtype == nullptr && !(known && is_untyped_storage(tree_.name(type)))) {
      fail("a storage class of PyTorch", known ? printable(tree_.name(type)) : "a value");
    }
  }

  void read_view(const PickleNode& view) {
    if (view.kind != PickleKind::kTuple || view.items.size() != 3) fail("a view with 3 fields", "another");
    id_.view_begin = count(view.items[1], "a first element");
    id_.view_numel = count(view.items[2], "a number of elements");
    if (id_.view_begin > id_.numel || id_.view_numel > id_.numel - id_.view_begin) {
      fail("a view within " + std::to_string(id_.numel) + " elements",
           std::to_string(id_.view_numel) + " from element " + std::to_string(id_.view_begin));
    }
  }

  std::uint64_t count(PickleId id, std::string_view what) const {
    if (!tree_.is(id, PickleKind::kInt) || tree_.integer(id) < 0) fail(what, "something else");
    return static_cast<std::uint64_t>(tree_.integer(id));
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    file_.fail("storage " + printable(id_.key), expected, found, "the file is damaged");
  }

  const InputFile& file_;
  const PickleTree& tree_;
  const std::vector<PickleId>& items_;
  TorchStorageId id_;
};

}  // namespace

std::optional<TorchStorageId> read_storage_id(const InputFile& file, const PickleTree& tree, PickleId id) {
  if (!tree.is(id, PickleKind::kPersistent)) return std::nullopt;
  const PickleNode& what = tree.node(tree.node(id).items[0]);
  if (what.kind != PickleKind::kTuple || what.items.empty() || !tree.is_text(what.items[0], "storage")) {
    return std::nullopt;
  }
  return StorageIdReader(file, tree, what.items).read();
}

}  // namespace moh

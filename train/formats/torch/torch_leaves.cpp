#include <cstring>
#include <optional>

#include "train/formats/torch/torch_children.h"
#include "train/formats/torch/torch_contents.h"
#include "train/io/printable.h"

namespace moh {

namespace {

/// The eight bytes or fewer that a NumPy scalar is made of: bytes, or in protocol 2 _codecs.encode(text,
/// "latin1").
std::optional<std::string> scalar_bytes(const PickleTree& tree, PickleId id) {
  if (tree.is(id, PickleKind::kBytes)) return std::string(tree.bytes(id).substr(0, 8));
  if (!tree.is_object(id, "_codecs.encode") || tree.args(id).empty()) return std::nullopt;
  const PickleId text = tree.args(id)[0];
  if (!tree.is(text, PickleKind::kText)) return std::nullopt;
  std::string bytes;
  const std::string_view utf8 = tree.bytes(text).substr(0, 16);
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead >= 0x80 && i + 1 < utf8.size()) {  // U+0080 to U+00FF take two bytes
      bytes += static_cast<char>((lead & 3) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3f));
    } else {
      bytes += static_cast<char>(lead);
    }
  }
  return bytes;
}

template <class T>
std::optional<T> from_bytes(const std::string& bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// numpy.core.multiarray.scalar(dtype("f8", ...), bytes), for the types that Python has too.
std::optional<TorchPlain> numpy_scalar(const PickleTree& tree, PickleId id) {
  if (!tree.is_object(id, "numpy.core.multiarray.scalar") &&
      !tree.is_object(id, "numpy._core.multiarray.scalar")) {
    return std::nullopt;
  }
  const auto& args = tree.args(id);
  if (args.size() != 2 || !tree.is_object(args[0], "numpy.dtype") || tree.args(args[0]).empty())
    return std::nullopt;
  const PickleId dtype = tree.args(args[0])[0];
  const auto bytes = scalar_bytes(tree, args[1]);
  if (!bytes) return std::nullopt;
  if (tree.is_text(dtype, "f8")) {
    if (const auto value = from_bytes<double>(*bytes)) return *value;
  } else if (tree.is_text(dtype, "f4")) {
    if (const auto value = from_bytes<float>(*bytes)) return double{*value};
  } else if (tree.is_text(dtype, "i8")) {
    if (const auto value = from_bytes<std::int64_t>(*bytes)) return *value;
  } else if (tree.is_text(dtype, "i4")) {
    if (const auto value = from_bytes<std::int32_t>(*bytes)) return std::int64_t{*value};
  } else if (tree.is_text(dtype, "b1")) {
    if (const auto value = from_bytes<std::uint8_t>(*bytes)) return *value != 0;
  }
  return std::nullopt;
}

std::optional<TorchPlain> plain_value(const PickleTree& tree, PickleId id) {
  switch (tree.kind(id)) {
    case PickleKind::kNone:
      return TorchNone{};
    case PickleKind::kBool:
      return tree.integer(id) != 0;
    case PickleKind::kInt:
      return tree.integer(id);
    case PickleKind::kFloat:
      return tree.floating(id);
    case PickleKind::kText:
      return tree.bytes(id);
    case PickleKind::kGlobal:  // a dtype, or another class that is a value by itself
      return tree.name(id);
    case PickleKind::kObject:
      return numpy_scalar(tree, id);
    default:
      return std::nullopt;
  }
}

std::string_view opaque_name(const PickleTree& tree, PickleId id) {
  switch (tree.kind(id)) {
    case PickleKind::kObject:
      return tree.name(id);
    case PickleKind::kBytes:
      return "bytes";
    case PickleKind::kBigInt:
      return "an integer beyond 64 bits";
    default:
      return "a storage without a tensor";
  }
}

/// Goes through the values depth first, without recursion, as they may be nested to any depth.
class LeafWalk {
 public:
  LeafWalk(const InputFile& file, const TorchContents& saved, TorchTensors& tensors)
      : file_(file),
        saved_(saved),
        tree_(saved.tree),
        tensors_(tensors),
        on_path_(tree_.size()),
        expanded_(tree_.size()) {}

  std::vector<TorchLeaf> run() {
    visit(tree_.root());
    while (!open_.empty()) {
      Level& level = open_.back();
      path_.resize(level.path_bytes);
      if (level.next == level.children.size()) {
        on_path_[level.id] = false;
        open_.pop_back();
        continue;
      }
      const TorchChildren::Child child = level.children.at(level.next++);
      enter_name(child);
      visit(child.value);
    }
    return std::move(leaves_);
  }

 private:
  struct Level {
    PickleId id;
    TorchChildren children;
    std::size_t next;
    std::size_t path_bytes;
  };

  void enter_name(const TorchChildren::Child& child) {
    const bool long_key = child.key != TorchChildren::kNoKey && tree_.is(child.key, PickleKind::kText) &&
                          tree_.node(child.key).size > TorchFile::kMaxPathBytes;
    if (open_.size() > 1) path_ += '/';
    if (!long_key) path_ += child_name(tree_, child);
    if (long_key || path_.size() > TorchFile::kMaxPathBytes) {
      fail("names of at most " + std::to_string(TorchFile::kMaxPathBytes) + " bytes", "longer ones");
    }
  }

  void visit(PickleId id) {
    if (const TorchTensor* tensor = tensor_at(id)) return add({.kind = TorchKind::kTensor, .tensor = tensor});
    if (const auto plain = plain_value(tree_, id)) return add({.kind = TorchKind::kPlain, .value = *plain});
    const TorchChildren children(tree_, id);
    if (!children.is_container()) return add({.kind = TorchKind::kOpaque, .value = opaque_name(tree_, id)});
    if (children.size() == 0) {
      return add({.kind = TorchKind::kEmpty, .value = std::string_view(children.is_mapping() ? "{}" : "[]")});
    }
    if (on_path_[id]) {
      return add({.kind = TorchKind::kOpaque, .value = std::string_view("a container that contains itself")});
    }
    // Objects that refer to each other make more paths than there are values many times over.
    if (children.is_object() && expanded_[id]) {
      return add({.kind = TorchKind::kOpaque, .value = opaque_name(tree_, id)});
    }
    if (open_.size() == TorchFile::kMaxDepth) {
      fail("at most " + std::to_string(TorchFile::kMaxDepth) + " containers in each other", "more");
    }
    on_path_[id] = expanded_[id] = true;
    open_.push_back({id, children, 0, path_.size()});
  }

  const TorchTensor* tensor_at(PickleId id) {
    if (!tree_.is(id, PickleKind::kObject)) return nullptr;
    const auto known = tensors_.find(id);
    if (known != tensors_.end()) return &known->second;
    auto tensor = read_tensor(file_, tree_, saved_.storages, id, path_);
    return tensor ? &tensors_.emplace(id, std::move(*tensor)).first->second : nullptr;
  }

  void add(TorchLeaf leaf) {
    path_bytes_ += path_.size();
    if (leaves_.size() == TorchFile::kMaxLeaves || path_bytes_ > TorchFile::kMaxAllPathBytes) {
      fail("at most " + std::to_string(TorchFile::kMaxLeaves) + " values and " +
               std::to_string(TorchFile::kMaxAllPathBytes) + " bytes of names",
           "more");
    }
    leaf.path = path_;
    leaves_.push_back(std::move(leaf));
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    file_.fail("data.pkl, " + printable(path_), expected, found,
               "save the model's state_dict alone, without other data");
  }

  const InputFile& file_;
  const TorchContents& saved_;
  const PickleTree& tree_;
  TorchTensors& tensors_;
  std::vector<bool> on_path_;
  std::vector<bool> expanded_;  // were, or are, on it
  std::vector<Level> open_;
  std::string path_;
  std::size_t path_bytes_ = 0;
  std::vector<TorchLeaf> leaves_;
};

}  // namespace

std::vector<TorchLeaf> find_leaves(const InputFile& file, const TorchContents& saved, TorchTensors& tensors) {
  return LeafWalk(file, saved, tensors).run();
}

}  // namespace moh

#include "train/base/formats/torch/torch_values.h"

#include <algorithm>
#include <optional>
#include <set>

#include "train/base/formats/torch/python_values.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

using Child = TorchChildren::Child;

constexpr std::size_t kMaxDepth = 128;     // nesting of containers
constexpr std::size_t kMaxModelDepth = 8;  // nesting of dicts and objects around a model
constexpr std::size_t kMaxModels = 1024;   // in one file

// Dicts of optimizers: their tensors have the names or shapes of a model's, but are not its parameters.
constexpr std::string_view kNotModels[] = {
    "opt",       "optimizer",    "optim_state",  "optimizer_states",
    "optim",     "optimizers",   "lr_scheduler", "optim_state_dict",
    "scaler",    "rng_state",    "grad_scaler",  "optimizer_state_dict",
    "scheduler", "lr_schedulers"};

/// Classes and functions whose objects are tensors that moh cannot read.
bool may_be_tensor(std::string_view name) {
  return name.starts_with("torch._utils._rebuild") || name.starts_with("torch._tensor._rebuild") ||
         name.starts_with("torch._C._rebuild") || name == "torch.storage._load_from_bytes" ||
         name == "numpy.core.multiarray._reconstruct" || name == "numpy._core.multiarray._reconstruct";
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

/// Whether a value is a torch.nn.Module, by the attributes that all of them have.
bool is_module(const TorchChildren& children) {
  return children.is_object() && children.find("_parameters") && children.find("_buffers") &&
         children.find("_modules");
}

/// Depth-first traversal of the values; recursive, as kMaxDepth is small.
class LeafWalk {
 public:
  LeafWalk(const InputFile& file, const TorchContents& contents, TorchValues& found)
      : file_(file),
        tree_(contents.tree),
        storages_(contents.storages),
        found_(found),
        on_path_(tree_.size()),
        expanded_(tree_.size()) {}

  void visit(PickleId id, std::size_t depth) {
    if (const TorchTensor* tensor = tensor_at(id)) return add({.kind = TorchKind::kTensor, .tensor = tensor});
    if (const auto plain = plain_value(tree_, id)) return add({.kind = TorchKind::kPlain, .value = *plain});
    const TorchChildren children(tree_, id);
    if (!children.is_container()) return add_opaque(opaque_name(tree_, id));
    if (children.size() == 0) {
      return add({.kind = TorchKind::kEmpty, .value = std::string_view(children.is_mapping() ? "{}" : "[]")});
    }
    if (on_path_[id]) return add_opaque("a container that contains itself");
    // With objects that refer to each other there may be far more paths than values.
    if (children.is_object() && expanded_[id]) return add_opaque(opaque_name(tree_, id));
    if (depth == kMaxDepth) {
      fail("at most " + std::to_string(kMaxDepth) + " containers in each other", "more");
    }
    on_path_[id] = expanded_[id] = true;
    const std::size_t path_bytes = path_.size();
    for (const Child child : children) {
      if (depth > 0) path_ += '/';
      enter(children, child);
      visit(child.value, depth + 1);
      path_.resize(path_bytes);
    }
    on_path_[id] = false;
  }

 private:
  void enter(const TorchChildren& children, const Child& child) {
    const auto key = children.text_key(child);
    const bool is_long = key && key->size() > kMaxTorchPathBytes;
    if (!is_long) path_ += children.name(child);
    if (is_long || path_.size() > kMaxTorchPathBytes) {
      fail("names of at most " + std::to_string(kMaxTorchPathBytes) + " bytes", "longer ones");
    }
  }

  const TorchTensor* tensor_at(PickleId id) {
    if (!tree_.is(id, PickleKind::kObject)) return nullptr;
    const auto known = found_.tensors.find(id);
    if (known != found_.tensors.end()) return &known->second;
    auto tensor = read_tensor(file_, tree_, storages_, id, path_);
    if (!tensor) return nullptr;
    count_bytes(tensor->bytes());
    return &found_.tensors.emplace(id, std::move(*tensor)).first->second;
  }

  void count_bytes(std::uint64_t more) {
    const std::uint64_t most = kMaxRepeatedBytes + kMostUses * file_.size();
    tensor_bytes_ += more;
    if (tensor_bytes_ <= most) return;
    file_.fail(
        "tensors",
        "at most " + std::to_string(most) + " bytes in all, for a file of " + std::to_string(file_.size()),
        "more", "save each with a storage of its own (clone()), and without expand()");
  }

  void add_opaque(std::string_view name) { add({.kind = TorchKind::kOpaque, .value = name}); }

  void add(TorchLeaf leaf) {
    path_bytes_ += path_.size();
    if (found_.leaves.size() == kMaxTorchLeaves || path_bytes_ > kMaxAllTorchPathBytes) {
      fail("at most " + std::to_string(kMaxTorchLeaves) + " values and " +
               std::to_string(kMaxAllTorchPathBytes) + " bytes of names",
           "more");
    }
    leaf.path = path_;
    found_.leaves.push_back(std::move(leaf));
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    file_.fail("data.pkl, " + printable(path_), expected, found,
               "save the model's state_dict alone, without other data");
  }

  const InputFile& file_;
  const PickleTree& tree_;
  const TorchStorages& storages_;
  TorchValues& found_;
  std::vector<bool> on_path_;
  std::vector<bool> expanded_;  // values that are or have been on the path
  std::string path_;
  std::size_t path_bytes_ = 0;      // of all leaves
  std::uint64_t tensor_bytes_ = 0;  // of all tensors
};

/// Finds the models among the values, after the tensors.
class ModelSearch {
 public:
  ModelSearch(const InputFile& file, const PickleTree& tree, TorchValues& found)
      : file_(file), tree_(tree), found_(found) {}

  /// Recursive, as kMaxModelDepth is small. A dict with several paths is a model under each of them; its
  /// contents are inspected once.
  void look(PickleId id, const std::string& path, std::size_t depth) {
    const TorchChildren children(tree_, id);
    if (!children.is_mapping() || found_.tensors.contains(id)) return;
    const auto [known, is_new] = inspected_.try_emplace(id);
    if (is_new) known->second = {children.has_text_keys(), is_module(children)};
    if (!known->second.has_text_keys) return;
    if (known->second.is_module) return add({.part = part_of(path), .module_class = tree_.name(id)});
    if (is_new || !children.is_object()) add_dict(path, children);
    if (!is_new || depth == kMaxModelDepth) return;
    for (const Child child : children) {
      const std::string name = children.name(child);
      if (std::ranges::find(kNotModels, name) != std::ranges::end(kNotModels)) continue;
      look(child.value, path.empty() ? name : path + "/" + name, depth + 1);
    }
  }

 private:
  struct Inspected {
    bool has_text_keys = false, is_module = false;
  };

  static std::string part_of(const std::string& path) { return path.empty() ? "." : path; }

  /// The tensors in a dict.
  void add_dict(const std::string& path, const TorchChildren& children) {
    TorchModel model{.part = part_of(path)};
    std::set<std::string> names;
    for (const Child child : children) {
      if (!is_tensor(child.value)) continue;
      const std::string name = children.name(child);
      if (!names.insert(name).second) {
        file_.fail("tensor " + printable(model.part + "/" + name), "this name once", "it twice",
                   "the file is damaged");
      }
      const auto tensor = found_.tensors.find(child.value);
      if (tensor != found_.tensors.end()) {
        model.tensors.emplace_back(name, &tensor->second);
      } else {
        model.unread.emplace_back(name, tree_.name(child.value));
      }
    }
    if (!model.tensors.empty()) add(std::move(model));
  }

  void add(TorchModel model) {
    num_tensors_ += model.tensors.size();
    if (found_.models.size() == kMaxModels || num_tensors_ > kMaxTorchLeaves) {
      file_.fail("models in the file", "at most " + std::to_string(kMaxModels), "more, or too large ones");
    }
    found_.models.push_back(std::move(model));
  }

  bool is_tensor(PickleId id) const {
    return found_.tensors.contains(id) ||
           (tree_.is(id, PickleKind::kObject) && may_be_tensor(tree_.name(id)));
  }

  const InputFile& file_;
  const PickleTree& tree_;
  TorchValues& found_;
  std::unordered_map<PickleId, Inspected> inspected_;
  std::size_t num_tensors_ = 0;  // of all models
};

}  // namespace

TorchValues find_torch_values(const InputFile& file, const TorchContents& contents) {
  TorchValues found;
  LeafWalk(file, contents, found).visit(contents.tree.root(), 0);
  ModelSearch(file, contents.tree, found).look(contents.tree.root(), "", 0);
  return found;
}

}  // namespace moh

#include "train/formats/torch/torch_module.h"

#include <string_view>

#include "train/formats/torch/torch_children.h"
#include "train/formats/torch/torch_file.h"

namespace moh {

namespace {

constexpr std::size_t kMaxModuleDepth = 64;  // of modules in each other

std::optional<PickleId> find_child(const PickleTree& tree, const TorchChildren& children,
                                   std::string_view key) {
  for (std::size_t i = 0; i < children.size(); ++i) {
    const TorchChildren::Child child = children.at(i);
    if (child.key != TorchChildren::kNoKey && tree.is_text(child.key, key)) return child.value;
  }
  return std::nullopt;
}

bool is_mapping(const PickleTree& tree, std::optional<PickleId> id) {
  return id && TorchChildren(tree, *id).is_mapping();
}

class StateWalk {
 public:
  StateWalk(const InputFile& file, const PickleTree& tree, std::size_t& name_bytes,
            FunctionRef<void(const std::string& name, PickleId value)> visit)
      : file_(file), tree_(tree), name_bytes_(name_bytes), visit_(visit) {}

  /// Recursive, as kMaxModuleDepth is small.
  void walk(const TorchModule& module, const std::string& prefix, std::size_t depth) {
    if (depth == kMaxModuleDepth)
      fail("at most " + std::to_string(kMaxModuleDepth) + " modules in each other", "more");
    each(module.parameters, prefix, [&](PickleId, const std::string& name, PickleId value) {
      if (!tree_.is(value, PickleKind::kNone)) visit_(name, value);
    });
    each(module.buffers, prefix, [&](PickleId key, const std::string& name, PickleId value) {
      if (!tree_.is(value, PickleKind::kNone) && is_persistent(module, key)) visit_(name, value);
    });
    each(module.modules, prefix, [&](PickleId, const std::string& name, PickleId value) {
      if (const auto inner = find_module(tree_, value)) return walk(*inner, name + ".", depth + 1);
      if (!tree_.is(value, PickleKind::kNone)) visit_(name, value);
    });
  }

 private:
  void each(PickleId dict, const std::string& prefix,
            FunctionRef<void(PickleId key, const std::string& name, PickleId value)> visit) {
    const TorchChildren children(tree_, dict);
    for (std::size_t i = 0; i < children.size(); ++i) {
      const TorchChildren::Child child = children.at(i);
      const std::string name = prefix + child_name(tree_, child);
      // A module that many others share has a name by each: the sum bounds time, too.
      name_bytes_ += name.size() + 1;
      if (name.size() > TorchFile::kMaxPathBytes || name_bytes_ > TorchFile::kMaxAllPathBytes)
        fail("at most " + std::to_string(TorchFile::kMaxAllPathBytes) + " bytes of names", "more");
      visit(child.key, name, child.value);
    }
  }

  bool is_persistent(const TorchModule& module, PickleId key) const {
    if (!module.non_persistent || !tree_.is(key, PickleKind::kText)) return true;
    const TorchChildren names(tree_, *module.non_persistent);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (tree_.is_text(names.at(i).value, tree_.bytes(key))) return false;
    }
    return true;
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    file_.fail("data.pkl, a module", expected, found,
               "in Python, save the state_dict() of the model with torch.save");
  }

  const InputFile& file_;
  const PickleTree& tree_;
  std::size_t& name_bytes_;
  FunctionRef<void(const std::string& name, PickleId value)> visit_;
};

}  // namespace

std::optional<TorchModule> find_module(const PickleTree& tree, PickleId id) {
  if (!tree.is(id, PickleKind::kObject)) return std::nullopt;
  const TorchChildren attributes(tree, id);
  if (!attributes.is_object()) return std::nullopt;
  const auto parameters = find_child(tree, attributes, "_parameters");
  const auto buffers = find_child(tree, attributes, "_buffers");
  const auto modules = find_child(tree, attributes, "_modules");
  if (!is_mapping(tree, parameters) || !is_mapping(tree, buffers) || !is_mapping(tree, modules))
    return std::nullopt;
  return TorchModule{*parameters, *buffers, *modules,
                     find_child(tree, attributes, "_non_persistent_buffers_set")};
}

void visit_state(const InputFile& file, const PickleTree& tree, const TorchModule& module,
                 std::size_t& name_bytes, FunctionRef<void(const std::string& name, PickleId value)> visit) {
  StateWalk(file, tree, name_bytes, visit).walk(module, "", 0);
}

}  // namespace moh

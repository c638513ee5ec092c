#include "train/formats/torch/torch_module.h"

#include "train/formats/torch/python_values.h"
#include "train/formats/torch/torch_values.h"

namespace moh {

namespace {

constexpr std::size_t kMaxModuleDepth = 64;  // nesting of modules

bool is_mapping(const PickleTree& tree, std::optional<PickleId> id) {
  return id && TorchChildren(tree, *id).is_mapping();
}

/// The texts in a set. A set with attributes is ignored: it might be large and shared by many modules.
std::set<std::string_view> texts_in(const PickleTree& tree, std::optional<PickleId> id) {
  std::set<std::string_view> texts;
  if (!id) return texts;
  const TorchChildren children(tree, *id);
  if (children.is_object()) return texts;
  for (const TorchChildren::Child child : children) {
    if (tree.is(child.value, PickleKind::kText)) texts.insert(tree.bytes(child.value));
  }
  return texts;
}

std::optional<TorchModule> read_module(const PickleTree& tree, PickleId id) {
  const TorchChildren attributes(tree, id);
  if (!attributes.is_object()) return std::nullopt;
  const auto parameters = attributes.find("_parameters");
  const auto buffers = attributes.find("_buffers");
  const auto modules = attributes.find("_modules");
  if (!is_mapping(tree, parameters) || !is_mapping(tree, buffers) || !is_mapping(tree, modules))
    return std::nullopt;
  return TorchModule{*parameters, *buffers, *modules,
                     texts_in(tree, attributes.find("_non_persistent_buffers_set"))};
}

}  // namespace

const TorchModule* TorchModules::find(PickleId id) {
  if (!tree_.is(id, PickleKind::kObject)) return nullptr;
  const auto [found, is_new] = known_.try_emplace(id);
  if (is_new) found->second = read_module(tree_, id);
  return found->second ? &*found->second : nullptr;
}

void TorchModules::visit_state(const TorchModule& module, const std::string& prefix, std::size_t depth,
                               Visit visit) {
  if (depth == kMaxModuleDepth)
    fail("at most " + std::to_string(kMaxModuleDepth) + " levels of nested modules");
  const auto each = [&](PickleId dict, auto&& use) {
    const TorchChildren children(tree_, dict);
    for (const TorchChildren::Child child : children) {
      const std::string name = prefix + children.name(child);
      // A shared module has a name for each path to it, so the sum of lengths bounds the time, too.
      name_bytes_ += name.size() + 1;
      if (name.size() > kMaxTorchPathBytes || name_bytes_ > kMaxAllTorchPathBytes)
        fail("at most " + std::to_string(kMaxAllTorchPathBytes) + " bytes of names");
      if (!tree_.is(child.value, PickleKind::kNone)) use(children.text_key(child), name, child.value);
    }
  };
  each(module.parameters, [&](auto, const std::string& name, PickleId value) { visit(name, value); });
  each(module.buffers, [&](auto key, const std::string& name, PickleId value) {
    if (!key || !module.non_persistent.contains(*key)) visit(name, value);
  });
  each(module.modules, [&](auto, const std::string& name, PickleId value) {
    if (const TorchModule* inner = find(value)) return visit_state(*inner, name + ".", depth + 1, visit);
    visit(name, value);
  });
}

void TorchModules::fail(std::string_view expected) const {
  file_.fail("data.pkl, a module", expected, "more",
             "in Python, save the state_dict() of the model with torch.save");
}

}  // namespace moh

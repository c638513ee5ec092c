#include "train/formats/torch/torch_children.h"

#include <algorithm>
#include <string_view>

namespace moh {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_mapping_class(std::string_view name) {
  return is_one_of(name, {"collections.OrderedDict", "collections.defaultdict", "collections.Counter",
                          "builtins.dict", "__builtin__.dict"});
}

bool is_sequence_class(std::string_view name) {
  return is_one_of(name, {"torch.Size", "builtins.set", "builtins.frozenset", "builtins.list",
                          "builtins.tuple", "__builtin__.set", "__builtin__.frozenset", "__builtin__.list",
                          "__builtin__.tuple", "collections.deque"});
}

/// Whether all items are tuples or lists of two.
bool are_pairs(const PickleTree& tree, PickleId list) {
  return std::ranges::all_of(tree.node(list).items, [&](PickleId item) {
    const PickleNode& pair = tree.node(item);
    return (pair.kind == PickleKind::kTuple || pair.kind == PickleKind::kList) && pair.items.size() == 2;
  });
}

bool is_sequence(PickleKind kind) {
  return kind == PickleKind::kTuple || kind == PickleKind::kList || kind == PickleKind::kSet;
}

}  // namespace

TorchChildren::TorchChildren(const PickleTree& tree, PickleId id) : tree_(tree) {
  const PickleKind kind = tree.kind(id);
  is_mapping_ = kind == PickleKind::kDict || (kind == PickleKind::kObject && is_mapping_class(tree.name(id)));
  is_container_ = is_mapping_;
  if (kind == PickleKind::kDict) {
    add(Layout::kPairs, id);
  } else if (is_sequence(kind)) {
    add(Layout::kList, id);
  } else if (kind == PickleKind::kObject) {
    add_object(id);
  }
}

void TorchChildren::add(Layout layout, PickleId id) {
  is_container_ = true;
  parts_[num_parts_++] = {layout, &tree_.node(id).items, id};
}

void TorchChildren::add_object(PickleId id) {
  const PickleNode& object = tree_.node(id);
  const auto& args = tree_.args(id);
  const bool from_one =
      args.size() == 1 && (is_sequence(tree_.kind(args[0])) || tree_.is(args[0], PickleKind::kDict));
  if (is_mapping_ && from_one && tree_.is(args[0], PickleKind::kDict)) {
    add(Layout::kPairs, args[0]);
  } else if (is_mapping_ && from_one && are_pairs(tree_, args[0])) {
    add(Layout::kPairsInTuples, args[0]);
  } else if (is_sequence_class(object.items.empty() && from_one ? tree_.name(id) : "")) {
    add(tree_.is(args[0], PickleKind::kDict) ? Layout::kPairs : Layout::kList, args[0]);
  }
  if (!object.items.empty()) add(object.has_pairs ? Layout::kPairs : Layout::kList, id);
  // What a dict has besides its items is for its class: PyTorch's OrderedDict has versions in _metadata.
  if (object.has_state && !is_mapping_) add_state(object.state);
}

/// Attributes in a dict; or (dict or None, dict) for a class with slots; or what only the class understands.
void TorchChildren::add_state(PickleId state) {
  is_object_ = true;
  const PickleNode& node = tree_.node(state);
  if (node.kind == PickleKind::kDict) {
    add(Layout::kPairs, state);
    is_mapping_ = num_parts_ == 1;
  } else if (node.kind == PickleKind::kTuple && node.items.size() == 2 && num_parts_ <= 1 &&
             tree_.is(node.items[1], PickleKind::kDict)) {
    if (tree_.is(node.items[0], PickleKind::kDict)) add(Layout::kPairs, node.items[0]);
    add(Layout::kPairs, node.items[1]);
  } else {
    add(Layout::kState, state);
  }
}

std::size_t TorchChildren::Part::size() const {
  switch (layout) {
    case Layout::kNone:
      return 0;
    case Layout::kState:
      return 1;
    case Layout::kPairs:
      return items->size() / 2;
    default:
      return items->size();
  }
}

std::size_t TorchChildren::size() const {
  std::size_t sum = 0;
  for (const Part& part : parts_) sum += part.size();
  return sum;
}

TorchChildren::Child TorchChildren::at(std::size_t position) const {
  const Part* part = parts_.data();
  for (; position >= part->size(); ++part) position -= part->size();
  switch (part->layout) {
    case Layout::kPairs:
      return {(*part->items)[2 * position], position, (*part->items)[2 * position + 1]};
    case Layout::kPairsInTuples: {
      const auto& pair = tree_.node((*part->items)[position]).items;
      return {pair[0], position, pair[1]};
    }
    case Layout::kState:
      return {kNoKey, 0, part->state, true};
    default:
      return {kNoKey, position, (*part->items)[position]};
  }
}

std::string child_name(const PickleTree& tree, const TorchChildren::Child& child) {
  if (child.is_state) return "state";
  if (child.key == TorchChildren::kNoKey) return std::to_string(child.index);
  switch (tree.kind(child.key)) {
    case PickleKind::kText:
      return std::string(tree.bytes(child.key));
    case PickleKind::kInt:
      return std::to_string(tree.integer(child.key));
    case PickleKind::kBool:
      return tree.integer(child.key) != 0 ? "True" : "False";
    case PickleKind::kNone:
      return "None";
    default:
      return "#" + std::to_string(child.index);
  }
}

}  // namespace moh

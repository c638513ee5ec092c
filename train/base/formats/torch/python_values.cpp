#include "train/base/formats/torch/python_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "train/base/formats/records.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

/// The bytes, at most 8, of a NumPy scalar: bytes, or in protocol 2 _codecs.encode(text, "latin1").
std::string scalar_bytes(const PickleTree& tree, PickleId id) {
  if (tree.is(id, PickleKind::kBytes)) return std::string(tree.bytes(id).substr(0, 8));
  if (!tree.is_object(id, "_codecs.encode") || tree.args(id).empty()) return "";
  const PickleId text = tree.args(id)[0];
  if (!tree.is(text, PickleKind::kText)) return "";
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

template <class Stored, class Python>
std::optional<TorchPlain> scalar_of(const std::string& bytes) {
  if (bytes.size() != sizeof(Stored)) return std::nullopt;
  return static_cast<Python>(record_at<Stored>(std::as_bytes(std::span(bytes))));
}

/// The value of numpy.core.multiarray.scalar(dtype("f8", ...), bytes), for types that Python has, too.
std::optional<TorchPlain> numpy_scalar(const PickleTree& tree, PickleId id) {
  if (!tree.is_object(id, "numpy.core.multiarray.scalar") &&
      !tree.is_object(id, "numpy._core.multiarray.scalar")) {
    return std::nullopt;
  }
  const auto& args = tree.args(id);
  if (args.size() != 2 || !tree.is_object(args[0], "numpy.dtype") || tree.args(args[0]).empty())
    return std::nullopt;
  const PickleId dtype = tree.args(args[0])[0];
  const std::string bytes = scalar_bytes(tree, args[1]);
  if (tree.is_text(dtype, "f8")) return scalar_of<double, double>(bytes);
  if (tree.is_text(dtype, "f4")) return scalar_of<float, double>(bytes);
  if (tree.is_text(dtype, "i8")) return scalar_of<std::int64_t, std::int64_t>(bytes);
  if (tree.is_text(dtype, "i4")) return scalar_of<std::int32_t, std::int64_t>(bytes);
  if (tree.is_text(dtype, "b1")) return scalar_of<std::uint8_t, bool>(bytes);
  return std::nullopt;
}

constexpr std::string_view kMappingClasses[] = {"collections.OrderedDict", "collections.defaultdict",
                                                "collections.Counter", "builtins.dict", "__builtin__.dict"};
constexpr std::string_view kSequenceClasses[] = {
    "torch.Size",        "builtins.set",     "builtins.frozenset",    "builtins.list",
    "builtins.tuple",    "__builtin__.set",  "__builtin__.frozenset", "__builtin__.list",
    "__builtin__.tuple", "collections.deque"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_sequence(PickleKind kind) {
  return kind == PickleKind::kTuple || kind == PickleKind::kList || kind == PickleKind::kSet;
}

}  // namespace

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
    case PickleKind::kGlobal:
      return tree.name(id);
    case PickleKind::kObject:
      return numpy_scalar(tree, id);
    default:
      return std::nullopt;
  }
}

std::string to_string(const TorchPlain& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) {
    std::array<char, 32> text;  // the shortest that reads back as the same number has at most 24
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), *number).ptr};
  }
  if (const auto* text = std::get_if<std::string_view>(&value)) return "'" + printable(*text) + "'";
  return "None";
}

TorchChildren::TorchChildren(const PickleTree& tree, PickleId id) : tree_(tree) {
  const PickleKind kind = tree.kind(id);
  is_mapping_ =
      kind == PickleKind::kDict || (kind == PickleKind::kObject && is_one_of(kMappingClasses, tree.name(id)));
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
  parts_[num_parts_++] = {layout, id, &tree_.node(id).items};
}

void TorchChildren::add_object(PickleId id) {
  const PickleNode& object = tree_.node(id);
  const auto& args = tree_.args(id);
  const PickleKind from = args.size() == 1 ? tree_.kind(args[0]) : PickleKind::kNone;
  const bool is_known = is_mapping_ || (object.items.empty() && is_one_of(kSequenceClasses, tree_.name(id)));
  if (is_known && from == PickleKind::kDict) {
    add(Layout::kPairs, args[0]);
  } else if (is_known && is_sequence(from)) {
    add(is_mapping_ ? Layout::kPairsInTuples : Layout::kList, args[0]);
  }
  if (!object.items.empty()) add(object.has_pairs ? Layout::kPairs : Layout::kList, id);
  // Attributes of a dict, besides its items, concern its class only: PyTorch's OrderedDict has _metadata.
  if (object.has_state && !is_mapping_) add_state(object.state);
}

/// The state is a dict of attributes, (dict or None, dict) for a class with slots, or opaque.
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
  if (layout == Layout::kState) return 1;
  return layout == Layout::kPairs ? items->size() / 2 : items->size();
}

std::size_t TorchChildren::size() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < num_parts_; ++i) sum += parts_[i].size();
  return sum;
}

TorchChildren::Child TorchChildren::at(std::size_t position) const {
  const Part* part = parts_.data();
  for (; position >= part->size(); ++part) position -= part->size();
  const std::vector<PickleId>& items = *part->items;
  switch (part->layout) {
    case Layout::kPairs:
      return {items[2 * position], position, items[2 * position + 1]};
    case Layout::kPairsInTuples:
      if (const PickleNode& pair = tree_.node(items[position]);
          is_sequence(pair.kind) && pair.items.size() == 2)
        return {pair.items[0], position, pair.items[1]};
      return {std::nullopt, position, items[position]};
    case Layout::kState:
      return {std::nullopt, 0, part->id, true};
    default:
      return {std::nullopt, position, items[position]};
  }
}

std::optional<PickleId> TorchChildren::find(std::string_view key) const {
  for (const Child child : *this) {
    if (text_key(child) == key) return child.value;
  }
  return std::nullopt;
}

std::optional<std::string_view> TorchChildren::text_key(const Child& child) const {
  if (!child.key || !tree_.is(*child.key, PickleKind::kText)) return std::nullopt;
  return tree_.bytes(*child.key);
}

bool TorchChildren::has_text_keys() const {
  for (const Child child : *this) {
    if (!text_key(child)) return false;
  }
  return true;
}

std::string TorchChildren::name(const Child& child) const {
  if (child.is_state) return "state";
  if (!child.key) return std::to_string(child.index);
  switch (tree_.kind(*child.key)) {
    case PickleKind::kText:
      return std::string(tree_.bytes(*child.key));
    case PickleKind::kInt:
      return std::to_string(tree_.integer(*child.key));
    case PickleKind::kBool:
      return tree_.integer(*child.key) != 0 ? "True" : "False";
    case PickleKind::kNone:
      return "None";
    default:
      return "#" + std::to_string(child.index);
  }
}

}  // namespace moh

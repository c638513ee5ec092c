#include "train/base/formats/tensorflow/frozen_graph.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "train/base/io/printable.h"

namespace moh {

namespace {

using Wire = ProtoField::Wire;

// Numbers of fields, as TensorFlow's graph.proto, node_def.proto, attr_value.proto, tensor.proto and
// tensor_shape.proto have them.
constexpr std::uint32_t kNode = 1, kName = 1, kOp = 2, kAttribute = 5, kKey = 1, kValue = 2;
constexpr std::uint32_t kFloatOf = 4, kBoolOf = 5, kTensorOf = 8;
constexpr std::uint32_t kType = 1, kShape = 2, kContent = 4, kFloats = 5, kAxis = 2, kLength = 1, kNoRank = 3;

constexpr std::uint64_t kFloatType = 1, kMostName = 4096, kMostConstantElements = std::uint64_t{1} << 40;
constexpr std::size_t kMostNodes = 1 << 17;
/// In WeightInfo::place: elements are listed_[place without this bit], not at that byte of the file.
constexpr std::uint64_t kListed = std::uint64_t{1} << 63;

float as_float(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

/// An attribute of a node: its key, and the message that has its value.
struct Attribute {
  std::string key;
  ProtoField value;
};

std::optional<Attribute> attribute_of(const InputFile& file, const ProtoField& entry) {
  ProtoFields fields(file, entry);
  Attribute made;
  bool has_value = false;
  while (const auto field = fields.next()) {
    if (field->is(kKey, Wire::kBytes)) made.key = fields.text(*field, "key of an attribute", kMostName);
    if (field->is(kValue, Wire::kBytes)) {
      made.value = *field;
      has_value = true;
    }
  }
  return has_value ? std::optional(std::move(made)) : std::nullopt;
}

/// The last field of that number and type in a message.
std::optional<ProtoField> field_of(const InputFile& file, const ProtoField& message, std::uint32_t number,
                                   Wire wire) {
  ProtoFields fields(file, message);
  std::optional<ProtoField> found;
  while (const auto field = fields.next()) {
    if (field->is(number, wire)) found = field;
  }
  return found;
}

}  // namespace

/// A TensorProto.
struct FrozenGraph::Constant {
  std::uint64_t type = 0, elements = 1;
  std::vector<std::int64_t> shape;
  std::optional<ProtoField> content;
  std::vector<float> listed;
};

FrozenGraph::FrozenGraph(const std::filesystem::path& path) : file_(path, InputKind::kCheckpoint) {
  ProtoFields fields(file_);
  std::size_t nodes = 0;
  while (const auto field = fields.next()) {
    if (!field->is(kNode, Wire::kBytes)) continue;
    if (++nodes > kMostNodes)
      file_.fail("nodes", "at most " + std::to_string(kMostNodes), "more", "this is no graph of a network");
    add_node(*field);
  }
  if (nodes == 0) file_.fail("", "a graph of TensorFlow", "a file without nodes");
  if (const WeightInfo* twice = set_tensors(std::move(found_)))
    fail(twice->name, "one constant of a name", "two");
}

void FrozenGraph::fail(const std::string& node, std::string_view expected, const std::string& found) const {
  file_.fail("node " + printable(node), expected, found);
}

void FrozenGraph::add_node(const ProtoField& node) {
  std::string name, op;
  ProtoFields fields(file_, node);
  std::vector<ProtoField> attributes;
  while (const auto field = fields.next()) {
    if (field->wire != Wire::kBytes) continue;
    if (field->number == kName) name = fields.text(*field, "name of a node", kMostName);
    if (field->number == kOp) op = fields.text(*field, "operation of a node", kMostName);
    if (field->number == kAttribute) attributes.push_back(*field);
  }
  const bool is_norm = op == "BatchNormWithGlobalNormalization";
  if (op != "Const" && !is_norm) return;
  for (const ProtoField& entry : attributes) {
    const std::optional<Attribute> attribute = attribute_of(file_, entry);
    if (!attribute) continue;
    const auto value = [&](std::uint32_t number, Wire wire) {
      const auto found = field_of(file_, attribute->value, number, wire);
      return found ? found->value : 0;  // as a field that is left out
    };
    if (is_norm) {
      GraphNorm& norm = norms_[name];
      if (attribute->key == "variance_epsilon") norm.epsilon = as_float(value(kFloatOf, Wire::kFixed32));
      if (attribute->key == "scale_after_normalization") norm.scales = value(kBoolOf, Wire::kVarint) != 0;
    } else if (attribute->key == "value") {
      if (const auto tensor = field_of(file_, attribute->value, kTensorOf, Wire::kBytes))
        add_constant(name, *tensor);
    }
  }
}

FrozenGraph::Constant FrozenGraph::parse_tensor(const std::string& name, const ProtoField& tensor) {
  Constant constant;
  ProtoFields fields(file_, tensor);
  while (const auto field = fields.next()) {
    if (field->is(kType, Wire::kVarint)) constant.type = field->value;
    if (field->is(kContent, Wire::kBytes)) constant.content = field;
    if (field->is(kFloats, Wire::kFixed32)) constant.listed.push_back(as_float(field->value));
    if (field->is(kFloats, Wire::kBytes)) {
      const std::string packed = fields.text(*field, "elements of " + printable(name), field->size);
      const std::size_t before = constant.listed.size(), count = packed.size() / sizeof(float);
      constant.listed.resize(before + count);
      if (count > 0) std::memcpy(constant.listed.data() + before, packed.data(), count * sizeof(float));
    }
    if (!field->is(kShape, Wire::kBytes)) continue;
    ProtoFields shape(file_, *field);
    while (const auto part = shape.next()) {
      if (part->is(kNoRank, Wire::kVarint) && part->value != 0) fail(name, "a shape", "none");
      if (!part->is(kAxis, Wire::kBytes)) continue;
      const auto length = field_of(file_, *part, kLength, Wire::kVarint);
      const std::uint64_t extent = length ? length->value : 0;
      const std::uint64_t most = kMostConstantElements / std::max<std::uint64_t>(constant.elements, 1);
      if (extent > most || constant.shape.size() == Shape::kMaxRank)
        fail(name,
             "at most " + std::to_string(Shape::kMaxRank) +
                 " axes, of 0 or more and at most 2^40 elements in all",
             std::to_string(static_cast<std::int64_t>(extent)) + " as the length of axis " +
                 std::to_string(constant.shape.size()));
      constant.shape.push_back(static_cast<std::int64_t>(extent));
      constant.elements *= extent;
    }
  }
  return constant;
}

void FrozenGraph::add_constant(const std::string& name, const ProtoField& tensor) {
  Constant constant = parse_tensor(name, tensor);
  if (constant.type != kFloatType) return;
  WeightInfo info{.name = name,
                  .stored_dtype = "F32",
                  .shape = Shape(std::span<const std::int64_t>(constant.shape)),
                  .bytes = constant.elements * sizeof(float)};
  if (constant.content && constant.content->size > 0) {
    if (constant.content->size != info.bytes)
      fail(name,
           std::to_string(info.bytes) + " bytes, of a float for each element of " + to_string(info.shape),
           std::to_string(constant.content->size));
    info.place = constant.content->begin;
  } else {
    if (constant.listed.size() > constant.elements || (constant.listed.empty() && constant.elements > 0))
      fail(name, "elements, at most the " + std::to_string(constant.elements) + " of its shape",
           std::to_string(constant.listed.size()));
    info.place = kListed | listed_.size();
    listed_.push_back(std::move(constant.listed));
  }
  found_.push_back(std::move(info));
}

void FrozenGraph::read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const {
  if ((tensor.place & kListed) == 0) return file_.read(tensor.place + offset, to, printable(tensor.name));
  const std::vector<float>& listed = listed_[tensor.place & ~kListed];
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::uint64_t at = offset + i;
    const std::size_t element = std::min<std::uint64_t>(at / sizeof(float), listed.size() - 1);
    to[i] = std::as_bytes(std::span(&listed[element], 1))[at % sizeof(float)];
  }
}

const GraphNorm* FrozenGraph::norm(std::string_view name) const {
  const auto found = norms_.find(name);
  return found == norms_.end() ? nullptr : &found->second;
}

bool looks_like_graph(std::string_view first_bytes) {
  return first_bytes.starts_with('\x0A');
}

}  // namespace moh

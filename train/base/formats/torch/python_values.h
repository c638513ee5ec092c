#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/base/formats/torch/pickle.h"

namespace moh {

struct TorchNone {
  bool operator==(const TorchNone&) const = default;
};
/// A value of Python that contains no others.
using TorchPlain = std::variant<TorchNone, bool, std::int64_t, double, std::string_view>;

/// A plain value as Python prints it, safe for a message: "0.5", "None", "'text'".
std::string to_string(const TorchPlain& value);

/// The value `id`, if it is plain. Classes and functions become their names, NumPy scalars Python's numbers.
std::optional<TorchPlain> plain_value(const PickleTree& tree, PickleId id);

/// The children of a value and their names in a path: items of a dict, list, tuple or set, attributes of an
/// object. Containers of Python's standard library are treated as containers. Lazy: inspects a single value.
class TorchChildren {
 public:
  /// A child with its key.
  struct Child {
    std::optional<PickleId> key;  ///< the key, if the parent has keys
    std::size_t index;            ///< the position in the parent
    PickleId value;
    bool is_state = false;  ///< the state of an object without attributes
  };

  TorchChildren(const PickleTree& tree, PickleId id);

  /// Whether the value is a container, or an object with children.
  bool is_container() const { return is_container_; }
  /// Whether all children have keys, as in a dict.
  bool is_mapping() const { return is_mapping_; }
  /// Whether it is an object with attributes.
  bool is_object() const { return is_object_; }

  std::size_t size() const;
  struct Iterator {
    const TorchChildren* children;
    std::size_t position;

    Child operator*() const { return children->at(position); }
    Iterator& operator++() {
      ++position;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }
  /// The child with that text as key, or nothing.
  std::optional<PickleId> find(std::string_view key) const;

  /// The key of a child, if it is a text.
  std::optional<std::string_view> text_key(const Child& child) const;
  /// Whether the keys of all children are texts.
  bool has_text_keys() const;
  /// The name of a child in a path: "weight", "0".
  std::string name(const Child& child) const;

 private:
  enum class Layout : std::uint8_t { kList, kPairs, kPairsInTuples, kState };
  struct Part {
    Layout layout;
    PickleId id;
    const std::vector<PickleId>* items;

    std::size_t size() const;
  };

  void add(Layout layout, PickleId id);
  void add_object(PickleId id);
  void add_state(PickleId state);
  Child at(std::size_t position) const;

  const PickleTree& tree_;
  std::array<Part, 3> parts_;
  std::size_t num_parts_ = 0;
  bool is_container_ = false;
  bool is_mapping_ = false;
  bool is_object_ = false;
};

}  // namespace moh

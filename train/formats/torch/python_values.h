#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/formats/torch/pickle.h"

namespace moh {

struct TorchNone {
  bool operator==(const TorchNone&) const = default;
};
/// A value of Python that contains no others.
using TorchPlain = std::variant<TorchNone, bool, std::int64_t, double, std::string_view>;

/// "0.5", "None", "'text'": a plain value as Python writes it, fit for a message.
std::string to_string(const TorchPlain& value);

/// The value `id`, if it is a plain one; classes and functions are their names, scalars of NumPy the numbers
/// of Python.
std::optional<TorchPlain> plain_value(const PickleTree& tree, PickleId id);

/// What a value contains, under the names that a path has for it: the items of a dict, a list, a tuple or a
/// set, the attributes of an object. Containers of the standard library count as what they are. Looks
/// at one value, and makes nothing in advance.
class TorchChildren {
 public:
  /// A value under its key.
  struct Child {
    std::optional<PickleId> key;  ///< the value that is the key, of what has keys
    std::size_t index;            ///< its position
    PickleId value;
    bool is_state = false;  ///< what an object keeps that has no attributes
  };

  TorchChildren(const PickleTree& tree, PickleId id);

  /// Whether the value is a container, or an object with something in it.
  bool is_container() const { return is_container_; }
  /// Whether all is under keys, as in a dict.
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
  /// The value under that text, or nothing.
  std::optional<PickleId> find(std::string_view key) const;

  /// The key, where it is a text.
  std::optional<std::string_view> text_key(const Child& child) const;
  /// Whether that is so for all.
  bool has_text_keys() const;
  /// The text of a child's name in a path: "weight", "0".
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

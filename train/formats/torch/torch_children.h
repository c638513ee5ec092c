#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "train/formats/torch/pickle.h"

namespace moh {

/// What a value contains, under the names that a path has for it: the items of a dict, a list, a tuple or a
/// set, the attributes of an object. Containers of the standard library count as what they are. Looks
/// at one value, and makes nothing in advance.
class TorchChildren {
 public:
  /// A value under its key.
  struct Child {
    PickleId key;       ///< the value that is the key, or kNoKey
    std::size_t index;  ///< its position
    PickleId value;
    bool is_state = false;  ///< what an object keeps that has no attributes
  };
  static constexpr PickleId kNoKey = ~PickleId{0};

  TorchChildren(const PickleTree& tree, PickleId id);

  /// Whether the value is a container, or an object with something in it.
  bool is_container() const { return is_container_; }
  /// Whether all is under keys, as in a dict.
  bool is_mapping() const { return is_mapping_; }
  /// Whether it is an object with attributes.
  bool is_object() const { return is_object_; }
  std::size_t size() const;
  Child at(std::size_t position) const;

 private:
  enum class Layout : std::uint8_t { kNone, kList, kPairs, kPairsInTuples, kState };
  struct Part {
    Layout layout = Layout::kNone;
    const std::vector<PickleId>* items = nullptr;
    PickleId state = 0;

    std::size_t size() const;
  };

  void add(Layout layout, PickleId id);
  void add_object(PickleId id);
  void add_state(PickleId state);

  const PickleTree& tree_;
  std::array<Part, 3> parts_;
  std::size_t num_parts_ = 0;
  bool is_container_ = false;
  bool is_mapping_ = false;
  bool is_object_ = false;
};

/// The text of a child's name in a path: "weight", "0".
std::string child_name(const PickleTree& tree, const TorchChildren::Child& child);

}  // namespace moh

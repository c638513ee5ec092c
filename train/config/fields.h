#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/device.h"
#include "models/layers/head_set.h"
#include "models/layers/per_layer.h"
#include "train/config/name_alias.h"

/// Field lists: each field of a config struct, named once, with what it may hold and what it means. Reading,
/// checking, the resolved config and the reference are walks over such a list, and know no field by name.
namespace moh::config {

/// What a number may be, and its unit for messages and the reference ("" for a plain number).
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool includes_low = true;
  bool includes_high = true;
  std::string_view unit;
  /// Keeps products of sizes far from the end of 64 bits. No sensible value comes near it, so that it is only
  /// named to somebody who went beyond.
  double cap = std::numeric_limits<double>::infinity();

  /// Limits are small integers or given by the user's own digits: comparing in double loses nothing.
  bool contains(double value) const;

  constexpr Bounds capped(double limit) const {
    Bounds copy = *this;
    copy.cap = limit;
    return copy;
  }
};

constexpr Bounds at_least(double low, std::string_view unit = "") {
  return {.low = low, .unit = unit};
}
constexpr Bounds above(double low, std::string_view unit = "") {
  return {.low = low, .includes_low = false, .unit = unit};
}
/// low <= value < high.
constexpr Bounds from_below(double low, double high, std::string_view unit = "") {
  return {.low = low, .high = high, .includes_high = false, .unit = unit};
}
/// low < value <= high.
constexpr Bounds above_up_to(double low, double high, std::string_view unit = "") {
  return {.low = low, .high = high, .includes_low = false, .unit = unit};
}

/// An enumerator by name: the names are those of enumerators 0, 1, 2 ... Aliases are read as the names that
/// they stand for, and never written.
struct EnumRef {
  std::span<const std::string_view> names;
  std::span<const NameAlias> aliases;
  std::function<std::size_t()> get;
  std::function<void(std::size_t)> set;
};

/// A text that must be one of some names which are known at run time.
struct NameRef {
  std::string* value;
  std::vector<std::string> names;
};

/// Heads of each layer: one of the first rules by name, or lists.
struct HeadSetRef {
  HeadSet* value;
  std::span<const std::string_view> rules;
};

/// The member that a field stands for.
using Target =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::filesystem::path*, Device*, EnumRef,
                 NameRef, std::array<double, 2>*, std::vector<std::filesystem::path>*, PerLayer*, HeadSetRef>;

struct Field {
  std::string_view name;
  Target target;
  Bounds bounds;         ///< of each number in it
  std::string_view doc;  ///< one sentence, or two
};

/// The field list of one struct. It points into the struct, which therefore outlives it.
///
/// An enum E is a field type when `std::span<const std::string_view> names_of(E)` is found beside it, and its
/// names have other spellings when `std::span<const NameAlias> aliases_of(E)` is.
class Section {
 public:
  Section(std::string_view name, std::string_view doc) : name_(name), doc_(doc) {}

  template <class T>
  void field(std::string_view name, T& value, Bounds bounds, std::string_view doc) {
    fields_.push_back({name, &value, bounds, doc});
  }
  template <class T>
  void field(std::string_view name, T& value, std::string_view doc) {
    if constexpr (std::is_enum_v<T>) {
      EnumRef ref{names_of(T{}), aliases_or_none<T>(), [&value] { return static_cast<std::size_t>(value); },
                  [&value](std::size_t i) { value = static_cast<T>(i); }};
      fields_.push_back({name, std::move(ref), {}, doc});
    } else {
      fields_.push_back({name, &value, {}, doc});
    }
  }
  void field(std::string_view name, NameRef value, std::string_view doc) {
    fields_.push_back({name, std::move(value), {}, doc});
  }
  void field(std::string_view name, HeadSetRef value, Bounds bounds, std::string_view doc) {
    fields_.push_back({name, value, bounds, doc});
  }
  void section(Section section) { sections_.push_back(std::move(section)); }
  /// The section of that name, made where there is none: a family adds fields to a section of every run.
  Section& section_named(std::string_view name);

  std::string_view name() const { return name_; }
  std::string_view doc() const { return doc_; }
  const std::vector<Field>& fields() const { return fields_; }
  const std::vector<Section>& sections() const { return sections_; }

 private:
  template <class E>
  static std::span<const NameAlias> aliases_or_none() {
    if constexpr (requires { aliases_of(E{}); }) {
      return aliases_of(E{});
    } else {
      return {};
    }
  }

  std::string_view name_;
  std::string_view doc_;
  std::vector<Field> fields_;
  std::vector<Section> sections_;
};

/// "prefix.name", or the name alone at the top.
std::string join_key(std::string_view prefix, std::string_view name);

/// Every key below the section, sections included, in the order of the list: "train", "train.steps", ...
std::vector<std::string> all_keys(const Section& root);

/// What may stand there: "an integer of at least 1 (steps)", "one of cosine, constant".
std::string expected_text(const Field& field);
/// The same for one element of a list.
std::string expected_element_text(const Field& field);

}  // namespace moh::config

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/device.h"
#include "models/layers/head_set.h"
#include "models/layers/per_layer.h"

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
  /// A limit that no sensible value comes near: it is only named to somebody who went beyond.
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

// Upper bounds keep products of sizes (elements, bytes) far from the end of 64 bits, and what is done for
// each layer and head without computing, as in `moh plan`, within seconds; no model comes near them.
inline constexpr double kMaxWidth = 1 << 20;
inline constexpr double kMaxLayers = 1024;
inline constexpr double kMaxHeads = 4096;
inline constexpr double kMaxLength = 1 << 24;
inline constexpr double kMaxVocab = 1 << 26;
inline constexpr double kMaxSteps = 1e12;

/// Another spelling of a name.
struct NameAlias {
  std::string_view alias;
  std::string_view name;
};

/// A member that holds one of some names. Aliases are read as the names that they stand for, and never
/// written.
struct Choice {
  std::vector<std::string> names;
  std::span<const NameAlias> aliases;
  std::function<std::string()> get;
  std::function<void(std::size_t)> set;  ///< to the name of that index
};

/// An enumerator by name. The enum is a field type when `std::span<const std::string_view> names_of(E)` is
/// found beside it, and its names have other spellings when `std::span<const NameAlias> aliases_of(E)` is.
template <class E>
Choice choice_of(E& value) {
  const std::span<const std::string_view> names = names_of(E{});
  Choice choice{.names = {names.begin(), names.end()},
                .get = [&value, names] { return std::string(names[static_cast<std::size_t>(value)]); },
                .set = [&value](std::size_t i) { value = static_cast<E>(i); }};
  if constexpr (requires { aliases_of(E{}); }) choice.aliases = aliases_of(E{});
  return choice;
}

/// A text that must be one of some names which are known at run time.
inline Choice choice_of(std::string& value, std::vector<std::string> names) {
  return {.names = names,
          .get = [&value] { return value; },
          .set = [&value, names = std::move(names)](std::size_t i) { value = names[i]; }};
}

/// The member that a field stands for.
using Target =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::filesystem::path*, Device*, Choice,
                 std::array<double, 2>*, std::vector<std::filesystem::path>*, PerLayer*, HeadSet*>;

struct Field {
  std::string_view name;
  Target target;
  Bounds bounds;         ///< of each number in it
  std::string_view doc;  ///< one sentence, or two
};

/// The field list of one struct. It points into the struct, which therefore outlives it.
class Section {
 public:
  Section(std::string_view name, std::string_view doc) : name_(name), doc_(doc) {}

  template <class T>
  void field(std::string_view name, T& value, Bounds bounds, std::string_view doc) {
    add(name, &value, bounds, doc);
  }
  template <class T>
  void field(std::string_view name, T& value, std::string_view doc) {
    if constexpr (std::is_enum_v<T>) {
      field(name, choice_of(value), doc);
    } else {
      field(name, value, Bounds(), doc);
    }
  }
  void field(std::string_view name, Choice choice, std::string_view doc) {
    add(name, std::move(choice), {}, doc);
  }
  void section(Section section) { sections_.push_back(std::move(section)); }
  /// The section of that name, made where there is none: a family adds fields to a section of every run. The
  /// reference stays valid when others are added.
  Section& section_named(std::string_view name, std::string_view doc = "");

  std::string_view name() const { return name_; }
  std::string_view doc() const { return doc_; }
  const std::vector<Field>& fields() const { return fields_; }
  const std::list<Section>& sections() const { return sections_; }

 private:
  void add(std::string_view name, Target target, Bounds bounds, std::string_view doc);

  std::string_view name_;
  std::string_view doc_;
  std::vector<Field> fields_;
  std::list<Section> sections_;
};

/// "prefix.name", or the name alone at the top.
std::string join_key(std::string_view prefix, std::string_view name);
/// "name" of "prefix.name".
std::string_view last_name(std::string_view key);

/// Every key below the section, sections included, in the order of the list: "train", "train.steps", ...
std::vector<std::string> all_keys(const Section& root);

/// A field with its whole key.
struct KeyedField {
  std::string key;
  const Field* field;
};
/// Every field below the section, in the order of the list. Keys begin with the section's own name.
std::vector<KeyedField> all_fields(const Section& section);
std::vector<KeyedField> all_fields(Section&&) = delete;  // they would outlive what they point at

/// Whether the key is one of `keys`, of which one that ends in a dot stands for all keys below it.
bool is_among(std::string_view key, std::span<const std::string_view> keys);

/// What may stand there: "an integer of at least 1 (steps)", "one of cosine, constant".
std::string expected_text(const Field& field);
/// The same for one element of a list.
std::string expected_element_text(const Field& field);

}  // namespace moh::config

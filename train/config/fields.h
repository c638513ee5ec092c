#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/device.h"
#include "models/layers/head_set.h"
#include "models/layers/per_layer.h"
#include "models/layers/registry.h"
#include "train/config/data_source.h"
#include "train/config/field_properties.h"

/// Field lists: each field of a config struct with its key, allowed values and explanation, defined in one
/// place. Reading, checking, the resolved config and the reference iterate over such a list.
namespace moh::config {

/// The range of a number, and its unit for messages and the reference ("" for none).
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool includes_low = true;
  bool includes_high = true;
  std::string_view unit;
  /// A limit far above sensible values: named only in the message for a value beyond it.
  double cap = std::numeric_limits<double>::infinity();

  /// Comparing in double is exact enough: limits are small integers, or decimals as the user's value.
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

/// low <= value <= high.
constexpr Bounds from_up_to(double low, double high, std::string_view unit = "") {
  return {.low = low, .high = high, .unit = unit};
}

// Upper bounds, far above the sizes of any model. They keep products of sizes (elements, bytes) within 64
// bits, and work per layer and head without computation, as in `moh plan`, within seconds.
inline constexpr double kMaxWidth = 1 << 20;
inline constexpr double kMaxLayers = 1024;
inline constexpr double kMaxHeads = 4096;
inline constexpr double kMaxLength = 1 << 24;
inline constexpr double kMaxVocab = 1 << 26;
inline constexpr double kMaxSteps = 1e12;
inline constexpr double kMaxEpochs = 1e6;

/// An alias of a name.
struct NameAlias {
  std::string_view alias;
  std::string_view name;
};

/// A member whose value is one of a list of names. Aliases are accepted, but never written.
struct Choice {
  std::vector<std::string> names;
  std::span<const NameAlias> aliases;
  std::function<std::string()> get;
  std::function<void(std::size_t)> set;  ///< to the name of that index
  /// Names that a list may have, each of them once; empty where a list is refused. `names` has what lists
  /// mean, as "[a, b]" where it has no name of its own.
  std::vector<std::string> parts = {};
  std::function<void(const std::vector<std::size_t>&)> set_parts = {};  ///< to the list of these `parts`
};

/// A member of an enum type, by name. The enum needs a function `std::span<const std::string_view>
/// names_of(E)`, found by argument-dependent lookup, and for aliases `std::span<const NameAlias>
/// aliases_of(E)`.
template <class E>
requires std::is_enum_v<E> Choice choice_of(E& value) {
  const std::span<const std::string_view> names = names_of(E{});
  Choice choice{.names = {names.begin(), names.end()},
                .get = [&value, names] { return std::string(names[static_cast<std::size_t>(value)]); },
                .set = [&value](std::size_t i) { value = static_cast<E>(i); }};
  if constexpr (requires { aliases_of(E{}); }) choice.aliases = aliases_of(E{});
  return choice;
}

/// A text that must be one of `names`, which are known at run time only.
inline Choice choice_of(std::string& value, std::vector<std::string> names) {
  return {.names = names,
          .get = [&value] { return value; },
          .set = [&value, names = std::move(names)](std::size_t i) { value = names[i]; }};
}

/// A member that refers to a registered type, by name.
template <class T>
Choice choice_of(Registered<T>& value) {
  Choice choice{.get = [&value] { return std::string(value->name); },
                .set = [&value](std::size_t i) { value = Registered<T>(*T::registry().all()[i]); }};
  for (const T* type : T::registry().all()) choice.names.emplace_back(type->name);
  return choice;
}

class Section;

/// A list of structs, each a map in the YAML with the fields of a section.
struct StructList {
  std::function<std::size_t()> size;
  std::function<void(std::size_t)> reset;      ///< to so many structs of default values
  std::function<Section(std::size_t)> fields;  ///< of the struct of that index
  std::function<Section()> defaults;           ///< the same fields with their default values
};

/// The struct member of a field. An optional number that is not set cannot be written, and is left out.
using Target =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::filesystem::path*, Device*, Choice,
                 std::array<double, 2>*, std::array<double, 3>*, std::vector<std::int64_t>*,
                 std::vector<std::filesystem::path>*, std::vector<DataSource>*, PerLayer*, HeadSet*,
                 std::optional<double>*, std::vector<std::string>*, StructList>;

struct Field {
  std::string_view name;
  Target target;
  Bounds bounds;    ///< of the number, or of each number of a list
  std::string doc;  ///< one sentence, or two
  /// Values of a path that are words and not paths.
  std::span<const std::string_view> words = {};
  FieldProperties properties = {};  ///< as declared; KeyedField has those of its sections, too
};

/// Whether a field counts heads, of which a share can be given ("25%").
inline bool takes_share(const Field& field) {
  return std::holds_alternative<PerLayer*>(field.target) && field.bounds.unit == "heads";
}

/// The field list of one struct. It points into the struct, which must outlive it. What adds a field returns
/// its properties, a reference that is valid until the next field is added.
class Section {
 public:
  Section(std::string_view name, std::string_view doc) : name_(name), doc_(doc) {}

  template <class T>
  FieldProperties& field(std::string_view name, T& value, Bounds bounds, std::string_view doc) {
    return add(name, &value, bounds, doc).properties;
  }
  template <class T>
  FieldProperties& field(std::string_view name, T& value, std::string_view doc) {
    if constexpr (requires { choice_of(value); }) {
      return field(name, choice_of(value), doc);
    } else {
      return field(name, value, Bounds(), doc);
    }
  }
  FieldProperties& field(std::string_view name, Choice choice, std::string_view doc) {
    return add(name, std::move(choice), {}, doc).properties;
  }
  /// A list of maps: `describe` adds the fields of one struct to a section.
  template <class T>
  void list(std::string_view name, std::vector<T>& structs, void (*describe)(T&, Section&),
            std::string_view doc);
  /// A path, or one of `words`, which outlive this object.
  FieldProperties& path_or_word(std::string_view name, std::filesystem::path& value,
                                std::span<const std::string_view> words, std::string_view doc) {
    Field& added = add(name, &value, {}, doc);
    added.words = words;
    return added.properties;
  }
  void section(Section section) { sections_.push_back(std::move(section)); }
  /// The subsection of that name, created if there is none, so that a family can add fields to a section of
  /// every run. The reference stays valid when others are added.
  Section& section_named(std::string_view name, std::string_view doc = "");

  /// The properties of all fields of the section, also of subsections and of those that are added later,
  /// unless they say otherwise.
  FieldProperties& properties() { return properties_; }
  const FieldProperties& properties() const { return properties_; }
  /// The properties of a field of this section, for what only some users of a common field list say of it.
  /// Throws InternalError if there is no such field.
  FieldProperties& properties_of(std::string_view name);

  /// A value in place of the section's map is that of its first field. `suffices` says whether the others
  /// have their defaults: then the section is written so, too.
  void allow_short_form(std::function<bool()> suffices) { short_form_suffices_ = std::move(suffices); }
  bool has_short_form() const { return short_form_suffices_ != nullptr; }
  bool is_short() const { return has_short_form() && short_form_suffices_(); }

  std::string_view name() const { return name_; }
  std::string_view doc() const { return doc_; }
  const std::vector<Field>& fields() const { return fields_; }
  const std::list<Section>& sections() const { return sections_; }

 private:
  Field& add(std::string_view name, Target target, Bounds bounds, std::string_view doc);

  std::string_view name_;
  std::string_view doc_;
  std::vector<Field> fields_;
  std::list<Section> sections_;
  FieldProperties properties_;
  std::function<bool()> short_form_suffices_;
};

template <class T>
void Section::list(std::string_view name, std::vector<T>& structs, void (*describe)(T&, Section&),
                   std::string_view doc) {
  const auto fields_of = [describe](T& of) {
    Section section("", "");
    describe(of, section);
    return section;
  };
  const auto unset = std::make_shared<T>();
  add(name,
      StructList{[&structs] { return structs.size(); },
                 [&structs](std::size_t size) { structs = std::vector<T>(size); },
                 [&structs, fields_of](std::size_t i) { return fields_of(structs[i]); },
                 [unset, fields_of] { return fields_of(*unset); }},
      {}, doc);
}

/// "prefix.name", or "name" if the prefix is empty.
std::string join_key(std::string_view prefix, std::string_view name);
/// "name" of "prefix.name".
std::string_view last_name(std::string_view key);

/// Every key of the section and its subsections, names of subsections included, in order: "train",
/// "train.steps", ...
std::vector<std::string> all_keys(const Section& root);

/// A field with its whole key.
struct KeyedField {
  std::string key;
  const Field* field;
  FieldProperties properties;  ///< of the field within its sections

  bool has(FieldProperty property) const { return properties.has(property); }
};
/// Every field of the section and its subsections, in order. Keys begin with the section's own name.
std::vector<KeyedField> all_fields(const Section& section);
std::vector<KeyedField> all_fields(Section&&) = delete;  // they would outlive what they point at

/// The allowed values: "an integer of at least 1 (steps)", "one of cosine, constant".
std::string expected_text(const Field& field);
/// The allowed values of one element of a list.
std::string expected_element_text(const Field& field);

}  // namespace moh::config

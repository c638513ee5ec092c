#include "train/config/read_fields.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "core/error.h"
#include "train/config/number_text.h"
#include "train/config/suggest.h"

namespace moh::config {

namespace {

namespace fs = std::filesystem;

/// A value that is not allowed: what was found, and how to fix it. Both may be empty; the message then shows
/// the value as written.
struct Mismatch {
  std::string found;
  std::string fix;
};

/// A scalar parsed as T, or the reason why it could not be.
template <class T>
using Reading = std::variant<T, Mismatch>;

Mismatch unquote(const Value& value) {
  return {"the text " + found_text(value), "remove the quotes"};
}

Reading<bool> read_bool(const Value& value) {
  static constexpr std::string_view kTrue[] = {"on",   "yes", "y",   "1",  "True",
                                               "TRUE", "On",  "Yes", "ON", "YES"};
  static constexpr std::string_view kFalse[] = {"off",   "no",  "n",  "0",   "False",
                                                "FALSE", "Off", "No", "OFF", "NO"};
  if (std::ranges::count(kTrue, value.text) != 0) return Mismatch{"", "write true"};
  if (std::ranges::count(kFalse, value.text) != 0) return Mismatch{"", "write false"};
  if (value.text != "true" && value.text != "false") return Mismatch{};
  if (value.quoted) return unquote(value);
  return value.text == "true";
}

template <class T>
Reading<T> read_number(const Value& value, const Bounds& bounds) {
  constexpr bool kInteger = std::is_same_v<T, std::int64_t>;
  std::optional<T> number;
  if constexpr (kInteger)
    number = parse_integer(value.text);
  else
    number = parse_number(value.text);
  if (!number) return Mismatch{"", number_advice(value.text, kInteger, bounds.unit)};
  if (value.quoted) return unquote(value);
  const double size = static_cast<double>(*number);
  if (size > bounds.cap) return Mismatch{"", "the limit is " + number_text(bounds.cap)};
  if (!bounds.contains(size)) return Mismatch{};
  return *number;
}

bool is_share(const Value& value) {
  return value.kind == Value::Kind::kScalar && value.text.ends_with('%');
}

/// Parses "75%" as 75.
Reading<double> read_percent(const Value& value) {
  const std::optional<double> percent =
      parse_number(std::string_view(value.text).substr(0, value.text.size() - 1));
  if (!percent || *percent < 0 || *percent > 100) return Mismatch{};
  return *percent;
}

Reading<fs::path> read_path(const Value& value) {
  if (value.text.empty()) return Mismatch{};
  if (value.text.find('\0') != std::string::npos) return Mismatch{"a NUL character in it", ""};
  if (value.text == "~" || value.text.starts_with("~/")) {
    return Mismatch{"", "only a shell expands ~; write the whole path"};
  }
  return fs::path(value.text);
}

Reading<Device> read_device(const Value& value) {
  try {
    return parse_device(value.text);
  } catch (const ValueError&) {
    const bool is_gpu = value.text == "gpu" || value.text == "nvidia" || value.text.starts_with("gpu:");
    return Mismatch{"", is_gpu ? "did you mean cuda?" : ""};
  }
}

/// The index of a name.
Reading<std::size_t> read_name(const Value& value, const Choice& choice) {
  const auto alias = std::ranges::find(choice.aliases, value.text, &NameAlias::alias);
  const std::string text = alias == choice.aliases.end() ? value.text : std::string(alias->name);
  const auto name = std::ranges::find(choice.names, text);
  if (name != choice.names.end() && text.starts_with('[')) return unquote(value);  // else it is no scalar
  if (name != choice.names.end()) return static_cast<std::size_t>(name - choice.names.begin());
  constexpr std::array<std::string_view, 5> kHalves = {"float16", "fp16", "f16", "half", "16-mixed"};
  if (std::ranges::count(choice.names, "bfloat16") > 0 && std::ranges::count(kHalves, value.text) > 0)
    return Mismatch{"", "float16 is not supported; use bfloat16"};
  const std::string nearest = nearest_name(value.text, choice.names);
  return Mismatch{"", nearest.empty() ? "" : "did you mean " + nearest + "?"};
}

/// The index of one of `choice.parts`, unless it is among those that the list has `before`.
Reading<std::size_t> read_part(const Value& value, const Choice& choice,
                               const std::vector<std::size_t>& before) {
  Reading<std::size_t> reading = read_name(value, {.names = choice.parts});
  const auto* part = std::get_if<std::size_t>(&reading);
  if (part != nullptr && std::ranges::count(before, *part) > 0)
    return Mismatch{found_text(value) + " a second time", "name it once"};
  return reading;
}

/// Reads the fields of a map whose key is `base`.
void read_map(const Section& fields, const Value& map, const std::string& base, GivenKeys& given,
              Problems& problems);

/// Visitor of a field's Target: reads a value, or an element of a list, into it.
class ValueReader {
 public:
  ValueReader(const Field& field, const Value& value, std::string key, GivenKeys& given, Problems& problems,
              bool is_element = false)
      : field_(field),
        value_(value),
        key_(std::move(key)),
        given_(given),
        problems_(problems),
        is_element_(is_element) {}

  /// Reads a share in place of a count.
  bool read_share(double& percent) { return scalar(read_percent(value_), percent); }

  bool operator()(bool* target) { return scalar(read_bool(value_), *target); }
  bool operator()(std::int64_t* target) {
    return scalar(read_number<std::int64_t>(value_, field_.bounds), *target);
  }
  bool operator()(double* target) { return scalar(read_number<double>(value_, field_.bounds), *target); }
  bool operator()(std::string* target) { return scalar(Reading<std::string>(value_.text), *target); }
  bool operator()(fs::path* target) { return scalar(read_path(value_), *target); }
  bool operator()(Device* target) { return scalar(read_device(value_), *target); }
  bool operator()(std::vector<std::int64_t>* target) {
    return is_list(value_) ? list(*target) : refuse_type();
  }

  bool operator()(const Choice& choice) {
    if (is_list(value_) && !choice.parts.empty()) return parts(choice);
    std::size_t index = 0;
    const bool read = scalar(read_name(value_, choice), index);
    if (read) choice.set(index);
    return read;
  }

  template <std::size_t N>
  bool operator()(std::array<double, N>* target) {
    if (!is_list(value_)) return refuse_type();
    if (value_.items.size() != target->size())
      return refuse({"a list of length " + std::to_string(value_.items.size()), ""});
    std::vector<double> numbers;
    const bool read = list(numbers);
    if (read) std::ranges::copy(numbers, target->begin());
    return read;
  }

  bool operator()(std::vector<fs::path>* target) {
    std::vector<fs::path> paths(1);
    const bool read = is_list(value_) ? list(paths) : (*this)(&paths[0]);
    if (read) *target = std::move(paths);
    return read;
  }

  bool operator()(std::optional<double>* target) {
    double number = 0;
    const bool read = (*this)(&number);
    if (read) *target = number;
    return read;
  }

  bool operator()(std::vector<std::string>* target) {
    std::vector<std::string> texts(1);
    const bool read = is_list(value_) ? list(texts) : (*this)(&texts[0]);
    if (read) *target = std::move(texts);
    return read;
  }

  bool operator()(const StructList& target) {
    if (!is_list(value_)) return refuse_type();
    target.reset(value_.items.size());
    std::erase_if(given_.places, [&](const auto& place) { return place.first.starts_with(key_ + "["); });
    bool all_maps = true;
    for (std::size_t i = 0; i < value_.items.size(); ++i) {
      const Value& item = value_.items[i];
      const std::string key = key_ + "[" + std::to_string(i) + "]";
      if (item.kind == Value::Kind::kMap) {
        read_map(target.fields(i), item, key, given_, problems_);
      } else {
        all_maps = ValueReader(field_, item, key, given_, problems_, /*is_element=*/true).refuse_type();
      }
    }
    return all_maps;
  }

  bool operator()(std::vector<DataSource>* target) {
    const auto is_map = [](const Value& value) { return value.kind == Value::Kind::kMap; };
    if (is_map(value_)) return refuse_type();
    if (is_list(value_) && std::ranges::any_of(value_.items, is_map)) return list(*target);
    std::vector<fs::path> paths;
    const Field plain{field_.name, &paths, {}, ""};
    const bool read = ValueReader(plain, value_, key_, given_, problems_)(&paths);
    if (read) *target = unnamed_source(std::move(paths));
    return read;
  }

  /// An element of a list of sources.
  bool operator()(DataSource* target) {
    if (value_.kind != Value::Kind::kMap) return refuse_type();
    DataSource source;
    const std::array<Field, 3> fields = {Field{"name", &source.name, {}, ""},
                                         Field{"path", &source.paths, {}, ""},
                                         Field{"weight", &source.weight, above(0), ""}};
    bool all_read = true;
    for (const Entry& entry : value_.entries) {
      const auto field = std::ranges::find(fields, entry.key, &Field::name);
      const std::string key = join_key(key_, entry.key);
      if (field == fields.end()) {
        problems_.add(entry.mark, shown(key) + ": unknown key; a source has name, path and weight");
        all_read = false;
      } else {
        all_read &= std::visit(ValueReader(*field, entry.value, key, given_, problems_), field->target);
      }
    }
    if (all_read && (source.name.empty() || source.paths.empty()))
      return refuse({"one without name or path", ""});
    if (all_read) *target = std::move(source);
    return all_read;
  }

  bool operator()(PerLayer* target) {
    if (is_list(value_) && value_.items.empty()) return refuse({"an empty list", ""});
    PerLayer counts;
    const bool read = is_list(value_) ? list(counts.each) : (*this)(&counts.every);
    if (read) *target = std::move(counts);
    return read;
  }

  bool operator()(HeadSet* target) {
    HeadSet heads;
    const bool by_layer = !value_.items.empty() && std::ranges::all_of(value_.items, is_list);
    const bool read = by_layer          ? list(heads.each)
                      : is_list(value_) ? list(heads.every)
                                        : (*this)(choice_of(heads.rule));
    if (read) *target = std::move(heads);
    return read;
  }

 private:
  static bool is_list(const Value& value) { return value.kind == Value::Kind::kList; }

  template <class T>
  bool scalar(Reading<T> reading, T& target) {
    if (value_.kind != Value::Kind::kScalar) return refuse_type();
    if (!value_.quoted && (value_.text == "null" || value_.text == "~"))
      return refuse({"nothing (" + value_.text + ")", "remove the key, or quote the text"});
    if (const Mismatch* mismatch = std::get_if<Mismatch>(&reading)) return refuse(*mismatch);
    target = std::get<T>(std::move(reading));
    return true;
  }

  /// Reads a list of parts of a choice.
  bool parts(const Choice& choice) {
    if (value_.items.empty()) return refuse({"an empty list", ""});
    std::vector<std::size_t> read;
    for (std::size_t i = 0; i < value_.items.size(); ++i) {
      const Value& item = value_.items[i];
      ValueReader element(field_, item, key_ + "[" + std::to_string(i) + "]", given_, problems_,
                          /*is_element=*/true);
      std::size_t part = 0;
      if (element.scalar(read_part(item, choice, read), part)) read.push_back(part);
    }
    const bool all_read = read.size() == value_.items.size();
    if (all_read) choice.set_parts(read);
    return all_read;
  }

  /// Reads every element, also after an error, so that all errors are reported.
  template <class T>
  bool list(std::vector<T>& target) {
    std::vector<T> values(value_.items.size());
    bool all_read = true;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ValueReader element(field_, value_.items[i], key_ + "[" + std::to_string(i) + "]", given_, problems_,
                          /*is_element=*/true);
      all_read &= element(&values[i]);
    }
    if (all_read) target = std::move(values);
    return all_read;
  }

  bool refuse_type() {
    if (value_.kind != Value::Kind::kNull) return refuse({});
    return refuse({"nothing", is_element_ ? "" : "write a value, or remove the key"});
  }

  bool refuse(const Mismatch& mismatch) {
    if (value_.kind == Value::Kind::kRefused) return false;
    problems_.add(value_.mark, key_, is_element_ ? expected_element_text(field_) : expected_text(field_),
                  mismatch.found.empty() ? found_text(value_) : mismatch.found, mismatch.fix);
    return false;
  }

  const Field& field_;
  const Value& value_;
  std::string key_;
  GivenKeys& given_;
  Problems& problems_;
  bool is_element_;  ///< of the field's list, or of a list in it
};

class FieldsReader {
 public:
  /// `base` is the key of the map that `root` describes.
  FieldsReader(const Section& root, std::string base, GivenKeys& given, Problems& problems)
      : root_(root), base_(std::move(base)), given_(given), problems_(problems) {}

  void read(const Section& section, const Value& map, const std::string& prefix) {
    for (const Entry& entry : map.entries) {
      const std::string key = join_key(prefix, entry.key);
      const auto field = std::ranges::find(section.fields(), entry.key, &Field::name);
      const auto child = std::ranges::find(section.sections(), entry.key, &Section::name);
      if (field != section.fields().end()) {
        read_field(*field, entry.value, key, key);
      } else if (child != section.sections().end() && is_short_form(*child, entry.value)) {
        const Field& first = child->fields().front();
        read_field(first, entry.value, join_key(key, first.name), key);
      } else if (child != section.sections().end()) {
        read_section(*child, entry.value, key);
      } else {
        report_unknown(section, entry, key, prefix);
      }
    }
  }

 private:
  static bool is_short_form(const Section& section, const Value& value) {
    return section.has_short_form() && value.kind != Value::Kind::kMap;
  }

  /// `shown` is what messages call the key.
  void read_field(const Field& field, const Value& value, const std::string& key, const std::string& shown) {
    given_.shares.erase(key);
    ValueReader reader(field, value, shown, given_, problems_);
    const bool share = takes_share(field) && is_share(value);
    if (share ? reader.read_share(given_.shares[key]) : std::visit(reader, field.target)) {
      given_.places.insert_or_assign(key, value.mark);
    } else {
      given_.refused.insert(key);
    }
  }

  void read_section(const Section& section, const Value& value, const std::string& key) {
    if (value.kind == Value::Kind::kMap) return read(section, value, key);
    given_.refused.insert(key);
    if (value.kind == Value::Kind::kNull) {
      problems_.add(value.mark, key, "keys below it", "nothing", "indent its keys, or remove it");
    } else if (value.kind != Value::Kind::kRefused) {
      problems_.add(value.mark, key, "keys below it", found_text(value));
    }
  }

  void report_unknown(const Section& section, const Entry& entry, const std::string& key,
                      std::string_view prefix) {
    std::string text = shown(key) + ": unknown key";
    if (!problems_.full()) {  // the search is slow, and a hostile file has many unknown keys
      std::vector<std::string> known = all_keys(root_);
      for (std::string& name : known) name = join_key(base_, name);
      const std::string nearest = nearest_key(key, known);
      given_.refused.insert(nearest);
      text += nearest.empty() ? "; known keys" + (prefix.empty() ? "" : " of " + std::string(prefix)) + ": " +
                                    names_of_keys(section)
                              : "; did you mean " + nearest + "?";
    }
    problems_.add(entry.mark, text);
  }

  static std::string names_of_keys(const Section& section) {
    std::string names;
    const auto add = [&](std::string_view name) { names.append(names.empty() ? "" : ", ").append(name); };
    for (const Field& field : section.fields()) add(field.name);
    for (const Section& child : section.sections()) add(child.name());
    return names;
  }

  const Section& root_;
  std::string base_;
  GivenKeys& given_;
  Problems& problems_;
};

void read_map(const Section& fields, const Value& map, const std::string& base, GivenKeys& given,
              Problems& problems) {
  FieldsReader(fields, base, given, problems).read(fields, map, base);
}

}  // namespace

void read_fields(const Section& root, const Value& layer, GivenKeys& given, Problems& problems) {
  read_map(root, layer, "", given, problems);
}

}  // namespace moh::config

#include "train/config/read_value.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "core/error.h"
#include "train/config/enum_names.h"
#include "train/config/number_text.h"
#include "train/config/suggest.h"

namespace moh::config {

namespace {

namespace fs = std::filesystem;

/// A value that does not fit: what was found instead, and what to do. Both may be empty, `found` then stands
/// for the value as written.
struct Mismatch {
  std::string found;
  std::string fix;
};

/// A scalar read as T, or why not.
template <class T>
using Reading = std::variant<T, Mismatch>;

bool is_null_text(const Value& value) {
  return !value.quoted && (value.text == "null" || value.text == "~");
}

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
struct ReadNumber {
  static constexpr bool kInteger = std::is_same_v<T, std::int64_t>;
  const Bounds& bounds;

  Reading<T> operator()(const Value& value) const {
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
};

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
    return Mismatch{};
  }
}

/// The index of a name.
Reading<std::size_t> read_name(const Value& value, const Choice& choice) {
  const auto alias = std::ranges::find(choice.aliases, value.text, &NameAlias::alias);
  const std::string text = alias == choice.aliases.end() ? value.text : std::string(alias->name);
  const auto name = std::ranges::find(choice.names, text);
  if (name != choice.names.end()) return static_cast<std::size_t>(name - choice.names.begin());
  const std::string nearest = nearest_name(value.text, choice.names);
  return Mismatch{"", nearest.empty() ? "" : "did you mean " + nearest + "?"};
}

/// One visit: reads `value` into the target that the field's variant holds.
class ValueReader {
 public:
  ValueReader(const Field& field, const Value& value, std::string key, Problems& problems,
              bool is_element = false)
      : field_(field), value_(value), key_(std::move(key)), problems_(problems), is_element_(is_element) {}

  bool operator()(bool* target) { return scalar(read_bool, *target); }
  bool operator()(std::int64_t* target) { return scalar(integer(), *target); }
  bool operator()(double* target) { return scalar(number(), *target); }
  bool operator()(std::string* target) {
    return scalar([](const Value& v) { return Reading<std::string>(v.text); }, *target);
  }
  bool operator()(fs::path* target) { return scalar(read_path, *target); }
  bool operator()(Device* target) { return scalar(read_device, *target); }

  bool operator()(const Choice& choice) {
    std::size_t index = 0;
    const bool read = scalar([&](const Value& v) { return read_name(v, choice); }, index);
    if (read) choice.set(index);
    return read;
  }

  bool operator()(std::array<double, 2>* target) {
    if (!is_list()) return refuse_type();
    if (value_.items.size() != target->size())
      return refuse({"a list of " + std::to_string(value_.items.size()), ""});
    std::vector<double> numbers;
    if (!list(number(), numbers)) return false;
    *target = {numbers[0], numbers[1]};
    return true;
  }

  bool operator()(std::vector<fs::path>* target) {
    if (is_list()) return list(read_path, *target);
    fs::path one;
    if (!scalar(read_path, one)) return false;
    *target = {one};
    return true;
  }

  bool operator()(PerLayer* target) {
    if (is_list() && value_.items.empty()) return refuse({"an empty list", ""});
    PerLayer counts;
    const bool read = is_list() ? list(integer(), counts.each) : scalar(integer(), counts.every);
    if (read) *target = counts;
    return read;
  }

  bool operator()(HeadSet* target) {
    HeadSet heads;
    const bool read = !is_list()           ? (*this)(choice_of(heads.rule))
                      : is_list_of_lists() ? lists(heads.each)
                                           : list(integer(), heads.every);
    if (read) *target = heads;
    return read;
  }

 private:
  ReadNumber<std::int64_t> integer() const { return {field_.bounds}; }
  ReadNumber<double> number() const { return {field_.bounds}; }

  bool is_list() const { return value_.kind == Value::Kind::kList; }
  bool is_list_of_lists() const {
    return !value_.items.empty() &&
           std::ranges::all_of(value_.items, [](const Value& v) { return v.kind == Value::Kind::kList; });
  }

  ValueReader element(std::size_t i) const {
    return {field_, value_.items[i], key_ + "[" + std::to_string(i) + "]", problems_, /*is_element=*/true};
  }

  template <class Read, class T>
  bool scalar(Read&& read, T& target) {
    if (value_.kind != Value::Kind::kScalar) return refuse_type();
    if (is_null_text(value_))
      return refuse({"nothing (" + value_.text + ")", "remove the key, or quote the text"});
    Reading<T> reading = read(value_);
    if (const Mismatch* mismatch = std::get_if<Mismatch>(&reading)) return refuse(*mismatch);
    target = std::get<T>(std::move(reading));
    return true;
  }

  /// Reads every element, so that all wrong ones are reported.
  template <class Read, class T>
  bool list(Read&& read, std::vector<T>& target) {
    return each(target, [&](ValueReader element, T& value) { return element.scalar(read, value); });
  }
  /// One list of integers per layer.
  bool lists(std::vector<std::vector<std::int64_t>>& target) {
    return each(target, [&](ValueReader element, auto& value) { return element.list(integer(), value); });
  }
  template <class T, class Read>
  bool each(std::vector<T>& target, Read&& read) {
    std::vector<T> values(value_.items.size());
    bool all_read = true;
    for (std::size_t i = 0; i < values.size(); ++i) all_read &= read(element(i), values[i]);
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
  Problems& problems_;
  bool is_element_;  ///< of the field's list, or of a list in it
};

}  // namespace

bool read_value(const Field& field, const Value& value, const std::string& key, Problems& problems) {
  return std::visit(ValueReader(field, value, key, problems), field.target);
}

}  // namespace moh::config

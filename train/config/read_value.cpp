#include "train/config/read_value.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
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
struct Reading {
  std::optional<T> value;
  Mismatch mismatch;

  Reading(T v) : value(std::move(v)) {}
  Reading(Mismatch m) : mismatch(std::move(m)) {}
};

bool is_null_text(const Value& value) {
  return !value.quoted && (value.text == "null" || value.text == "~");
}

Mismatch unquote(const Value& value) {
  return {"the text " + found_text(value), "remove the quotes"};
}

Reading<bool> read_bool(const Value& value) {
  if (value.text != "true" && value.text != "false") {
    static constexpr std::string_view kTrue[] = {"on",   "yes", "y",   "1",  "True",
                                                 "TRUE", "On",  "Yes", "ON", "YES"};
    static constexpr std::string_view kFalse[] = {"off",   "no",  "n",  "0",   "False",
                                                  "FALSE", "Off", "No", "OFF", "NO"};
    for (std::string_view word : kTrue) {
      if (value.text == word) return Mismatch{"", "write true"};
    }
    for (std::string_view word : kFalse) {
      if (value.text == word) return Mismatch{"", "write false"};
    }
    return Mismatch{};
  }
  if (value.quoted) return unquote(value);
  return value.text == "true";
}

template <class T>
struct ReadNumber {
  static constexpr bool kInteger = std::is_same_v<T, std::int64_t>;
  const Bounds& bounds;

  Reading<T> operator()(const Value& value) const {
    const std::optional<T> number = parse(value.text);
    if (!number) return Mismatch{"", number_advice(value.text, kInteger, bounds.unit)};
    if (value.quoted) return unquote(value);
    const double size = static_cast<double>(*number);
    if (size > bounds.cap) return Mismatch{"", "the limit is " + number_text(bounds.cap)};
    if (!bounds.contains(size)) return Mismatch{};
    return *number;
  }

  static std::optional<T> parse(std::string_view text) {
    if constexpr (kInteger)
      return parse_integer(text);
    else
      return parse_number(text);
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

template <class Names>
Reading<std::size_t> read_name(const Value& value, const Names& names,
                               std::span<const NameAlias> aliases = {}) {
  const auto alias = std::ranges::find(aliases, value.text, &NameAlias::alias);
  const std::string_view text = alias == aliases.end() ? std::string_view(value.text) : alias->name;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return i;
  }
  const std::string nearest = nearest_name(value.text, std::vector<std::string>(names.begin(), names.end()));
  return Mismatch{"", nearest.empty() ? "" : "did you mean " + nearest + "?"};
}

/// One visit: reads `value` into the target that the field's variant holds.
class ValueReader {
 public:
  ValueReader(const Field& field, const Value& value, const std::string& key, Problems& problems)
      : field_(field), value_(value), key_(key), problems_(problems) {}

  bool operator()(bool* target) { return scalar(read_bool, target); }
  bool operator()(std::int64_t* target) { return scalar(ReadNumber<std::int64_t>{field_.bounds}, target); }
  bool operator()(double* target) { return scalar(ReadNumber<double>{field_.bounds}, target); }
  bool operator()(std::string* target) {
    return scalar([](const Value& v) { return Reading<std::string>(v.text); }, target);
  }
  bool operator()(fs::path* target) { return scalar(read_path, target); }
  bool operator()(Device* target) { return scalar(read_device, target); }

  bool operator()(const EnumRef& ref) {
    std::size_t index = 0;
    if (!scalar([&](const Value& v) { return read_name(v, ref.names, ref.aliases); }, &index)) return false;
    ref.set(index);
    return true;
  }

  bool operator()(const NameRef& ref) {
    std::size_t index = 0;
    if (!scalar([&](const Value& v) { return read_name(v, ref.names); }, &index)) return false;
    *ref.value = ref.names[index];
    return true;
  }

  bool operator()(std::array<double, 2>* target) {
    if (value_.kind != Value::Kind::kList) return refuse_type();
    if (value_.items.size() != target->size()) {
      return refuse({"a list of " + std::to_string(value_.items.size()), ""});
    }
    std::vector<double> numbers;
    if (!list(ReadNumber<double>{field_.bounds}, numbers)) return false;
    *target = {numbers[0], numbers[1]};
    return true;
  }

  bool operator()(std::vector<fs::path>* target) {
    if (value_.kind != Value::Kind::kList) {
      fs::path one;
      if (!scalar(read_path, &one)) return false;
      *target = {one};
      return true;
    }
    return list(read_path, *target);
  }

  bool operator()(PerLayer* target) {
    PerLayer counts;
    const bool read = value_.kind == Value::Kind::kList
                          ? list(ReadNumber<std::int64_t>{field_.bounds}, counts.each)
                          : scalar(ReadNumber<std::int64_t>{field_.bounds}, &counts.every);
    if (!read) return false;
    if (value_.kind == Value::Kind::kList && counts.each.empty()) return refuse({"an empty list", ""});
    *target = counts;
    return true;
  }

  bool operator()(const HeadSetRef& ref) {
    HeadSet heads;
    if (value_.kind != Value::Kind::kList) {
      std::size_t rule = 0;
      if (!scalar([&](const Value& v) { return read_name(v, ref.rules); }, &rule)) return false;
      heads.rule = static_cast<HeadRule>(rule);
    } else if (is_list_of_lists()) {
      if (!lists(heads.each)) return false;
    } else if (!list(ReadNumber<std::int64_t>{field_.bounds}, heads.every)) {
      return false;
    }
    *ref.value = heads;
    return true;
  }

 private:
  bool is_list_of_lists() const {
    return !value_.items.empty() &&
           std::ranges::all_of(value_.items, [](const Value& v) { return v.kind == Value::Kind::kList; });
  }

  /// One list of integers per layer.
  bool lists(std::vector<std::vector<std::int64_t>>& target) {
    bool all_read = true;
    for (std::size_t i = 0; i < value_.items.size(); ++i) {
      const std::string key = key_ + "[" + std::to_string(i) + "]";
      all_read &= ValueReader(field_, value_.items[i], key, problems_)
                      .list(ReadNumber<std::int64_t>{field_.bounds}, target.emplace_back());
    }
    return all_read;
  }

  template <class Read, class T>
  bool scalar(Read&& read, T* target) {
    if (value_.kind != Value::Kind::kScalar) return refuse_type();
    if (is_null_text(value_))
      return refuse({"nothing (" + value_.text + ")", "remove the key, or quote the text"});
    auto reading = read(value_);
    if (!reading.value) return refuse(reading.mismatch);
    *target = std::move(*reading.value);
    return true;
  }

  /// Reads every element, so that all wrong ones are reported.
  template <class Read, class T>
  bool list(Read&& read, std::vector<T>& target) {
    std::vector<T> values;
    for (std::size_t i = 0; i < value_.items.size(); ++i) {
      const Value& item = value_.items[i];
      if (item.kind == Value::Kind::kRefused) continue;
      const std::string item_key = key_ + "[" + std::to_string(i) + "]";
      Mismatch mismatch;
      if (item.kind == Value::Kind::kScalar) {
        auto reading = read(item);
        if (reading.value) {
          values.push_back(std::move(*reading.value));
          continue;
        }
        mismatch = std::move(reading.mismatch);
      }
      report(item, item_key, expected_element_text(field_), mismatch);
    }
    if (values.size() != value_.items.size()) return false;
    target = std::move(values);
    return true;
  }

  bool refuse_type() {
    if (value_.kind == Value::Kind::kNull) return refuse({"nothing", "write a value, or remove the key"});
    return refuse({});
  }

  bool refuse(const Mismatch& mismatch) {
    if (value_.kind != Value::Kind::kRefused) report(value_, key_, expected_text(field_), mismatch);
    return false;
  }

  void report(const Value& value, const std::string& key, const std::string& expected,
              const Mismatch& mismatch) {
    problems_.add(value.mark, key, expected, mismatch.found.empty() ? found_text(value) : mismatch.found,
                  mismatch.fix);
  }

  const Field& field_;
  const Value& value_;
  const std::string& key_;
  Problems& problems_;
};

}  // namespace

bool read_value(const Field& field, const Value& value, const std::string& key, Problems& problems) {
  return std::visit(ValueReader(field, value, key, problems), field.target);
}

}  // namespace moh::config

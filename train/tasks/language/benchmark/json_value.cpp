#include "train/tasks/language/benchmark/json_value.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "train/io/json_fault.h"
#include "train/io/printable.h"

namespace moh {

namespace {

using Json = nlohmann::json;
using Kind = FieldValue::Kind;

/// Builds the value without the library's own tree, whose maps keep no order. The library parses without
/// recursion.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  FieldValue take() { return std::move(root_); }
  const std::string& expected() const { return expected_; }
  const std::string& found() const { return found_; }

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({Kind::kBool, value ? "true" : "false", {}, {}}); }
  bool number_integer(number_integer_t value) override {
    return add({Kind::kNumber, std::to_string(value), {}, {}});
  }
  bool number_unsigned(number_unsigned_t value) override {
    return add({Kind::kNumber, std::to_string(value), {}, {}});
  }
  bool number_float(number_float_t, const string_t& text) override {
    return add({Kind::kNumber, text, {}, {}});
  }
  bool string(string_t& value) override { return add(FieldValue::of_text(std::move(value))); }
  bool binary(binary_t&) override { return refuse("JSON", "binary data"); }
  bool start_object(std::size_t) override { return open(Kind::kMap); }
  bool start_array(std::size_t) override { return open(Kind::kList); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.back().find(name) != nullptr) return refuse("no key twice", "'" + printable(name) + "'");
    open_.back().entries.push_back({std::move(name), {}});
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    const std::size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    const std::string byte = " at byte " + std::to_string(at);
    if (at == text_.size()) return refuse("JSON", "its end" + byte);
    const JsonFault fault = find_json_fault(text_);
    return refuse("JSON", "'" + printable(text_.substr(at), 30) + "'" + byte + "; " +
                              fault.words(text_.find('\n') == std::string_view::npos) +
                              (fault.fix.empty() ? "" : ": " + fault.fix));
  }

 private:
  static constexpr std::size_t kMaxDepth = 32;

  bool refuse(std::string expected, std::string found) {
    expected_ = std::move(expected);
    found_ = std::move(found);
    return false;
  }
  bool add(FieldValue value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().kind == Kind::kList)
      open_.back().items.push_back(std::move(value));
    else
      open_.back().entries.back().value = std::move(value);
    return true;
  }
  bool open(Kind kind) {
    if (open_.size() == kMaxDepth)
      return refuse("at most " + std::to_string(kMaxDepth) + " levels of nesting", "more");
    open_.push_back({kind, {}, {}, {}});
    return true;
  }
  bool close() {
    FieldValue value = std::move(open_.back());
    open_.pop_back();
    return add(std::move(value));
  }

  std::string_view text_;
  FieldValue root_;
  std::vector<FieldValue> open_;  // maps and lists that are being read, the outermost first
  std::string expected_, found_;
};

}  // namespace

FieldValue parse_json_value(std::string_view text, const std::string& where) {
  Builder builder(text);
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
  throw DataError(error_message(where, "", builder.expected(), builder.found()));
}

}  // namespace moh

#include "train/io/json_text.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.h"
#include "train/io/printable.h"

namespace moh {

namespace {

/// Hears of each part of a document, and keeps nothing but the keys of the objects that are open.
class JsonGuard final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonGuard(const std::filesystem::path& path, InputKind kind, int max_depth)
      : path_(path), kind_(kind), max_depth_(max_depth) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }

  bool start_object(std::size_t) override {
    descend();
    keys_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) fail(printable(name), "this key once", "it twice");
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) fail("", "a JSON object", "array");
    descend();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    fail("", "JSON in UTF-8", printable(error.what(), 200));
  }

  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found) const {
    throw_input_error(kind_, error_message(path_.string(), what, expected, found));
  }

 private:
  /// What stands where an object has to.
  bool value() const {
    if (depth_ == 0) fail("", "a JSON object", "another value");
    return true;
  }
  void descend() {
    if (++depth_ > max_depth_) fail("", "at most " + std::to_string(max_depth_) + " levels", "more");
  }

  const std::filesystem::path& path_;
  InputKind kind_;
  int max_depth_, depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

std::string read_json_object(const std::filesystem::path& path, InputKind kind, std::uint64_t max_bytes,
                             int max_depth) {
  std::string text = read_text_file(path, kind, max_bytes);
  JsonGuard guard(path, kind, max_depth);
  if (text.find('\0') != std::string::npos) guard.fail("", "JSON text", "a NUL byte");
  nlohmann::json::sax_parse(text, &guard);
  return text;
}

}  // namespace moh

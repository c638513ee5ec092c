#include <cstdio>

#include "train/base/jinja/jinja_operators.h"

namespace moh {

namespace {

/// Writes values as Python does, for json.dumps() or repr().
class ValueWriter {
 public:
  struct Form {
    bool is_json = true;
    std::int64_t indent = -1;
    std::string_view between_items = ", ", after_key = ": ";
  };

  ValueWriter(const Form& form, JinjaBudget& budget) : form_(form), budget_(budget) {}

  void write(const JinjaValue& value) {
    budget_.step();
    if (value.is_text()) return write_text(value.text());
    if (value.is_list()) return write_list(value.list());
    if (value.is_object()) return write_object(value.object());
    if (form_.is_json &&
        (value.is_undefined() || value.is_callable() || value.as_loop() || value.as_namespace()))
      throw JinjaFault("tojson: expected a value of JSON, found " + value.kind());
    own(word_of(value));
  }

  MarkedText result() { return std::move(out_); }

 private:
  void own(std::string_view bytes) {
    budget_.bytes(2 * bytes.size());
    out_.append(bytes, TextAuthor::kTemplate);
  }

  std::string word_of(const JinjaValue& value) const {
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return form_.is_json ? "null" : "None";
    if (value.is_boolean()) {
      if (form_.is_json) return value.is_true() ? "true" : "false";
      return value.is_true() ? "True" : "False";
    }
    if (value.is_integer()) return std::to_string(value.whole());
    return value.is_float() ? jinja_float(value.real()) : "<" + value.kind() + ">";
  }

  void write_text(const MarkedText& text) {
    const std::string& bytes = text.bytes();
    budget_.bytes(2 * bytes.size());
    const bool doubles =
        form_.is_json || (bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos);
    const char quote = doubles ? '"' : '\'';
    own({&quote, 1});
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::string escape = escape_of(bytes[i], quote);
      if (escape.empty()) {
        out_.append(text, i, i + 1);
      } else {
        budget_.bytes(2 * escape.size());
        out_.append(escape, text.author(i));
      }
    }
    own({&quote, 1});
  }

  std::string escape_of(char c, char quote) const {
    if (c == quote || c == '\\') return {'\\', c};
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    if (form_.is_json && c == '\b') return "\\b";
    if (form_.is_json && c == '\f') return "\\f";
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && (code != 0x7F || form_.is_json)) return {};
    char escape[8];
    std::snprintf(escape, sizeof escape, form_.is_json ? "\\u%04x" : "\\x%02x", static_cast<unsigned>(code));
    return escape;
  }

  /// The text before item number `index`, and, where it is the number of items, after the last.
  void separate(std::size_t index, std::size_t count) {
    if (index > 0 && index < count) own(form_.between_items);
    if (form_.indent < 0 || count == 0) return;
    own("\n");
    const std::int64_t width = form_.indent * (index < count ? depth_ : depth_ - 1);
    budget_.bytes(static_cast<std::size_t>(width));
    own(std::string(static_cast<std::size_t>(width), ' '));
  }

  void write_list(const JinjaList& list) {
    own("[");
    ++depth_;
    for (std::size_t i = 0; i < list.size(); ++i) {
      separate(i, list.size());
      write(list[i]);
    }
    separate(list.size(), list.size());
    --depth_;
    own("]");
  }

  void write_object(const JinjaObject& object) {
    own("{");
    ++depth_;
    for (std::size_t i = 0; i < object.size(); ++i) {
      separate(i, object.size());
      write(object[i].first);
      own(form_.after_key);
      write(object[i].second);
    }
    separate(object.size(), object.size());
    --depth_;
    own("}");
  }

  const Form form_;
  JinjaBudget& budget_;
  MarkedText out_;
  int depth_ = 0;
};

}  // namespace

MarkedText jinja_text(const JinjaValue& value, JinjaBudget& budget) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return {};
  ValueWriter writer({.is_json = false}, budget);
  writer.write(value);
  return writer.result();
}

MarkedText jinja_json(const JinjaValue& value, std::int64_t indent, std::string_view between_items,
                      std::string_view after_key, JinjaBudget& budget) {
  constexpr std::int64_t kMostIndent = 16;
  if (indent > kMostIndent) throw JinjaFault("tojson: expected an indent of at most 16");
  ValueWriter writer({.indent = indent, .between_items = between_items, .after_key = after_key}, budget);
  writer.write(value);
  return writer.result();
}

}  // namespace moh

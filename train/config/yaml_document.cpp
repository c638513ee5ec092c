#include "train/config/yaml_document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>

namespace moh::config {

namespace {

/// Thrown to end the parse; the reason has been added to the problems.
struct StopParsing {};

/// Builds the tree from yaml-cpp's events, which, unlike its Node, distinguish duplicate keys, quoted from
/// plain scalars, and aliases from the values that they refer to.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const Source& source, Problems& problems) : source_(source), problems_(problems) {
    root_.mark = {&source};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++num_documents_ == 1) return;
    problems_.add(at(mark), "", "one YAML document", "a second one", "put it into a file of its own");
    // The parser can return an endless series of empty documents (for "[],"), so stop at the second one.
    throw StopParsing();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add({.kind = Value::Kind::kNull, .mark = at(mark)});
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    bool refused = refuse_tag(mark, tag);
    if (tag == kQuotedTag && !closes_quotes(at(mark))) {
      problems_.add(at(mark), path(), "a closing quote", "the end of the text");
      refused = dropped_keys_ = true;
    }
    add({.kind = refused ? Value::Kind::kRefused : Value::Kind::kScalar,
         .mark = at(mark),
         .text = text,
         .quoted = tag == kQuotedTag});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problems_.add(at(mark), path(), "a value", "an alias (*)",
                  "write the value out, or share it through include");
    add({.kind = Value::Kind::kRefused, .mark = at(mark)});
  }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    problems_.add(at(mark), path(), "a value", "the anchor &" + shown(name),
                  "remove it; what several files share belongs into one that they include");
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(Value::Kind::kList, mark, tag);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(Value::Kind::kMap, mark, tag);
  }
  void OnMapEnd() override { close(); }

  /// Marks the last value as kRefused after a syntax error: it was probably not meant as parsed ("5 warmup"
  /// from two lines with a wrong indentation), and should not be reported a second time.
  void distrust_last() {
    if (open_.empty()) return;
    Frame& frame = open_.back();
    if (frame.pending) return;
    if (!frame.value.entries.empty()) frame.value.entries.back().value.kind = Value::Kind::kRefused;
    if (!frame.value.items.empty()) frame.value.items.back().kind = Value::Kind::kRefused;
  }

  /// Returns the tree so far. Collections that a syntax error left open are closed.
  Value take_root() {
    ended_ = true;
    while (!open_.empty()) {
      Value& innermost = open_.back().value;
      // The keys of an incomplete map can still be checked; an incomplete list, or empty map, cannot.
      if (innermost.entries.empty()) innermost.kind = Value::Kind::kRefused;
      close();
    }
    return std::move(root_);
  }

  /// Whether keys were refused, and with them their values.
  bool dropped_keys() const { return dropped_keys_; }

  /// Start of the innermost open list or map, if one is open.
  std::optional<Mark> innermost_open() const {
    if (open_.empty()) return std::nullopt;
    return open_.back().value.mark;
  }

 private:
  static constexpr std::string_view kPlainTag = "?", kQuotedTag = "!";

  struct Frame {
    Value value;
    std::optional<Entry> pending;                  ///< a map's key without its value yet
    bool drop_pending = false;                     ///< the key was refused, so its value is dropped
    std::unordered_map<std::string, Mark> places;  ///< of a map's keys so far
  };

  Mark at(const YAML::Mark& mark) const { return {&source_, static_cast<std::size_t>(mark.pos)}; }

  /// The path of the next value: "model.moh.shared[2]".
  std::string path() const {
    std::string text;
    for (const Frame& frame : open_) {
      if (frame.value.kind == Value::Kind::kList) {
        text += '[' + std::to_string(frame.value.items.size()) + ']';
      } else if (frame.pending) {
        text += (text.empty() ? "" : ".") + shown(frame.pending->key);
      }
    }
    return text;
  }

  /// Whether a quoted scalar that starts at the mark has its closing quote. yaml-cpp implies a missing one at
  /// the end of the text, and takes the whole rest for the value.
  bool closes_quotes(Mark mark) const {
    const std::string_view text = source_.text;
    const char quote = text[mark.offset];
    if (quote != '\'' && quote != '"') return true;  // a block scalar
    for (std::size_t i = mark.offset + 1; i < text.size(); ++i) {
      if (quote == '"' ? text[i] == '\\' : text.substr(i, 2) == "''") {
        ++i;  // escapes the next character
      } else if (text[i] == quote) {
        return true;
      }
    }
    return false;
  }

  bool refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag == kPlainTag || tag == kQuotedTag) return false;
    problems_.add(at(mark), path(), "a value without a tag", "the tag " + shown(tag),
                  "remove it; the key decides the type");
    return true;
  }

  void open(Value::Kind kind, const YAML::Mark& mark, const std::string& tag) {
    refuse_tag(mark, tag);
    if (open_.size() == kMaxDepth) {
      problems_.add(at(mark), "", "at most " + std::to_string(kMaxDepth) + " levels of nesting", "more");
      throw StopParsing();
    }
    open_.push_back({.value = {.kind = kind, .mark = at(mark)}});
  }

  void close() {
    Value value = std::move(open_.back().value);
    open_.pop_back();
    add(std::move(value));
  }

  void add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Frame& frame = open_.back(); frame.value.kind == Value::Kind::kList) {
      frame.value.items.push_back(std::move(value));
    } else if (!frame.pending) {
      add_key(frame, std::move(value));
    } else {
      frame.pending->value = std::move(value);
      if (!frame.drop_pending) frame.value.entries.push_back(std::move(*frame.pending));
      frame.pending.reset();
    }
  }

  void add_key(Frame& frame, Value key) {
    frame.drop_pending = !accept_key(frame, key);
    frame.pending = Entry{.key = std::move(key.text), .mark = key.mark, .value = {}};
  }

  bool accept_key(Frame& frame, const Value& key) {
    const bool merges = key.text == "<<" && !key.quoted;
    if (key.kind != Value::Kind::kScalar || merges) dropped_keys_ = true;
    if (ended_ || key.kind == Value::Kind::kRefused) return false;
    if (key.kind != Value::Kind::kScalar) {
      problems_.add(key.mark, path(), "a name as key", found_text(key));
      return false;
    }
    if (merges) {
      problems_.add(key.mark, path(), "a key", "the merge key <<",
                    "write the keys out, or share them through include");
      return false;
    }
    const auto [first, is_new] = frame.places.emplace(key.text, key.mark);
    if (!is_new) {
      const std::string parent = path();
      problems_.add(key.mark, (parent.empty() ? "" : parent + ".") + shown(key.text), "each key once",
                    "it a second time (first at " + first->second.text() + ")", "keep one of the two");
    }
    return is_new;
  }

  const Source& source_;
  Problems& problems_;
  std::vector<Frame> open_;
  Value root_;
  int num_documents_ = 0;
  bool dropped_keys_ = false;
  bool ended_ = false;
};

std::string syntax_advice(const std::string& message) {
  static const std::unordered_map<std::string, std::string> kAdvice = {
      {YAML::ErrorMsg::MAP_VALUE, "quote a text that contains ': ', or check the indentation"},
      {YAML::ErrorMsg::UNKNOWN_TOKEN, "quote a text that begins with a special character"},
      {YAML::ErrorMsg::END_OF_MAP, "check the indentation"},
      {YAML::ErrorMsg::END_OF_SEQ, "check the indentation"},
      {YAML::ErrorMsg::END_OF_SEQ_FLOW, "a ] or a closing quote is missing"},
      {YAML::ErrorMsg::END_OF_MAP_FLOW, "a } or a closing quote is missing"},
      {YAML::ErrorMsg::EOF_IN_SCALAR, "close the quotes"},
      {YAML::ErrorMsg::UNKNOWN_ANCHOR, "write the value out"}};
  const auto found = kAdvice.find(message);
  return found == kAdvice.end() ? "" : found->second;
}

/// The position to report: for an unclosed list its start; yaml-cpp has none for an unexpected end of the
/// text.
Mark place_of(const YAML::ParserException& error, const TreeBuilder& builder, const Source& source) {
  const auto open = builder.innermost_open();
  const bool unclosed =
      error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW || error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW;
  if (open && (unclosed || error.mark.pos <= 0)) return *open;
  return {&source, std::min(static_cast<std::size_t>(std::max(error.mark.pos, 0)), source.text.size())};
}

}  // namespace

Document read_yaml(Source& source, Problems& problems) {
  if (!check_characters(source, problems)) {
    return {{.kind = Value::Kind::kRefused, .mark = {&source}}, /*complete=*/false};
  }
  const bool had_tabs = replace_indentation_tabs(source, problems);
  TreeBuilder builder(source, problems);
  std::istringstream in(source.text);
  bool complete = false;
  try {
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) continue;
    complete = !builder.dropped_keys();
  } catch (const YAML::ParserException& error) {
    // With tabs replaced by spaces the indentation is a guess, so a syntax error may not be the user's.
    if (!had_tabs) {
      problems.add(place_of(error, builder, source), "", "valid YAML", "a syntax error (" + error.msg + ")",
                   syntax_advice(error.msg));
    }
    const bool between_values =
        error.msg == YAML::ErrorMsg::END_OF_MAP || error.msg == YAML::ErrorMsg::END_OF_SEQ;
    if (!between_values) builder.distrust_last();
  } catch (const StopParsing&) {
  }
  Value root = builder.take_root();
  if (!complete && root.kind == Value::Kind::kNull)
    root.kind = Value::Kind::kRefused;  // unreadable, not empty
  return {std::move(root), complete};
}

}  // namespace moh::config

#include "train/config/layers.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "train/config/text_check.h"
#include "train/config/yaml_document.h"
#include "train/io/printable.h"

namespace moh::config {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIncludeKey = "include";
constexpr std::size_t kMaxNameBytes = 4096;

/// One name per file, however it was reached.
fs::path identity(const std::string& path) {
  std::error_code error;
  fs::path canonical = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : canonical;
}

Source& add_source(Layers& layers, std::string name, std::string text, bool is_file) {
  const int order = static_cast<int>(layers.sources.size());
  return layers.sources.emplace_back(Source{std::move(name), std::move(text), is_file, order});
}

class FileLoader {
 public:
  FileLoader(Layers& layers, Problems& problems) : layers_(layers), problems_(problems) {}

  /// Appends the layers of the file's includes, then its own. `including` is the value that asked for the
  /// file, null for the main file.
  void load(const std::string& path, const Value* including) {
    if (including != nullptr && !may_include(path, *including)) return;
    std::string text;
    try {
      text = read_source_file(path);
    } catch (const ConfigError& error) {
      refuse(path, including, error.what());
      return;
    }
    Source& source = add_source(layers_, printable(path, kMaxNameBytes), std::move(text), /*is_file=*/true);
    Value root = read(source);
    if (!is_map(root, source)) return;
    being_read_.push_back(identity(path));
    for (const Value& file : take_includes(root)) load_included(file, path);
    being_read_.pop_back();
    layers_.roots.push_back(std::move(root));
  }

  /// Appends a text that includes nothing.
  void load_text(Source& source) {
    Value root = read(source);
    if (is_map(root, source)) layers_.roots.push_back(std::move(root));
  }

 private:
  Value read(Source& source) {
    Document document = read_yaml(source, problems_);
    layers_.complete &= document.complete;
    return std::move(document.root);
  }

  bool may_include(const std::string& path, const Value& including) {
    std::string reason;
    if (std::find(being_read_.begin(), being_read_.end(), identity(path)) != being_read_.end()) {
      reason = "expected files that do not include each other in a circle, found " + shown(path) + " again";
    } else if (being_read_.size() > kMaxIncludeDepth) {
      reason = "expected at most " + std::to_string(kMaxIncludeDepth) + " levels of includes, found more";
    } else if (layers_.sources.size() >= kMaxSources) {
      reason = "expected at most " + std::to_string(kMaxSources) + " files, found more";
    }
    if (reason.empty()) return true;
    layers_.complete = false;
    problems_.add(including.mark, std::string(kIncludeKey) + ": " + reason);
    return false;
  }

  void refuse(const std::string& path, const Value* including, const std::string& reason) {
    layers_.complete = false;
    if (including != nullptr) {
      problems_.add(including->mark, std::string(kIncludeKey) + ": " + shown(path) + ": " + reason);
    } else {
      problems_.add({&add_source(layers_, printable(path, kMaxNameBytes), "", /*is_file=*/true)}, reason);
    }
  }

  bool is_map(const Value& root, const Source& source) {
    if (root.kind == Value::Kind::kMap) return true;
    layers_.complete = false;
    if (root.kind == Value::Kind::kNull) {
      problems_.add({&source}, "", "keys with values", "an empty file");
    } else if (root.kind != Value::Kind::kRefused) {
      problems_.add(root.mark, "", "keys with values", found_text(root));
    }
    return false;
  }

  /// Takes the key out of the map, and returns the values that name a file each.
  std::vector<Value> take_includes(Value& root) {
    const auto entry = std::find_if(root.entries.begin(), root.entries.end(),
                                    [](const Entry& e) { return e.key == kIncludeKey; });
    if (entry == root.entries.end()) return {};
    Value value = std::move(entry->value);
    root.entries.erase(entry);
    if (value.kind == Value::Kind::kList) return std::move(value.items);
    std::vector<Value> one;
    one.push_back(std::move(value));
    return one;
  }

  void load_included(const Value& file, const std::string& including_path) {
    if (file.kind == Value::Kind::kRefused) return;
    if (file.kind != Value::Kind::kScalar || file.text.empty()) {
      problems_.add(file.mark, kIncludeKey, "the path of a config, or a list of such paths",
                    found_text(file));
      return;
    }
    const fs::path path = fs::path(including_path).parent_path() / file.text;
    load(path.lexically_normal().string(), &file);
  }

  Layers& layers_;
  Problems& problems_;
  std::vector<fs::path> being_read_;
};

std::optional<std::vector<std::string>> split_key(std::string_view key) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    if (end == begin) return std::nullopt;
    parts.emplace_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() >= kMaxDepth) return std::nullopt;
  return parts;
}

Value read_override_value(Source& source, Problems& problems) {
  const bool is_flow =
      !source.text.empty() && std::string_view("[{'\"").find(source.text[0]) != std::string_view::npos;
  if (is_flow) return read_yaml(source, problems).root;
  const bool readable = check_characters(source, problems);
  return {.kind = readable ? Value::Kind::kScalar : Value::Kind::kRefused,
          .mark = {&source},
          .text = source.text};
}

void load_override(const std::string& text, Layers& layers, Problems& problems) {
  const std::size_t equals = text.find('=');
  const bool has_value = equals != std::string::npos;
  Source& source = add_source(layers, "command line: " + shown(text),
                              has_value ? text.substr(equals + 1) : "", /*is_file=*/false);
  const auto parts = split_key(std::string_view(text).substr(0, equals));
  if (!has_value || !parts) {
    problems.add({&source}, "", "key.path=value", has_value ? "no key of this form" : "no =");
    return;
  }
  if (source.text.size() > kMaxSourceBytes) {
    problems.add({&source}, "", "a shorter value", std::to_string(source.text.size()) + " bytes");
    return;
  }
  Value value = read_override_value(source, problems);
  for (auto part = parts->rbegin(); part != parts->rend(); ++part) {
    Value map{.kind = Value::Kind::kMap, .mark = {&source}};
    map.entries.push_back({.key = *part, .mark = {&source}, .value = std::move(value)});
    value = std::move(map);
  }
  layers.roots.push_back(std::move(value));
}

}  // namespace

void load_layers(const std::string& path, const std::vector<std::string>& overrides, Layers& layers,
                 Problems& problems) {
  FileLoader(layers, problems).load(path, nullptr);
  for (const std::string& text : overrides) load_override(text, layers, problems);
}

void load_text(std::string name, std::string text, Layers& layers, Problems& problems) {
  Source& source = add_source(layers, std::move(name), std::move(text), /*is_file=*/true);
  if (source.text.size() <= kMaxSourceBytes) return FileLoader(layers, problems).load_text(source);
  layers.complete = false;
  problems.add({&source}, "", "at most " + std::to_string(kMaxSourceBytes) + " bytes",
               std::to_string(source.text.size()));
}

}  // namespace moh::config

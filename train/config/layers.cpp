#include "train/config/layers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/config/yaml_document.h"

namespace moh::config {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIncludeKey = "include";
constexpr std::size_t kMaxNameBytes = 4096;

/// One string for all paths to a file.
fs::path identity(const std::string& path) {
  std::error_code error;
  fs::path canonical = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : canonical;
}

Source& add_source(Layers& layers, std::string name, std::string text, bool is_file) {
  const int order = static_cast<int>(layers.sources.size());
  return layers.sources.emplace_back(Source{std::move(name), std::move(text), is_file, order});
}

/// The whole content of the file, without a byte-order mark. Throws ConfigError saying why it cannot be read,
/// that it is a folder, or that it is larger than kMaxSourceBytes; the message names neither key nor place.
std::string read_source_file(const std::string& path) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  if (kind == std::filesystem::file_type::directory) throw ConfigError("expected a file, found a folder");
  // Opening it would block until there is a writer.
  if (kind == std::filesystem::file_type::fifo) throw ConfigError("expected a file, found a FIFO");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ConfigError(std::string("expected a readable file, found: ") + std::strerror(errno));

  // Reads at most one byte more than allowed, so that an endless device cannot exhaust the memory.
  std::string text(kMaxSourceBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw ConfigError(std::string("expected a readable file, found: ") + std::strerror(errno));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxSourceBytes) {
    throw ConfigError("expected a config of at most " + std::to_string(kMaxSourceBytes / 1024) +
                      " KiB, found a larger file");
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

class FileLoader {
 public:
  FileLoader(Layers& layers, Problems& problems) : layers_(layers), problems_(problems) {}

  /// Appends the layers of the file's includes, then its own. `including` is the value of `include` that
  /// names the file; null for the main file.
  void load(const std::string& path, const Value* including) {
    if (including != nullptr && !may_include(path, *including)) return;
    std::string text;
    try {
      text = read_source_file(path);
    } catch (const ConfigError& error) {
      return refuse(path, including, error.what());
    }
    std::optional<Value> root =
        read(add_source(layers_, printable(path, kMaxNameBytes), std::move(text), /*is_file=*/true));
    if (!root) return;
    const auto include = std::ranges::find(root->entries, kIncludeKey, &Entry::key);
    if (include != root->entries.end()) {
      const Value files = std::move(include->value);
      root->entries.erase(include);
      load_included(files, path);
    }
    layers_.roots.push_back(std::move(*root));
  }

  /// Appends a text without includes.
  void load_text(Source& source) {
    if (std::optional<Value> root = read(source)) layers_.roots.push_back(std::move(*root));
  }

 private:
  /// Parses the text; nothing if its root is not a map.
  std::optional<Value> read(Source& source) {
    auto [root, complete] = read_yaml(source, problems_);
    const bool is_map = root.kind == Value::Kind::kMap;
    layers_.complete &= complete && is_map;
    if (is_map) return std::move(root);
    if (root.kind == Value::Kind::kNull) {
      problems_.add({&source}, "", "keys with values", "an empty file");
    } else if (root.kind != Value::Kind::kRefused) {
      problems_.add(root.mark, "", "keys with values", found_text(root));
    }
    return std::nullopt;
  }

  bool may_include(const std::string& path, const Value& including) {
    std::string reason;
    if (std::ranges::find(being_read_, identity(path)) != being_read_.end()) {
      reason = "files that do not include each other in a circle, found " + shown(path) + " again";
    } else if (being_read_.size() > kMaxIncludeDepth) {
      reason = "at most " + std::to_string(kMaxIncludeDepth) + " levels of includes, found more";
    } else if (layers_.sources.size() >= kMaxSources) {
      reason = "at most " + std::to_string(kMaxSources) + " files, found more";
    }
    if (reason.empty()) return true;
    layers_.complete = false;
    problems_.add(including.mark, std::string(kIncludeKey) + ": expected " + reason);
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

  /// Loads one file, or a list of files, that the file at `path` includes.
  void load_included(const Value& files, const std::string& path) {
    being_read_.push_back(identity(path));
    const bool is_list = files.kind == Value::Kind::kList;
    for (const Value& file : is_list ? std::span(files.items) : std::span(&files, 1)) {
      if (file.kind == Value::Kind::kScalar && !file.text.empty()) {
        load((fs::path(path).parent_path() / file.text).lexically_normal().string(), &file);
      } else if (file.kind != Value::Kind::kRefused) {
        problems_.add(file.mark, kIncludeKey, "the path of a config, or a list of such paths",
                      found_text(file));
      }
    }
    being_read_.pop_back();
  }

  Layers& layers_;
  Problems& problems_;
  std::vector<fs::path> being_read_;
};

/// Whether the text consists of names separated by dots.
bool is_key(std::string_view text) {
  return !text.empty() && !text.starts_with('.') && !text.ends_with('.') &&
         text.find("..") == std::string_view::npos && std::ranges::count(text, '.') < kMaxDepth - 1;
}

Value read_override_value(Source& source, Problems& problems) {
  if (source.text.find_first_of("[{'\"") == 0) return read_yaml(source, problems).root;
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
  std::string_view key = std::string_view(text).substr(0, equals);
  if (!has_value || !is_key(key)) {
    problems.add({&source}, "", "key.path=value", has_value ? "no key of this form" : "no =");
    return;
  }
  if (source.text.size() > kMaxSourceBytes) {
    problems.add({&source}, "", "a shorter value", std::to_string(source.text.size()) + " bytes");
    return;
  }
  Value value = read_override_value(source, problems);
  while (!key.empty()) {
    const std::size_t name = key.rfind('.') + 1;  // npos + 1 == 0: the first name
    Value map{.kind = Value::Kind::kMap, .mark = {&source}};
    map.entries.push_back({std::string(key.substr(name)), {&source}, std::move(value)});
    value = std::move(map);
    key = key.substr(0, name == 0 ? 0 : name - 1);
  }
  layers.roots.push_back(std::move(value));
}

}  // namespace

void load_layers(const std::string& path, const std::vector<std::string>& overrides, Layers& layers,
                 Problems& problems) {
  FileLoader(layers, problems).load(path, nullptr);
  for (const std::string& text : overrides) load_override(text, layers, problems);
}

void load_text(std::string name, std::string text, const std::vector<std::string>& overrides, Layers& layers,
               Problems& problems) {
  Source& source = add_source(layers, std::move(name), std::move(text), /*is_file=*/true);
  if (source.text.size() <= kMaxSourceBytes) {
    FileLoader(layers, problems).load_text(source);
  } else {
    layers.complete = false;
    problems.add({&source}, "", "at most " + std::to_string(kMaxSourceBytes) + " bytes",
                 std::to_string(source.text.size()));
  }
  for (const std::string& each : overrides) load_override(each, layers, problems);
}

}  // namespace moh::config

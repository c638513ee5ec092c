#include "train/apps/quickstart/quickstart.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/error.h"
#include "train/apps/quickstart/embedded.h"
#include "train/apps/quickstart/prose.h"
#include "train/base/io/durable_file.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

/// In commands @ stands for the folder.
struct First {
  std::string_view name;
  std::string_view EmbeddedFiles::*config;
  std::string_view next;
};
constexpr std::array kFirsts = {
    First{"language", &EmbeddedFiles::language,
          "  moh generate --checkpoint @/language --prompt \"A head\"\n"
          "  moh analyze --checkpoint @/language\n"
          "  moh train @/language.yaml data.train=MY_TEXT.txt output.dir=runs/mine\n"
          "  moh plan @/language.yaml model.hidden=768\n"},
    First{"images", &EmbeddedFiles::images,
          "  moh eval --checkpoint @/images\n"
          "  moh analyze --checkpoint @/images\n"
          "  moh train @/images.yaml data.train=MY_FOLDERS model.classes=N output.dir=runs/mine\n"},
    First{"diffusion", &EmbeddedFiles::diffusion,
          "  moh sample --checkpoint @/diffusion --out @/pictures --steps 50\n"
          "  moh train @/diffusion.yaml data.train=MY_FOLDERS model.classes=N output.dir=runs/mine\n"},
};

const First& first_of(std::string_view name) {
  const auto* const found = std::ranges::find(kFirsts, name, &First::name);
  if (found != kFirsts.end()) return *found;
  std::string names;
  for (const First& first : kFirsts) names.append(names.empty() ? "" : ", ").append(first.name);
  throw ConfigError(error_message("moh quickstart", "", "one of " + names, std::string(name)));
}

void replace_all(std::string& text, std::string_view word, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
    text.replace(at, word.size(), by);
}

void write_unless_there(const fs::path& path, const std::string& text) {
  if (!fs::exists(path)) write_file_durably(path, text);
}

/// As a string of YAML.
std::string quoted(const fs::path& path) {
  return nlohmann::json(path.string()).dump();
}

/// As a word of a shell's command, or the beginning of one.
std::string for_a_shell(const fs::path& path) {
  std::string word = path.string();
  if (word.find_first_of(" '\"$&;()<>|*?`\\#~!") == std::string::npos) return word;
  replace_all(word, "'", "'\\''");
  return "'" + word + "'";
}

}  // namespace

fs::path write_quickstart(std::string_view name, const fs::path& folder) {
  const First& first = first_of(name);
  const EmbeddedFiles& files = embedded_files();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw StorageError(error_message(folder.string(), "", "a folder to write to", error.message()));
  fs::path config = folder / (std::string(name) + ".yaml");
  std::string yaml = std::string(files.*first.config) + "\noutput: {dir: " + quoted(folder / name) + "}\n";
  if (name == "language") {
    const fs::path text = folder / "text.txt";
    write_unless_there(text, prose_of(files.documentation));
    replace_all(yaml, "TEXT", quoted(text));
  }
  write_unless_there(config, yaml);
  return config;
}

std::string after_quickstart(std::string_view name, const fs::path& folder) {
  std::string commands(first_of(name).next);
  replace_all(commands, "@", for_a_shell(folder));
  return commands;
}

}  // namespace moh

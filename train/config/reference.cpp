#include "train/config/reference.h"

#include "train/config/layers.h"
#include "train/config/write_fields.h"

namespace moh::config {

namespace {

constexpr std::string_view kPreface = R"(# Configuration

<!-- Made by `moh config --reference > docs/config.md` from the field lists in train/config/. Do not edit. -->

A run is described by one YAML file. Every key has a default, except `data.train`. `moh config FILE` prints what a file
comes to, defaults and includes resolved, as YAML that can be used in its place.

    moh train configs/llm/quickstart.yaml train.steps=200 model.moh.num_shared=[1,1,2,2]

- **Overrides.** `key.path=value` after the file replaces single keys; of two for one key the later holds. A value that
  begins with `[`, `{`, `'` or `"` is YAML, any other is taken as it stands.
- **Includes.** `include: base.yaml`, or a list of files, at the top level of a file and relative to it. What the file
  gives itself replaces, key by key, what it includes; a list is replaced as a whole.
- **Paths** (`output.dir`, `data.train` ...) are relative to the folder that the command runs in.
- **Numbers** are decimal. `1e-4` and `0.5` are numbers, `1000` is an integer; `010`, `0x10`, `1_000`, `4M`, `"5"`,
  `.nan` and, where an integer is wanted, `1e3` are mistakes. Truth values are `true` and `false`.
- **Refused**, all at once, each with file, line and column: unknown keys, keys given twice, values of another type or
  out of range, `<<`, anchors and aliases, tags, a second document, tabs as indentation.
)";

/// A table cell: a pipe would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

/// "an integer of at least 1" without its article, which only a sentence needs.
std::string type_cell(const Field& field) {
  std::string text = expected_text(field);
  for (std::string_view article : {"an ", "a "}) {
    if (text.starts_with(article)) return cell(text.substr(article.size()));
  }
  return cell(text);
}

std::string default_cell(const Field& field) {
  const std::string text = value_yaml(field);
  constexpr std::string_view kEmpty = "\"\"";
  return text == kEmpty ? "" : "`" + cell(text) + "`";
}

void add_fields(const Section& section, std::string& out) {
  if (section.fields().empty()) return;
  out += "\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const Field& field : section.fields()) {
    out.append("| `").append(field.name).append("` | ").append(type_cell(field)).append(" | ");
    out.append(default_cell(field)).append(" | ").append(cell(field.doc)).append(" |\n");
  }
}

void add_section(const Section& section, const std::string& prefix, std::string& out) {
  const std::string key = join_key(prefix, section.name());
  out.append("\n## ").append(key).append("\n");
  if (!section.doc().empty()) out.append("\n").append(section.doc()).append("\n");
  add_fields(section, out);
  for (const Section& child : section.sections()) add_section(child, key, out);
}

}  // namespace

std::string reference_preface() {
  return std::string(kPreface);
}

std::string reference_markdown(const Section& root) {
  std::string out;
  if (!root.fields().empty()) out += "\n## Top level\n";
  add_fields(root, out);
  for (const Section& child : root.sections()) add_section(child, "", out);
  return out;
}

}  // namespace moh::config

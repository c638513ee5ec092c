#include "train/apps/quickstart/prose.h"

namespace moh {

namespace {

bool begins_code(std::string_view line) {
  return line.starts_with("```");
}

/// A line that belongs to no paragraph: of a table, indented code, a picture, or HTML.
bool is_no_prose(std::string_view line) {
  return line.starts_with("|") || line.starts_with("    ") || line.starts_with("![") || line.starts_with("<");
}

/// Appends a line's text: no marks of emphasis and code, no targets of links.
void append_text(std::string& to, std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '`' || c == '*' || c == '[') continue;
    if (c != ']') {
      to += c;
      continue;
    }
    const std::size_t end = line.substr(i).starts_with("](") ? line.find(')', i) : std::string_view::npos;
    if (end != std::string_view::npos) i = end;
  }
}

/// The text behind the marks that begin a heading or the point of a list; `begins_one`: there are such.
std::string_view without_marks(std::string_view line, bool& begins_one) {
  const std::size_t text = line.find_first_not_of("#- ");
  begins_one = line.starts_with("#") || line.starts_with("- ");
  return begins_one && text != std::string_view::npos ? line.substr(text) : line;
}

}  // namespace

std::string prose_of(std::string_view markdown) {
  std::string prose, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) prose += paragraph + "\n\n";
    paragraph.clear();
  };
  bool in_code = false;
  while (!markdown.empty()) {
    const std::string_view line = markdown.substr(0, markdown.find('\n'));
    markdown.remove_prefix(std::min(line.size() + 1, markdown.size()));
    if (begins_code(line)) in_code = !in_code;
    bool begins_one = false;
    const std::string_view text = without_marks(line, begins_one);
    if (in_code || begins_code(line) || is_no_prose(line) || line.empty() || begins_one) end_paragraph();
    if (in_code || begins_code(line) || is_no_prose(line) || line.empty()) continue;
    if (!paragraph.empty()) paragraph += ' ';
    append_text(paragraph, text.substr(std::min(text.find_first_not_of(' '), text.size())));
    if (line.starts_with("#")) end_paragraph();
  }
  end_paragraph();
  return prose;
}

}  // namespace moh

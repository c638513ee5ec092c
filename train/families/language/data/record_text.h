#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/families/language/data/document_reader.h"
#include "train/trainer/task/data/input_files.h"

namespace moh {

/// How the records of JSON Lines are text. A template is text in which {key} stands for the record's text at
/// that key; {{ and }} are braces. The key "a.b", unless the record has it, is "b" of the object at "a".
struct RecordOptions {
  std::string text_key = "text";        ///< of texts, all of whose tokens are targets; "": there are none
  std::string prompt = "{prompt}";      ///< template of what is no target
  std::string response = "{response}";  ///< template of what follows it and is one; "": there are none
  std::string message = {};  ///< template of a message of a chat, of {role} and {content}; "": there are none

  bool operator==(const RecordOptions&) const = default;
};

/// The options as one text, from which a hash can be made; text_key where the templates are the default ones.
std::string identity_of(const RecordOptions& options);

/// Faults of the templates: (the key of the configuration in `data`, what was found).
std::vector<std::pair<std::string_view, std::string>> template_faults(const RecordOptions& options);
inline constexpr std::string_view kTemplateForm =
    "text in which {key} stands for a record's text at that key, and {{ and }} for braces";

/// (text, key): the text, followed by what a record has at the key, if there is one.
using RecordTemplate = std::vector<std::pair<std::string, std::string>>;
/// The parts of a template that template_faults() finds no fault with.
RecordTemplate read_record_template(const std::string& text);

/// A part of a document's text: what the model learns to write, or what it only reads.
struct TextSegment {
  std::string text;
  bool is_target = true;
};

/// The kind of a file's records.
enum class RecordKind { kText, kPrompt, kChat };

/// Reads records. All of a file are of one kind, that of the first.
class RecordReader {
 public:
  /// Throws ConfigError for what is no template.
  explicit RecordReader(const RecordOptions& options);

  /// The kind of a file whose first part is `first`: text, unless it is JSON Lines. Nothing for other
  /// records, such as those of a run's metrics.jsonl, in a file that the user did not name. Throws DataError
  /// for those in one that the user named, and for records that are text and prompt at once.
  std::optional<RecordKind> kind_of(const InputPath& input, const DocumentPart& first) const;

  /// The text of a part, which it may move from; for a record of a prompt and a response two segments, for a
  /// chat more. Throws DataError that names the file and the line.
  std::vector<TextSegment> segments(const std::string& path, DocumentPart& part, RecordKind kind) const;

 private:
  class Record;

  static RecordOptions checked(const RecordOptions& options);
  static std::string filled(const RecordTemplate& form, const Record& record);
  bool has_prompt(const Record& record) const;
  std::vector<TextSegment> messages(const Record& record) const;
  std::string expected() const;

  RecordOptions options_;
  RecordTemplate prompt_, response_, message_;
};

}  // namespace moh

#include "train/tasks/language/benchmark/benchmark_items.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"
#include "train/tasks/language/benchmark/python_random.h"
#include "train/tasks/language/benchmark/records.h"
#include "train/tasks/language/benchmark/text_template.h"
#include "train/tasks/language/score/python_text.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

namespace {

namespace fs = std::filesystem;
using Kind = FieldValue::Kind;
using Records = std::vector<BenchmarkRecord>;

/// A subject's record, over which names of files and descriptions are templates.
FieldValue fields_of(const BenchmarkTask::Subject* subject) {
  FieldValue fields{Kind::kMap, {}, {}, {}};
  if (subject == nullptr) return fields;
  fields.entries.push_back({"name", FieldValue::of_text(subject->name)});
  fields.entries.push_back({"title", FieldValue::of_text(subject->title)});
  return fields;
}

/// The first file of a list that exists, or the empty path; adds the list to `missing` if none does.
fs::path first_of(const std::vector<std::string>& names, const FieldValue& subject, const fs::path& folder,
                  std::vector<std::string>& missing) {
  std::string all;
  for (const std::string& name : names) {
    const std::string file = TextTemplate(name).text(subject, "data.files");
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) return folder / file;
    all += (all.empty() ? "" : " or ") + file;
  }
  missing.push_back(std::move(all));
  return {};
}

/// Files of a subject.
struct SubjectFiles {
  fs::path questions, examples;  ///< no examples: none are needed, or the benchmark's YAML has them
  fs::path labels, example_labels;
};

[[noreturn]] void refuse_missing(const BenchmarkTask& task, const ItemOptions& options,
                                 const std::vector<std::string>& missing) {
  constexpr std::size_t kShown = 5;
  std::string files;
  for (std::size_t i = 0; i < std::min(missing.size(), kShown); ++i)
    files += "\n  " + printable(missing[i], 400);
  if (missing.size() > kShown) files += "\n  and " + std::to_string(missing.size() - kShown) + " more";
  std::string fix = task.data.source;
  if (!task.subjects.empty())
    fix += (fix.empty() ? "" : "\n") + std::string("tasks=[") + task.name + ":SUBJECT] takes single subjects";
  throw DataError(error_message(printable_path(options.folder) + ": files of " + task.name, "",
                                "in this folder", "none of" + files) +
                  (fix.empty() ? "" : "\n") + fix);
}

std::vector<SubjectFiles> find_files(const BenchmarkTask& task,
                                     const std::vector<const BenchmarkTask::Subject*>& subjects,
                                     const ItemOptions& options) {
  std::vector<SubjectFiles> found;
  std::vector<std::string> missing;
  const bool needs_examples = shots_of(task, options) > 0 && task.shots.records.empty();
  if (needs_examples && task.data.examples.empty())
    throw ConfigError(error_message(task.name, "shots", "0, as the benchmark has no examples",
                                    std::to_string(shots_of(task, options))));
  for (const BenchmarkTask::Subject* subject : subjects) {
    const FieldValue fields = fields_of(subject);
    SubjectFiles& files = found.emplace_back();
    files.questions = first_of(task.data.files, fields, options.folder, missing);
    if (needs_examples) files.examples = first_of(task.data.examples, fields, options.folder, missing);
    // Whether labels are needed, the records will say.
    std::vector<std::string> ignored;
    files.labels = first_of(task.data.labels, fields, options.folder, ignored);
    files.example_labels = first_of(task.data.example_labels, fields, options.folder, ignored);
  }
  if (!missing.empty()) refuse_missing(task, options, missing);
  return found;
}

/// Records, with the lines of a file of labels as their field "label" where they have none.
Records read_labelled(const BenchmarkTask& task, const fs::path& path,
                      const std::vector<std::string>& label_files, const fs::path& labels) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
  Records records = read_records(path, {task.data.columns, task.data.document_start});
  if (label_files.empty() || records.front().fields.find("label") != nullptr) return records;
  const std::string name = printable_path(path);
  if (labels.empty())
    throw DataError(error_message(name, "label", "it in each record, or in a file " + label_files.front(),
                                  "neither", task.data.source));
  const std::string text = read_text_file(labels, InputKind::kData, kMostBytes);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = with_valid_utf8(text.substr(at, end - at));
    lines.emplace_back(python_strip(line));
    at = end + 1;
  }
  if (lines.size() != records.size())
    throw DataError(error_message(printable_path(labels), "lines",
                                  std::to_string(records.size()) + ", as " + name,
                                  std::to_string(lines.size())));
  for (std::size_t i = 0; i < lines.size(); ++i)
    records[i].fields.entries.push_back({"label", FieldValue::of_text(lines[i])});
  return records;
}

/// The templates of a benchmark.
class Prompts {
 public:
  explicit Prompts(const BenchmarkTask& task)
      : task_(task),
        text_(task.prompt.text),
        target_(task.prompt.target),
        answer_(task.prompt.answer),
        counted_(task.prompt.counted) {
    for (const std::string& text : task.prompt.contexts) contexts_.emplace_back(text);
    for (const std::string& text : task.prompt.choices) choices_.emplace_back(text);
  }

  /// A question with its answer, as an example.
  std::string example(const FieldValue& record, const std::string& where) const {
    std::string context, answer;
    if (task_.kind != BenchmarkKind::kMultipleChoice) {
      context = text_.text(record, where);
      answer = texts_of(target_.value(record, where), where).front();
    } else if (contexts_.empty()) {
      const std::vector<std::string> choices = choices_of(record, where);
      context = text_.text(record, where);
      answer = choices[first_right(record, choices, where)];
    } else {
      std::vector<std::string> contexts;
      for (const TextTemplate& text : contexts_) contexts.push_back(text.text(record, where));
      context = contexts[first_right(record, contexts, where)];
      answer = target_.text(record, where);
    }
    return context + task_.prompt.delimiter + answer + task_.prompt.separator;
  }

  BenchmarkItem item(const std::string& before, const FieldValue& record, const std::string& where) const {
    BenchmarkItem item{.place = where};
    switch (task_.kind) {
      case BenchmarkKind::kMultipleChoice:
        add_choices(before, record, where, item);
        break;
      case BenchmarkKind::kContinuation:
        item.contexts = {before + text_.text(record, where)};
        item.continuations = {task_.prompt.delimiter + target_.text(record, where)};
        break;
      case BenchmarkKind::kGeneration:
        item.contexts = {before + text_.text(record, where)};
        item.references = texts_of(target_.value(record, where), where);
        break;
      case BenchmarkKind::kPerplexity:
        add_text(record, where, item);
        break;
      case BenchmarkKind::kGroup:
        fail_check(__FILE__, __LINE__, "kind", "a group has no questions");
    }
    return item;
  }

 private:
  [[noreturn]] static void fail(const std::string& where, std::string_view what, const std::string& expected,
                                const std::string& found) {
    throw DataError(error_message(where, what, expected, found));
  }

  /// A text, or a list of one or more.
  static std::vector<std::string> texts_of(const FieldValue& value, const std::string& where) {
    std::vector<std::string> texts;
    if (value.kind == Kind::kText || value.kind == Kind::kNumber) texts.push_back(value.text);
    for (const FieldValue& item : value.items) {
      if (item.kind != Kind::kText && item.kind != Kind::kNumber)
        fail(where, "list", "texts", describe(item));
      texts.push_back(item.text);
    }
    if (texts.empty()) fail(where, "value", "a text, or a list of one or more", describe(value));
    return texts;
  }

  std::vector<std::string> choices_of(const FieldValue& record, const std::string& where) const {
    if (choices_.size() == 1) return texts_of(choices_.front().value(record, where), where);
    std::vector<std::string> choices;
    for (const TextTemplate& choice : choices_) choices.push_back(choice.text(record, where));
    return choices;
  }

  /// Which choices are right.
  std::vector<bool> correct_of(const FieldValue& record, const std::vector<std::string>& choices,
                               const std::string& where) const {
    const FieldValue answer = answer_.value(record, where);
    std::vector<bool> correct(choices.size());
    if (answer.kind == Kind::kList) {
      if (answer.items.size() != choices.size())
        fail(where, "answer", std::to_string(choices.size()) + " labels, one for each choice",
             describe(answer));
      for (std::size_t i = 0; i < choices.size(); ++i) correct[i] = answer.items[i].text == "1";
    } else {
      correct[position_of(answer, choices, where)] = true;
    }
    if (std::ranges::find(correct, true) == correct.end()) fail(where, "answer", "a right choice", "none");
    return correct;
  }

  static std::size_t position_of(const FieldValue& answer, const std::vector<std::string>& choices,
                                 const std::string& where) {
    std::size_t position = choices.size();
    const std::string& text = answer.text;
    if (answer.kind == Kind::kBool) {
      position = text == "true" ? 1 : 0;
    } else {
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, position);
      if (error != std::errc() || stop != end)
        position = static_cast<std::size_t>(std::ranges::find(choices, text) - choices.begin());
    }
    if (position >= choices.size())
      fail(where, "answer", "one of " + std::to_string(choices.size()) + " choices, or its position from 0",
           describe(answer));
    return position;
  }

  std::size_t first_right(const FieldValue& record, const std::vector<std::string>& choices,
                          const std::string& where) const {
    const std::vector<bool> correct = correct_of(record, choices, where);
    return static_cast<std::size_t>(std::ranges::find(correct, true) - correct.begin());
  }

  void add_choices(const std::string& before, const FieldValue& record, const std::string& where,
                   BenchmarkItem& item) const {
    std::vector<std::string> choices;
    if (contexts_.empty()) {
      choices = choices_of(record, where);
      item.contexts = {before + text_.text(record, where)};
      for (const std::string& choice : choices) item.continuations.push_back(task_.prompt.delimiter + choice);
    } else {
      const std::string target = task_.prompt.delimiter + target_.text(record, where);
      for (const TextTemplate& context : contexts_) {
        choices.push_back(context.text(record, where));
        item.contexts.push_back(before + choices.back());
        item.continuations.push_back(target);
      }
    }
    if (choices.size() < 2) fail(where, "choices", "two or more", std::to_string(choices.size()));
    item.correct = correct_of(record, choices, where);
    for (const std::string& choice : choices) {
      item.characters.push_back(python_length(choice));
      item.bytes.push_back(std::ssize(choice));
    }
  }

  void add_text(const FieldValue& record, const std::string& where, BenchmarkItem& item) const {
    item.contexts = {""};
    item.continuations = {text_.text(record, where)};
    const std::string counted = counted_.empty() ? item.continuations.front() : counted_.text(record, where);
    item.words = count_split_words(counted);
    item.text_bytes = std::ssize(counted);
    if (item.continuations.front().empty()) fail(where, "text", "a text", "an empty one");
  }

  const BenchmarkTask& task_;
  TextTemplate text_, target_, answer_, counted_;
  std::vector<TextTemplate> contexts_, choices_;
};

/// Chooses examples for one question after the other.
class Examples {
 public:
  /// `are_questions`: the examples are the questions themselves.
  Examples(const BenchmarkTask& task, const Prompts& prompts, Records records, std::string name,
           bool are_questions, const ItemOptions& options)
      : prompts_(prompts),
        records_(std::move(records)),
        name_(std::move(name)),
        are_questions_(are_questions),
        shots_(static_cast<std::size_t>(shots_of(task, options))),
        draw_(task.shots.draw),
        random_(options.seed) {
    const std::size_t needed = shots_ + (leaves_one_out() ? 1 : 0);
    if (shots_ > 0 && records_.size() < needed)
      throw DataError(error_message(
          name_, "examples", std::to_string(needed) + " or more for " + std::to_string(shots_) + " shots",
          std::to_string(records_.size())));
  }

  /// The examples before a question, as text.
  std::string before(const BenchmarkRecord& question) {
    std::string text;
    for (const std::size_t i : chosen(question)) text += example(i);
    return text;
  }

 private:
  std::vector<std::size_t> chosen(const BenchmarkRecord& question) {
    if (shots_ == 0) return {};
    std::vector<std::size_t> candidates;
    if (draw_ == ShotDraw::kFirst) {
      for (std::size_t i = 0; i < records_.size() && candidates.size() < shots_; ++i)
        if (!is(i, question)) candidates.push_back(i);
    } else {
      candidates = random_.sample(records_.size(), shots_ + (leaves_one_out() ? 1 : 0));
      std::erase_if(candidates, [&](std::size_t i) { return is(i, question); });
      if (candidates.size() < shots_) candidates = drawn_from_others(question);
      candidates.resize(std::min(candidates.size(), shots_));
    }
    if (candidates.size() < shots_)
      throw DataError(error_message(name_, "examples", std::to_string(shots_) + " other than the question",
                                    std::to_string(candidates.size())));
    return candidates;
  }

  /// Where the file has the question several times.
  std::vector<std::size_t> drawn_from_others(const BenchmarkRecord& question) {
    std::vector<std::size_t> others, drawn;
    for (std::size_t i = 0; i < records_.size(); ++i)
      if (!is(i, question)) others.push_back(i);
    if (others.size() < shots_) return others;
    for (const std::size_t i : random_.sample(others.size(), shots_)) drawn.push_back(others[i]);
    return drawn;
  }

  /// Whether a question may be among the examples.
  bool leaves_one_out() const { return are_questions_ || draw_ == ShotDraw::kRandomPlusOne; }

  bool is(std::size_t example, const BenchmarkRecord& question) const {
    return leaves_one_out() && records_[example] == question;
  }

  /// An example's text, which is made once.
  const std::string& example(std::size_t i) {
    texts_.resize(records_.size());
    if (texts_[i].empty()) texts_[i] = prompts_.example(records_[i].fields, name_ + records_[i].place);
    return texts_[i];
  }

  const Prompts& prompts_;
  Records records_;
  std::string name_;
  bool are_questions_;
  std::size_t shots_;
  ShotDraw draw_;
  PythonRandom random_;
  std::vector<std::string> texts_;
};

Examples examples_of(const BenchmarkTask& task, const Prompts& prompts, const SubjectFiles& files,
                     const ItemOptions& options) {
  if (!task.shots.records.empty() && shots_of(task, options) > 0) {
    const std::string name = "shots.records of " + task.name;
    return {task,
            prompts,
            parse_records(name, task.shots.records, RecordFileKind::kJsonLines, {}),
            name,
            /*are_questions=*/false,
            options};
  }
  if (files.examples.empty()) return {task, prompts, {}, "", /*are_questions=*/false, options};
  return {task,
          prompts,
          read_labelled(task, files.examples, task.data.example_labels, files.example_labels),
          printable_path(files.examples),
          files.examples == files.questions,
          options};
}

std::vector<BenchmarkItem> items_of(const BenchmarkTask& task, const Prompts& prompts,
                                    const BenchmarkTask::Subject* subject, const SubjectFiles& files,
                                    const ItemOptions& options) {
  Examples examples = examples_of(task, prompts, files, options);
  Records records = read_labelled(task, files.questions, task.data.labels, files.labels);
  if (options.limit > 0 && std::ssize(records) > options.limit)
    records.resize(static_cast<std::size_t>(options.limit));
  const std::string name = printable_path(files.questions);
  const std::string description =
      TextTemplate(task.prompt.description).text(fields_of(subject), task.name + ": prompt.description");
  std::vector<BenchmarkItem> items;
  for (const BenchmarkRecord& record : records)
    items.push_back(prompts.item(description + examples.before(record), record.fields, name + record.place));
  return items;
}

}  // namespace

std::int64_t shots_of(const BenchmarkTask& task, const ItemOptions& options) {
  if (task.kind == BenchmarkKind::kPerplexity) return 0;
  return options.shots.value_or(task.shots.number);
}

std::vector<std::vector<BenchmarkItem>> make_items(const BenchmarkTask& task, const ItemOptions& options) {
  std::vector<const BenchmarkTask::Subject*> subjects;
  for (const BenchmarkTask::Subject& subject : task.subjects) subjects.push_back(&subject);
  if (subjects.empty()) subjects.push_back(nullptr);
  const std::vector<SubjectFiles> files = find_files(task, subjects, options);
  const Prompts prompts(task);
  std::vector<std::vector<BenchmarkItem>> items;
  for (std::size_t i = 0; i < subjects.size(); ++i)
    items.push_back(items_of(task, prompts, subjects[i], files[i], options));
  return items;
}

}  // namespace moh

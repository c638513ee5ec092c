#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// What a benchmark asks of a model.
enum class BenchmarkKind {
  kMultipleChoice,  ///< which of several continuations is the most probable
  kContinuation,    ///< how probable one continuation is, and whether the model would write it
  kGeneration,      ///< what the model writes
  kPerplexity,      ///< how probable whole texts are
  kGroup            ///< other benchmarks, and the mean of their scores
};

/// Where the examples of a few-shot prompt come from.
enum class ShotDraw {
  kRandom,  ///< drawn for each question, as lm-evaluation-harness draws them
  /// As it draws them where its configuration of the benchmark names no test split: one more than is needed,
  /// of which the question, if it is among them, or the last is left out.
  kRandomPlusOne,
  kFirst  ///< the first ones of the file
};

/// A benchmark, as its YAML describes it. Texts are templates (text_template.h) over a question's record.
struct BenchmarkTask {
  std::string name;
  std::string about;  ///< what it is, and where it was published
  BenchmarkKind kind = BenchmarkKind::kMultipleChoice;
  std::vector<std::string> members;  ///< of a group: benchmarks

  /// Files, relative to the folder of the benchmarks: of each list the first that exists. {{name}} stands for
  /// the subject.
  struct Data {
    std::vector<std::string> files;
    std::vector<std::string> examples;  ///< of few-shot prompts
    /// Files with a line for each record of these two, that becomes its field "label" where it has none.
    std::vector<std::string> labels, example_labels;
    std::vector<std::string> columns;  ///< of CSV files without a row that names them
    std::string document_start;        ///< of text: a regular expression of the lines that begin a document
    std::string source;                ///< where the files come from
  } data;

  /// A part with files of its own, such as one of MMLU's subjects.
  struct Subject {
    std::string name;
    std::string title;  ///< as a description calls it
  };
  std::vector<Subject> subjects;

  struct Prompt {
    std::string description;  ///< before everything else; over the subject's name and title
    std::string text;         ///< the context; of perplexity the text
    std::vector<std::string>
        contexts;                      ///< instead of it: a context for each choice, whose target is the same
    std::string target;                ///< what follows; of generation the right answer, or a list of them
    std::vector<std::string> choices;  ///< a template for each, or one whose value is a list
    std::string answer;  ///< the right choice: its position, its text, or a list of 0 and 1 for all choices
    std::string delimiter = " ";     ///< between context and target or choice
    std::string separator = "\n\n";  ///< after each example
    std::string counted;             ///< of perplexity: the text whose words and bytes are counted
  } prompt;

  struct Shots {
    std::int64_t number = 0;
    ShotDraw draw = ShotDraw::kRandom;
    std::string records;  ///< examples as JSON Lines, instead of a file
  } shots;

  struct Generation {
    std::int64_t tokens = 256;
    std::vector<std::string> stop;
  } generation;

  /// How an answer is found in what the model wrote; each way has a score of its own.
  struct Extraction {
    std::string name;
    std::string regex;  ///< its first group that is not empty, or the match; "": the whole text
    bool last = false;  ///< the last match instead of the first
  };
  std::vector<Extraction> extractions;

  /// What does not matter when two answers are compared.
  struct Match {
    std::vector<std::string> ignored;  ///< regular expressions
    bool ignore_case = false;
    bool ignore_punctuation = false;
  } match;

  std::vector<std::string> metrics;
  std::string score;  ///< the one of the reported scores that stands for the benchmark

  /// What the MoH paper (arXiv 2410.11842) reports of it.
  struct Published {
    std::string table;        ///< "3"
    std::string model;        ///< preset
    std::int64_t tokens = 0;  ///< of its training, in billions; 0: not said
    double score = 0;         ///< percent
  };
  std::vector<Published> published;
};

/// A benchmark that is part of the program.
struct BuiltInBenchmark {
  std::string_view name;
  std::string_view yaml;
};
/// Those of configs/eval, in the order of their names.
const std::vector<BuiltInBenchmark>& built_in_benchmarks();

/// Reads the YAML of a benchmark. Files are untrusted. Throws one ConfigError with a line per problem,
/// "sciq.yaml: 12:9: prompt.text: expected ...": unknown keys, values out of bounds, templates and regular
/// expressions that are none, what a kind of benchmark needs and lacks, and what it has no use for.
BenchmarkTask read_benchmark(const std::string& path);
/// The same for a text; messages call it `name`.
BenchmarkTask parse_benchmark(const std::string& name, std::string text);

/// The benchmarks that a user names, groups being followed by their members: a name of a built-in one, the
/// path of a YAML file, either with ":SUBJECT". Of a benchmark with a subject, only that is left, and a
/// benchmark that is named twice with other subjects becomes one. Throws ConfigError for an unknown name or
/// subject, with the nearest one, for a group within itself, and for one whose members
/// have a perplexity as their score.
std::vector<BenchmarkTask> find_benchmarks(const std::vector<std::string>& names);

}  // namespace moh

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/data_commands.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/families/language/data/tokenize_files.h"
#include "train/tokenizers/open_tokenizer.h"

namespace moh::cli {

namespace {

struct TokenizeArgs {
  std::vector<std::string> inputs;
  std::string output;
  std::string tokenizer = "byte";
  std::int64_t threads = 0;
  TokenizeOptions options;
};

/// An existing folder, or a path that ends as one.
bool is_folder(const std::string& path) {
  return path.ends_with('/') || std::filesystem::is_directory(path);
}

int tokenize_folder(const TokenizeArgs& args, const Tokenizer& tokenizer) {
  const TokenizeReport report = tokenize_to_folder(args.inputs, args.output, tokenizer, args.options);
  if (report.skipped.count() > 0) log_warning("data: skipped " + report.skipped.describe());
  std::printf("wrote %s\nfiles       %lld (%lld already up to date)\ntokens      %lld\ntokenizer   %s\n",
              printable_path(args.output).c_str(), static_cast<long long>(report.files),
              static_cast<long long>(report.kept), static_cast<long long>(report.num_tokens),
              describe(tokenizer).c_str());
  return kDone;
}

void add_record_options(CLI::App& command, RecordOptions& records) {
  command.add_option("--text-key", records.text_key,
                     "Key of the text in JSON Lines; empty: records are not texts");
  command.add_option(
      "--prompt-template", records.prompt,
      "JSON Lines with prompts and responses: the prompt, which is not trained on; {key}: text at that key");
  command.add_option("--response-template", records.response,
                     "The response, which is trained on; empty: no responses");
  command.add_option(
      "--message-template", records.message,
      "JSON Lines with chats (messages): a message, with {role} and {content}; empty: no chats");
}

int data_tokenize(const TokenizeArgs& args, const Families&) {
  set_num_threads(args.threads);
  const auto tokenizer = open_tokenizer("--tokenizer", args.tokenizer);
  if (is_folder(args.output) && (args.output.ends_with('/') || args.options.resume))
    return tokenize_folder(args, *tokenizer);
  if (args.options.resume) {
    throw ConfigError(error_message("--resume", "", "--output FOLDER/, which gets a token file for each file",
                                    args.output, "one token file is written as a whole"));
  }
  const TokenizeReport report = tokenize_files(args.inputs, args.output, *tokenizer, args.options);
  if (report.skipped.count() > 0) log_warning("data: skipped " + report.skipped.describe());
  std::printf("wrote %s\n%s", printable_path(args.output).c_str(), describe(report.info).c_str());
  return kDone;
}

}  // namespace

void add_data(const Commands& commands) {
  const Commands data = add_group(commands, "data", "Prepare and inspect training data");
  const auto [tokenize, from] =
      add_command(data, "tokenize", "Turn text files and folders into token files", data_tokenize);
  tokenize
      .add_option("--input", from.inputs, "Files and folders of text and JSON Lines, also as .gz or .zst")
      ->required()
      ->default_str("");
  tokenize.add_option("--output", from.output, "Token file to write, or FOLDER/ for one per file")
      ->required();
  tokenize.add_option("--tokenizer", from.tokenizer,
                      "byte, a tokenizer's file (tokenizer.json, SentencePiece's .model, a .tiktoken), or a "
                      "folder with one");
  add_record_options(tokenize, from.options.text.records);
  tokenize.add_option("--threads", from.threads, "CPU threads; 0: all processors");
  tokenize.add_flag("--overwrite", from.options.overwrite,
                    "Replace the file --output, or files in that folder");
  tokenize.add_flag("--resume", from.options.resume,
                    "Keep token files in --output whose source text is unchanged");
  tokenize.footer(R"(Examples:
  moh data tokenize --input corpus/ notes.txt --output corpus.safetensors
  moh data tokenize --input web/*.jsonl.zst --tokenizer llama3/tokenizer.json --output web_tokens/ --resume)");

  add_data_info(data);
  add_data_latents(data);
}

}  // namespace moh::cli

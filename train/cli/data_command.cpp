#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/io/printable.h"
#include "train/log/logging.h"
#include "train/tasks/language/data/old_token_file.h"
#include "train/tasks/language/data/token_file.h"
#include "train/tasks/language/data/tokenize_files.h"
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

struct DataInfoArgs {
  std::string file;
  bool verify = false;  ///< read all of it and compare the checksum
};

/// An existing folder, or a path that ends as one.
bool is_folder(const std::string& path) {
  return path.ends_with('/') || std::filesystem::is_directory(path);
}

int tokenize_folder(const TokenizeArgs& args, const Tokenizer& tokenizer) {
  const TokenizeReport report = tokenize_to_folder(args.inputs, args.output, tokenizer, args.options);
  if (report.skipped.count() > 0) log_warning("data: skipped " + report.skipped.describe());
  std::printf("wrote %s\nfiles       %lld (%lld of them were there)\ntokens      %lld\ntokenizer   %s\n",
              printable_path(args.output).c_str(), static_cast<long long>(report.files),
              static_cast<long long>(report.kept), static_cast<long long>(report.num_tokens),
              describe(tokenizer).c_str());
  return kDone;
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

int data_info(const DataInfoArgs& args, const Families&) {
  const bool old = token_file_kind(args.file) == TokenFileKind::kOld;
  const auto file = old ? open_old_token_file(args.file, args.verify) : TokenFile::open(args.file);
  if (args.verify && !old) file->verify();
  std::fputs(describe(file->info()).c_str(), stdout);
  if (old) {
    std::printf("format      moh's earlier one, which is not trained on; convert it: %s\n",
                conversion_of_old_token_file(args.file).c_str());
  }
  if (args.verify) {
    std::puts(old || !file->info().checksum.empty() ? "verified: the ids match their checksum"
                                                    : "verified: all ids are in the vocabulary");
  }
  return kDone;
}

}  // namespace

void add_data(const Commands& commands) {
  const Commands data = add_group(commands, "data", "Prepare and inspect training data");
  const auto [tokenize, from] =
      add_command(data, "tokenize", "Turn text files and folders into token files", data_tokenize);
  tokenize
      .add_option("--input", from.inputs,
                  "Files and folders of text and JSON Lines, also as .gz or .zst; a token file of the "
                  "earlier format is "
                  "converted")
      ->required()
      ->default_str("");
  tokenize.add_option("--output", from.output, "Token file to write, or FOLDER/ for one per file")
      ->required();
  tokenize.add_option("--tokenizer", from.tokenizer,
                      "byte, the tokenizer.json of a tokenizer, or a folder with one");
  tokenize.add_option("--text-key", from.options.text.text_key, "Key of the text in JSON Lines");
  tokenize.add_option("--threads", from.threads, "CPU threads; 0: all processors");
  tokenize.add_flag("--overwrite", from.options.overwrite,
                    "Replace the file --output, or files in that folder");
  tokenize.add_flag("--resume", from.options.resume,
                    "Keep what is in the folder --output and its text has not changed");
  tokenize.footer(R"(Examples:
  moh data tokenize --input corpus/ notes.txt --output corpus.safetensors
  moh data tokenize --input web/*.jsonl.zst --tokenizer llama3/tokenizer.json --output web_tokens/ --resume)");

  const auto [info, of] = add_command(data, "info", "Print the properties of a token file", data_info);
  info.add_option("file", of.file, "Token file")->required();
  info.add_flag("--verify", of.verify, "Read everything and verify the checksum");
  info.footer(R"(Example:
  moh data info corpus.safetensors --verify)");
}

}  // namespace moh::cli

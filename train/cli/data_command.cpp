#include <CLI/CLI.hpp>
#include <cstdio>

#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/log/logging.h"
#include "train/tasks/language/data/corpus.h"
#include "train/tasks/language/data/old_token_file.h"
#include "train/tasks/language/data/token_file.h"

namespace moh::cli {

namespace {

struct TokenizeArgs {
  std::vector<std::string> inputs;
  std::string output;
  std::string tokenizer = "byte";
};

struct DataInfoArgs {
  std::string file;
  bool verify = false;  ///< read all of it and compare the checksum
};

int data_tokenize(const TokenizeArgs& args) {
  const auto tokenizer = make_tokenizer(args.tokenizer);
  const TokenizeReport report = tokenize_files(args.inputs, args.output, *tokenizer);
  if (report.skipped.count() > 0) log_warning("data: skipped " + report.skipped.describe());
  std::printf("wrote %s\n%s", args.output.c_str(), describe(report.info).c_str());
  return kDone;
}

int data_info(const DataInfoArgs& args) {
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

void add_data(CLI::App& app, Action& action) {
  CLI::App& command = *app.add_subcommand("data", "Prepare and inspect training data");
  command.require_subcommand(1);
  CLI::App& tokenize = *command.add_subcommand("tokenize", "Turn text files and folders into one token file");
  const auto tokenize_args = std::make_shared<TokenizeArgs>();
  tokenize
      .add_option("--input", tokenize_args->inputs,
                  "Files and folders; a token file of the earlier format is converted")
      ->required();
  tokenize.add_option("--output", tokenize_args->output, "Token file to write")->required();
  tokenize.add_option("--tokenizer", tokenize_args->tokenizer, "Tokenizer")->capture_default_str();
  tokenize.footer("Example:\n  moh data tokenize --input corpus/ notes.txt --output corpus.safetensors");
  tokenize.callback([tokenize_args, &action] {
    action = [tokenize_args](const Families&) { return data_tokenize(*tokenize_args); };
  });

  CLI::App& info = *command.add_subcommand("info", "Print what a token file holds");
  const auto info_args = std::make_shared<DataInfoArgs>();
  info.add_option("file", info_args->file, "Token file")->required();
  info.add_flag("--verify", info_args->verify, "Read all of it and compare the checksum");
  info.footer("Example:\n  moh data info corpus.safetensors --verify");
  info.callback(
      [info_args, &action] { action = [info_args](const Families&) { return data_info(*info_args); }; });
}

}  // namespace moh::cli

#include <CLI/CLI.hpp>
#include <cstdio>

#include "train/cli/commands.h"
#include "train/io/printable.h"
#include "train/log/logging.h"
#include "train/tasks/language/data/corpus.h"
#include "train/tasks/language/data/old_token_file.h"
#include "train/tasks/language/data/token_file.h"
#include "train/tokenizers/open_tokenizer.h"

namespace moh::cli {

namespace {

struct TokenizeArgs {
  std::vector<std::string> inputs;
  std::string output;
  std::string tokenizer = "byte";
  bool overwrite = false;
};

struct DataInfoArgs {
  std::string file;
  bool verify = false;  ///< read all of it and compare the checksum
};

int data_tokenize(const TokenizeArgs& args, const Families&) {
  const auto tokenizer = open_tokenizer("--tokenizer", args.tokenizer);
  const TokenizeReport report = tokenize_files(args.inputs, args.output, *tokenizer, args.overwrite);
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
      add_command(data, "tokenize", "Turn text files and folders into one token file", data_tokenize);
  tokenize
      .add_option("--input", from.inputs,
                  "Files and folders; a token file of the earlier format is converted")
      ->required()
      ->default_str("");
  tokenize.add_option("--output", from.output, "Token file to write")->required();
  tokenize.add_option("--tokenizer", from.tokenizer, "Tokenizer");
  tokenize.add_flag("--overwrite", from.overwrite, "Replace the file --output");
  tokenize.footer(R"(Example:
  moh data tokenize --input corpus/ notes.txt --output corpus.safetensors)");

  const auto [info, of] = add_command(data, "info", "Print the properties of a token file", data_info);
  info.add_option("file", of.file, "Token file")->required();
  info.add_flag("--verify", of.verify, "Read everything and verify the checksum");
  info.footer(R"(Example:
  moh data info corpus.safetensors --verify)");
}

}  // namespace moh::cli

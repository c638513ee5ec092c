#include <cstdio>

#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/data/corpus.h"
#include "train/data/old_token_file.h"
#include "train/data/token_file.h"
#include "train/metrics/logging.h"

namespace moh::cli {

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

}  // namespace moh::cli

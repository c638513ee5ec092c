#include <cstdio>

#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/data/corpus.h"
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
  const auto file = TokenFile::open(args.file);
  if (args.verify) file->verify();
  std::fputs(describe(file->info()).c_str(), stdout);
  if (args.verify) std::puts("verified: the ids match their checksum");
  return kDone;
}

}  // namespace moh::cli

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/apps/cli/data_commands.h"
#include "train/base/io/printable.h"
#include "train/families/diffusion/latents/latent_source.h"
#include "train/families/language/data/corpus.h"
#include "train/families/language/data/document_reader.h"
#include "train/families/language/data/token_file.h"
#include "train/trainer/task/data/input_files.h"

namespace moh::cli {

namespace {

struct DataInfoArgs {
  std::string file;
  bool verify = false;  ///< read all of it and compare the checksum
};

int file_info(const DataInfoArgs& args) {
  const auto file = TokenFile::open(args.file);
  if (args.verify) file->verify();
  std::fputs(describe(file->info()).c_str(), stdout);
  if (args.verify) {
    std::puts(file->info().checksum.empty() ? "verified: all ids are in the vocabulary"
                                            : "verified: the ids match their checksum");
  }
  return kDone;
}

/// A file of a folder that data.train takes, in one line; its tokens, or nothing for text.
std::optional<std::int64_t> print_file(const InputPath& input, const DataInfoArgs& args) {
  const std::string path = printable_path(input.path);
  if (token_file_kind(input.path) == TokenFileKind::kTokens) {
    const auto file = TokenFile::open(input.path);
    if (args.verify) file->verify();
    std::printf("%s: %lld tokens, tokenizer %s (%s)\n", path.c_str(), static_cast<long long>(file->size()),
                file->info().tokenizer_name.c_str(), file->info().tokenizer_hash.c_str());
    return file->size();
  }
  const std::string_view unreadable = unreadable_format(input.path);
  std::printf("%s: %s\n", path.c_str(),
              unreadable.empty() ? "text, which becomes tokens when a run opens it"
                                 : ("passed over: " + std::string(unreadable)).c_str());
  return std::nullopt;
}

int folder_info(const DataInfoArgs& args) {
  SkippedFiles skipped;
  std::int64_t files = 0, tokens = 0;
  const std::vector<InputPath> inputs = require_files(std::vector{args.file}, skipped);
  if (inputs.empty()) throw DataError(error_message(args.file, "", "files of data", "none"));
  for (const InputPath& input : inputs) {
    const std::optional<std::int64_t> count = print_file(input, args);
    files += count ? 1 : 0;
    tokens += count.value_or(0);
  }
  std::printf("token files %lld\ntokens      %lld\n", static_cast<long long>(files),
              static_cast<long long>(tokens));
  return kDone;
}

int data_info(const DataInfoArgs& args, const Families&) {
  if (are_latents({args.file})) return latents_info(args.file, args.verify);
  return std::filesystem::is_directory(args.file) ? folder_info(args) : file_info(args);
}

}  // namespace

void add_data_info(const Commands& data) {
  const auto [info, of] =
      add_command(data, "info", "Print the properties of a token file, or of latents", data_info);
  info.add_option("file", of.file, "Token file, latents (a shard), or a folder of one of these")->required();
  info.add_flag("--verify", of.verify, "Read everything and verify the checksum");
  info.footer(R"(Examples:
  moh data info corpus.safetensors --verify
  moh data info tokens/)");
}

}  // namespace moh::cli

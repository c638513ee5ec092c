#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/cli/data_commands.h"
#include "train/io/printable.h"
#include "train/tasks/data/input_files.h"
#include "train/tasks/diffusion/latents/latent_source.h"
#include "train/tasks/language/data/corpus.h"
#include "train/tasks/language/data/document_reader.h"
#include "train/tasks/language/data/foreign_tokens.h"
#include "train/tasks/language/data/old_token_file.h"
#include "train/tasks/language/data/token_file.h"

namespace moh::cli {

namespace {

struct DataInfoArgs {
  std::string file;
  bool verify = false;  ///< read all of it and compare the checksum
  std::string bin_dtype = kNoBinDtype;
};

constexpr std::int64_t kAnyId = std::numeric_limits<TokenId>::max();

/// Ids that another program wrote: no vocabulary is known, so all of them are.
int foreign_info(const DataInfoArgs& args, const InputPath& input, ForeignTokens kind) {
  const ForeignTokenFile file = open_foreign_tokens(input, kind, args.bin_dtype, "", kAnyId, std::nullopt);
  const TokenFileInfo& info = file.ids->info();
  std::printf("format      %s\ntokens      %lld (%s)\ndocuments   %s\n", file.description.c_str(),
              static_cast<long long>(info.num_tokens), std::string(info.stored_dtype).c_str(),
              info.num_documents ? std::to_string(*info.num_documents).c_str() : "not known");
  if (!args.verify) return kDone;
  std::vector<TokenId> ids(1 << 16);
  TokenId largest = 0;
  for (std::int64_t begin = 0; begin < info.num_tokens; begin += std::ssize(ids)) {
    ids.resize(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(ids), info.num_tokens - begin)));
    file.ids->copy(begin, ids);
    largest = std::max(largest, std::ranges::max(ids));
  }
  std::printf("largest id  %d\n", largest);
  return kDone;
}

int file_info(const DataInfoArgs& args) {
  const InputPath input{args.file, /*named=*/true};
  if (const ForeignTokens kind = foreign_tokens_kind(input, args.bin_dtype); kind != ForeignTokens::kNone)
    return foreign_info(args, input, kind);
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

/// A file of a folder that data.train takes, in one line; its tokens, or nothing for text.
std::optional<std::int64_t> print_file(const InputPath& input, const DataInfoArgs& args) {
  const std::string path = printable_path(input.path);
  const auto print = [&](const TokenFile& file, const std::string& kind) {
    if (args.verify) file.verify();
    std::printf("%s: %lld tokens, %s\n", path.c_str(), static_cast<long long>(file.size()), kind.c_str());
    return file.size();
  };
  const TokenFileKind kind = token_file_kind(input.path);
  if (kind == TokenFileKind::kTokens) {
    const auto file = TokenFile::open(input.path);
    return print(*file,
                 "tokenizer " + file->info().tokenizer_name + " (" + file->info().tokenizer_hash + ")");
  }
  if (kind == TokenFileKind::kOld)
    return print(*open_old_token_file(input.path, args.verify), "moh's earlier format");
  const ForeignTokens foreign = foreign_tokens_kind(input, args.bin_dtype);
  if (foreign != ForeignTokens::kNone) {
    const auto file = open_foreign_tokens(input, foreign, args.bin_dtype, "", kAnyId, std::nullopt);
    return print(*file.ids, file.description);
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

void add_bin_dtype_option(CLI::App& command, std::string& bin_dtype) {
  command.add_option("--bin-dtype", bin_dtype, "Type of the ids in .bin files without a header")
      ->check(CLI::IsMember({kNoBinDtype, "uint16", "uint32"}));
}

void add_data_info(const Commands& data) {
  const auto [info, of] =
      add_command(data, "info", "Print the properties of a token file, or of latents", data_info);
  info.add_option("file", of.file,
                  "Token file, token ids of another program, latents (a shard), or a folder of one of these")
      ->required();
  add_bin_dtype_option(info, of.bin_dtype);
  info.add_flag("--verify", of.verify, "Read everything and verify the checksum");
  info.footer(R"(Examples:
  moh data info corpus.safetensors --verify
  moh data info tokens/)");
}

}  // namespace moh::cli

#include "train/tasks/language/data/foreign_tokens.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/formats/numpy_file.h"
#include "train/formats/stored_dtype.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"
#include "train/tasks/language/data/megatron_tokens.h"
#include "train/tasks/language/data/numpy_tokens.h"
#include "train/tasks/language/data/separated_tokens.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFix =
    "data.tokenizer must be the tokenizer that the ids were made with, and the type of the ids that of the "
    "file";

/// The header of llm.c: numbers of 32 bits, of which the first three are in use.
constexpr std::uint64_t kLlmCHeaderBytes = 1024;
struct LlmCHeader {
  std::uint32_t magic, version, num_tokens;

  /// The type of the ids; "" for another file.
  std::string_view dtype() const {
    if (magic == 20240520 && version == 1) return "U16";
    if (magic == 20240801 && version == 7) return "U32";
    return "";
  }
};

LlmCHeader llm_c_header(const InputFile& file) {
  LlmCHeader header{};
  if (file.size() >= kLlmCHeaderBytes) file.read(0, std::as_writable_bytes(std::span(&header, 1)), "header");
  return header;
}

/// PREFIX.idx of PREFIX.idx or PREFIX.bin.
fs::path index_of(const fs::path& path) {
  return fs::path(path).replace_extension(".idx");
}

std::int64_t bytes_of(std::string_view stored_dtype) {
  return find_safetensors_dtype(stored_dtype)->bits / 8;
}

/// The ids of a file, from byte `begin` on.
std::shared_ptr<const TokenFile> ids_in(std::shared_ptr<const InputFile> file, std::uint64_t begin,
                                        TokenFileInfo info) {
  const std::string path = file->path().string();
  const auto read = [file = std::move(file), begin](std::uint64_t offset, std::span<std::byte> to) {
    file->read(begin + offset, to, "ids");
  };
  return std::make_shared<const TokenFile>(path, std::move(info), read, kFix);
}

std::shared_ptr<const InputFile> open_input(const fs::path& path) {
  return std::make_shared<const InputFile>(path, InputKind::kData);
}

ForeignTokenFile open_numpy(const std::string& path, TokenFileInfo info) {
  const auto file = open_input(path);
  const NumpyTokens tokens = read_numpy_tokens(*file);
  info.stored_dtype = tokens.stored_dtype;
  info.num_tokens = tokens.count;
  const auto ids = ids_in(file, tokens.begin, std::move(info));
  return {ids, ids, tokens.rows > 1 ? "NumPy's, " + std::to_string(tokens.rows) + " rows" : "NumPy's"};
}

ForeignTokenFile open_llm_c(const std::string& path, TokenFileInfo info) {
  const auto file = open_input(path);
  const LlmCHeader header = llm_c_header(*file);
  if (header.dtype().empty()) file->fail("header", "that of llm.c, of 1024 bytes", "another one");
  info.stored_dtype = header.dtype();
  info.num_tokens = header.num_tokens;
  const std::uint64_t bytes = kLlmCHeaderBytes + std::uint64_t{header.num_tokens} *
                                                     static_cast<std::uint64_t>(bytes_of(info.stored_dtype));
  if (header.num_tokens == 0 || file->size() != bytes)
    file->fail("size", std::to_string(bytes) + " bytes, as its header says", std::to_string(file->size()));
  const auto ids = ids_in(file, kLlmCHeaderBytes, std::move(info));
  return {ids, ids, "llm.c's"};
}

ForeignTokenFile open_raw(const std::string& path, TokenFileInfo info, const std::string& bin_dtype) {
  const auto file = open_input(path);
  if (bin_dtype == kNoBinDtype) {
    file->fail("", "ids of a type that is known", "a file without a header",
               "say the type of its ids: data.bin_dtype (--bin-dtype of moh data), uint16 or uint32");
  }
  info.stored_dtype = bin_dtype == "uint16" ? "U16" : "U32";
  const auto item = static_cast<std::uint64_t>(bytes_of(info.stored_dtype));
  if (file->size() == 0 || file->size() % item != 0) {
    file->fail("size", "ids of " + bin_dtype + ", " + std::to_string(item) + " bytes each",
               std::to_string(file->size()) + " bytes");
  }
  info.num_tokens = static_cast<std::int64_t>(file->size() / item);
  const auto ids = ids_in(file, 0, std::move(info));
  return {ids, ids, "ids of " + bin_dtype + " without a header"};
}

/// The ends of documents whose last id is not the separator.
std::vector<std::int64_t> ends_without(const TokenFile& ids, std::span<const std::int64_t> ends,
                                       TokenId separator) {
  std::vector<std::int64_t> found;
  std::array<TokenId, 1> last{};
  for (const std::int64_t end : ends.first(ends.size() - 1)) {  // nothing follows the last document
    ids.copy(end - 1, last);
    if (last[0] != separator) found.push_back(end);
  }
  return found;
}

ForeignTokenFile open_megatron(const std::string& path, TokenFileInfo info,
                               std::optional<TokenId> separator) {
  MegatronIndex index = read_megatron_index(*open_input(index_of(path)));
  const auto file = open_input(fs::path(path).replace_extension(".bin"));
  info.stored_dtype = index.stored_dtype;
  info.num_tokens = index.num_tokens;
  info.num_documents = std::ssize(index.ends);
  const std::int64_t bytes = index.num_tokens * bytes_of(index.stored_dtype);
  if (file->size() != static_cast<std::uint64_t>(bytes))
    file->fail("size", std::to_string(bytes) + " bytes, as its index says", std::to_string(file->size()));
  const auto ids = ids_in(file, 0, std::move(info));
  TokenSourcePtr documents = ids;
  if (separator) {
    std::vector<std::int64_t> ends = ends_without(*ids, index.ends, *separator);
    if (!ends.empty()) documents = separate_tokens(ids, std::move(ends), *separator);
  }
  return {ids, std::move(documents), "Megatron-LM's index and ids"};
}

/// Whether a `.bin` is a token file of moh. What only begins like one is ids, if the user says their type.
bool has_own_header(const std::string& path, bool type_is_said) {
  try {
    return token_file_kind(path) != TokenFileKind::kNone;
  } catch (const DataError&) {
    if (!type_is_said) throw;
    return false;
  }
}

}  // namespace

bool has_megatron_index(const std::string& path) {
  const fs::path index = index_of(path);
  std::error_code ignored;
  return fs::path(path).extension() == ".bin" && fs::is_regular_file(index, ignored) &&
         looks_like_megatron(InputFile(index, InputKind::kData).first_bytes(9));
}

ForeignTokens foreign_tokens_kind(const InputPath& input, const std::string& bin_dtype) {
  const InputFile file(input.path, InputKind::kData);
  const std::string first = file.first_bytes(4096);
  if (looks_like_numpy(first)) return ForeignTokens::kNumpy;
  if (looks_like_megatron(first) || has_megatron_index(input.path)) return ForeignTokens::kMegatron;
  if (fs::path(input.path).extension() != ".bin") return ForeignTokens::kNone;
  if (!llm_c_header(file).dtype().empty()) return ForeignTokens::kLlmC;
  const bool type_is_said = bin_dtype != kNoBinDtype;
  const bool may_be_ids = (input.named || type_is_said) && first.find('\0') != std::string::npos;
  return may_be_ids && !has_own_header(input.path, type_is_said) ? ForeignTokens::kRaw : ForeignTokens::kNone;
}

ForeignTokenFile open_foreign_tokens(const InputPath& input, ForeignTokens kind, const std::string& bin_dtype,
                                     std::string_view name, std::int64_t vocab_size,
                                     std::optional<TokenId> separator) {
  TokenFileInfo info{.tokenizer_name = std::string(name), .vocab_size = vocab_size};
  switch (kind) {
    case ForeignTokens::kNumpy:
      return open_numpy(input.path, std::move(info));
    case ForeignTokens::kLlmC:
      return open_llm_c(input.path, std::move(info));
    case ForeignTokens::kMegatron:
      return open_megatron(input.path, std::move(info), separator);
    case ForeignTokens::kRaw:
      return open_raw(input.path, std::move(info), bin_dtype);
    case ForeignTokens::kNone:
      break;
  }
  throw DataError(error_message(input.path, "", "ids of another program", "other contents"));
}

}  // namespace moh

#include "train/base/io/stand_in.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <system_error>

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr StandIn
    kLfs = {"a pointer of Git LFS, not the file", "fetch the file: git lfs pull"},
    kPage = {"a web page, not the file",
             "download the file itself; on the Hugging Face hub its address has /resolve/ in it, not "
             "/blob/"},
    kGzip = {"a file compressed by gzip", "unpack it: gunzip"},
    kZstd = {"a file compressed by zstd", "unpack it: unzstd"},
    kXz = {"a file compressed by xz", "unpack it: unxz"},
    kBzip2 = {"a file compressed by bzip2", "unpack it: bunzip2"};

bool begins_in_any_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

bool is_page(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  text.remove_prefix(begin);
  constexpr std::array<std::string_view, 3> kBegins = {"<!doctype html", "<html", "<?xml"};
  return std::ranges::any_of(kBegins,
                             [&](std::string_view known) { return begins_in_any_case(text, known); });
}

/// The ninth byte tells it from a safetensors file whose header has such a length.
bool is_gzip(std::string_view text) {
  constexpr std::string_view kLevels("\0\2\4", 3);
  return text.starts_with("\x1f\x8b\x08") && text.size() > 9 &&
         kLevels.find(text[8]) != std::string_view::npos;
}

std::string repository_of(std::string name) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"https://", "http://", "huggingface.co/",
                                                         "hf.co/",   "hf-hub:", "hf_hub:"};
  bool is_address = false;
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    name.erase(0, prefix.size());
    is_address = true;
  }
  const auto slashes = std::ranges::count(name, '/');
  if (slashes < 1 || (slashes > 1 && !is_address)) return "";
  if (slashes > 1) name.resize(name.find('/', name.find('/') + 1));
  const auto is_of_names = [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
  };
  const bool is_relative =
      name.starts_with('.') || name.starts_with('/') || name.starts_with('~') || name.ends_with('/');
  return !is_relative && std::ranges::all_of(name, is_of_names) ? name : "";
}

}  // namespace

bool is_lfs_pointer(std::string_view first_bytes) {
  return first_bytes.starts_with("version https://git-lfs.github.com/spec/");
}

const StandIn* stand_in_of(std::string_view first_bytes) {
  if (is_lfs_pointer(first_bytes)) return &kLfs;
  if (is_page(first_bytes)) return &kPage;
  if (is_gzip(first_bytes)) return &kGzip;
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd")) return &kZstd;
  if (first_bytes.starts_with(std::string_view("\xfd"
                                               "7zXZ\0",
                                               6)))
    return &kXz;
  if (first_bytes.starts_with("BZh") &&
      first_bytes.substr(std::min<std::size_t>(4, first_bytes.size())).starts_with("1AY&SY"))
    return &kBzip2;
  return nullptr;
}

std::string stand_in_note(std::string_view first_bytes) {
  const StandIn* const found = stand_in_of(first_bytes);
  return found == nullptr ? "" : "it is " + std::string(found->found) + "; " + std::string(found->fix);
}

std::string download_advice(const fs::path& path) {
  const std::string repository = repository_of(path.string());
  std::error_code ignored;
  if (repository.empty() || fs::exists(repository.substr(0, repository.find('/')), ignored)) return "";
  const std::string name = repository.substr(repository.find('/') + 1);
  return "moh does not download: 'hf download " + repository + " --local-dir " + name +
         "' (of Python's huggingface_hub) does, then name that folder";
}

std::string hub_cache_advice(const fs::path& folder) {
  const fs::path named = folder.has_filename() ? folder : folder.parent_path();
  std::error_code ignored;
  if (!named.filename().string().starts_with("models--") || !fs::is_directory(named / "snapshots", ignored))
    return "";
  std::string found;
  for (fs::directory_iterator it(named / "snapshots", ignored), end; !ignored && it != end;
       it.increment(ignored))
    found += (found.empty() ? "name its snapshot: " : ", or ") + it->path().string();
  return found.empty() ? "its snapshots/ is empty: download the model again" : found;
}

}  // namespace moh

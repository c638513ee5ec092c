#include "train/apps/watch/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <utility>

namespace moh::watch {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSamples = "samples";

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// The folder of a run may be a link, as the user named it; nothing below it may.
Descriptor opened(const fs::path& run, const std::string& name) {
  Descriptor folder(::open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::size_t slash = name.find('/');
  constexpr int kFile = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  if (slash == std::string::npos) return Descriptor(::openat(folder.get(), name.c_str(), kFile));
  const Descriptor inner(
      ::openat(folder.get(), name.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return Descriptor(::openat(inner.get(), name.c_str() + slash + 1, kFile));
}

/// The names of a folder's files that a run gives; `prefix` is the folder's.
void add_files(const fs::path& folder, const std::string& prefix, std::vector<RunFile>& to) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::string name = prefix + at->path().filename().string();
    const std::optional<RunFile::Kind> kind = kind_of_file(name);
    if (!kind || !fs::is_regular_file(at->symlink_status(ignored))) continue;
    const std::uint64_t bytes = at->file_size(ignored);
    if (!ignored && bytes <= kMostFileBytes) to.push_back({*kind, name, bytes});
  }
}

}  // namespace

std::optional<RunFile::Kind> kind_of_file(std::string_view name) {
  if (name == "sample.txt") return RunFile::Kind::kText;
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) {
    const bool is_trace = name == "trace.json" || (name.starts_with("trace.rank") && name.ends_with(".json"));
    return is_trace ? std::optional(RunFile::Kind::kTrace) : std::nullopt;
  }
  const std::string_view file = name.substr(slash + 1);
  const bool is_sample = name.substr(0, slash) == kSamples && file.find('/') == std::string_view::npos &&
                         file.starts_with("step_") && file.ends_with(".png");
  return is_sample ? std::optional(RunFile::Kind::kImage) : std::nullopt;
}

std::vector<RunFile> files_of(const fs::path& run) {
  std::vector<RunFile> files;
  add_files(run, "", files);
  std::error_code ignored;
  const fs::path samples = run / kSamples;
  if (fs::is_directory(fs::symlink_status(samples, ignored)))
    add_files(samples, std::string(kSamples) + "/", files);
  std::ranges::sort(files, {}, &RunFile::name);
  return files;
}

std::optional<std::string> read_run_file(const fs::path& run, const std::string& name) {
  if (!kind_of_file(name) || name.find('\0') != std::string::npos) return std::nullopt;
  const Descriptor file = opened(run, name);
  struct stat facts {};
  if (file.get() < 0 || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  if (static_cast<std::uint64_t>(facts.st_size) > kMostFileBytes) return std::nullopt;
  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + got, bytes.size() - got);
    if (count <= 0) break;
    got += static_cast<std::size_t>(count);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace moh::watch

#include "train/base/formats/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr std::string_view kGzipMagic = "\x1f\x8b", kZstdMagic = "\x28\xb5\x2f\xfd";
/// Logarithm of the largest window of Zstandard that is accepted: that of its level 22 with --long.
constexpr int kMaxWindowLog = 27;

/// The bytes of a file as they lie there.
class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(const std::string& path) : file_(path, InputKind::kData) {}

  std::size_t read(std::span<char> to) override {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), file_.size() - at_));
    file_.read(at_, std::as_writable_bytes(to.first(count)), "contents");
    at_ += count;
    return count;
  }
  std::uint64_t position() const override { return at_; }
  const InputFile& file() const { return file_; }

 private:
  InputFile file_;
  std::uint64_t at_ = 0;
};

/// The part of a compressed file that was read and not uncompressed yet.
class InputBlock {
 public:
  explicit InputBlock(const std::string& path) : stream_(path), bytes_(kBlockBytes) {}

  /// Bytes to uncompress, read if there are none left; empty at the end of the file.
  std::span<char> rest() {
    if (rest_.empty()) rest_ = std::span(bytes_).first(stream_.read(bytes_));
    return rest_;
  }
  /// rest() behind zero bytes, which are taken.
  std::span<char> rest_after_zeros() {
    while (!rest().empty()) {
      const auto other = std::ranges::find_if(rest_, [](char byte) { return byte != 0; });
      take(static_cast<std::size_t>(other - rest_.begin()));
      if (!rest_.empty()) break;
    }
    return rest_;
  }
  void take(std::size_t count) { rest_ = rest_.subspan(count); }
  std::uint64_t position() const { return stream_.position(); }
  [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
    stream_.file().fail("", expected, found, "the file is damaged");
  }

 private:
  PlainStream stream_;
  std::vector<char> bytes_;
  std::span<char> rest_;
};

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(const std::string& path) : input_(path) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&state_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<char> to) override {
    std::size_t made = 0;
    while (made == 0 && !to.empty()) {
      std::span<char> rest = input_.rest();
      // Tapes and block devices fill up with zeros behind a member, which gzip passes over.
      if (!in_member_ && has_member_) {
        rest = input_.rest_after_zeros();
        if (!rest.empty() && rest[0] != kGzipMagic[0]) fail_behind();
      }
      if (rest.empty()) {
        if (in_member_) input_.fail("a whole gzip file", "one that ends early");
        return 0;
      }
      made = inflate_some(rest, to);
    }
    return made;
  }
  std::uint64_t position() const override { return input_.position(); }

 private:
  /// A gzip file is one member after the other.
  std::size_t inflate_some(std::span<char> rest, std::span<char> to) {
    if (!in_member_ && inflateReset(&state_) != Z_OK) input_.fail("a gzip file", "damage");
    in_member_ = true;
    state_.next_in = reinterpret_cast<Bytef*>(rest.data());
    state_.avail_in = static_cast<uInt>(rest.size());
    state_.next_out = reinterpret_cast<Bytef*>(to.data());
    state_.avail_out = static_cast<uInt>(std::min<std::size_t>(to.size(), kBlockBytes));
    const uInt room = state_.avail_out;
    const int code = inflate(&state_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      in_member_ = false;
      has_member_ = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fail();
    }
    input_.take(rest.size() - state_.avail_in);
    return room - state_.avail_out;
  }

  [[noreturn]] void fail_behind() const {
    input_.fail("nothing but zeros or another member behind a gzip file", "other bytes");
  }
  [[noreturn]] void fail() const {
    const std::string_view words = state_.msg == nullptr ? "" : state_.msg;
    if (words == "incorrect header check" && has_member_) fail_behind();
    if (words == "incorrect data check" || words == "incorrect length check")
      input_.fail("a gzip file", "contents that its checksum does not fit (" + std::string(words) + ")");
    input_.fail("a gzip file", words.empty() ? "damage" : "damage (" + std::string(words) + ")");
  }

  InputBlock input_;
  z_stream state_{};
  bool in_member_ = false, has_member_ = false;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(const std::string& path) : input_(path), state_(ZSTD_createDCtx(), &ZSTD_freeDCtx) {
    if (state_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  std::size_t read(std::span<char> to) override {
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    while (out.pos == 0 && !to.empty()) {
      const std::span<char> rest = input_.rest();
      if (rest.empty() && !may_hold_) {
        if (in_frame_) input_.fail("a whole Zstandard file", "one that ends early");
        return 0;
      }
      ZSTD_inBuffer in{rest.data(), rest.size(), 0};
      const std::size_t code = ZSTD_decompressStream(state_.get(), &out, &in);
      if (ZSTD_isError(code) != 0) input_.fail("a Zstandard file", ZSTD_getErrorName(code));
      in_frame_ = code != 0;
      may_hold_ = out.pos == out.size && in_frame_;
      input_.take(in.pos);
    }
    return out.pos;
  }
  std::uint64_t position() const override { return input_.position(); }

 private:
  InputBlock input_;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> state_;
  bool in_frame_ = false;
  bool may_hold_ = false;  // output that did not fit
};

/// How a file is compressed, by its first bytes.
enum class Compression { kNone, kGzip, kZstd };

Compression compression_of(const std::string& path) {
  const std::string first = InputFile(path, InputKind::kData).first_bytes(4);
  if (first.starts_with(kGzipMagic)) return Compression::kGzip;
  // A file of Zstandard may begin with a frame that is to be skipped: 0x184D2A50 ... 0x184D2A5F.
  const bool is_skippable = first.size() == 4 && (first[0] & 0xF0) == 0x50 && first.ends_with("\x2a\x4d\x18");
  return first == kZstdMagic || is_skippable ? Compression::kZstd : Compression::kNone;
}

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(const std::string& path) {
  switch (compression_of(path)) {
    case Compression::kGzip:
      return std::make_unique<GzipStream>(path);
    case Compression::kZstd:
      return std::make_unique<ZstdStream>(path);
    case Compression::kNone:
      break;
  }
  return std::make_unique<PlainStream>(path);
}

bool is_compressed(const std::string& path) {
  return compression_of(path) != Compression::kNone;
}

}  // namespace moh

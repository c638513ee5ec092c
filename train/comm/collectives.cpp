#include "train/comm/collectives.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "train/comm/comm_error.h"
#include "train/comm/reduce_rows.h"

namespace moh {

namespace {

enum class Kind : std::uint32_t {
  kMeet,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBarrier,
  kLeave,
  kFailure
};
constexpr std::array<std::string_view, 8> kKindNames = {
    "meeting", "all-reduce", "reduce-scatter", "all-gather", "broadcast", "barrier", "leaving", "failure"};

constexpr double kFirstDeadline = 600, kFarewellDeadline = 10;
/// Elements of one exchange, in bytes: bounds scratch memory, and the counts that MPI takes.
constexpr std::size_t kPiece = std::size_t{1} << 26;
/// Up to this size everybody sends everything to everybody, in one exchange.
constexpr std::size_t kSmall = std::size_t{1} << 14;

double monotonic() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), tensor.bytes()};
}

std::span<std::byte> piece_of(std::span<std::byte> bytes, std::size_t begin) {
  return bytes.subspan(begin, std::min(kPiece, bytes.size() - begin));
}

}  // namespace

/// Sent as it is.
struct Collectives::Header {
  static constexpr std::uint32_t kMagic = 0x4d6f4843;
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kBarrier;
  std::uint64_t number = 0;
  std::uint64_t elements = 0;
  std::int32_t dtype = 0, op = 0;
  std::int32_t root = 0;       ///< of a broadcast
  std::int32_t exit_code = 0;  ///< of a failure
  PeerInfo peer;               ///< when they meet
  char text[512] = {};         ///< of a failure

  bool same_as(const Header& other) const {
    return magic == other.magic && kind == other.kind && number == other.number &&
           elements == other.elements && dtype == other.dtype && op == other.op && root == other.root;
  }
  std::string describe() const {
    if (magic != kMagic) return "no header of this version of moh";
    std::string what =
        std::string(kKindNames.at(static_cast<std::size_t>(kind))) + " number " + std::to_string(number);
    if (elements > 0) {
      what += " of " + std::to_string(elements) + " elements of " +
              std::string(dtype_name(static_cast<DType>(dtype)));
    }
    return what;
  }
};
static_assert(sizeof(PeerInfo) == 400 && std::is_trivially_copyable_v<PeerInfo>);

Collectives::Collectives(std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)), deadline_(kFirstDeadline) {
  Header own{.kind = Kind::kMeet};
  own.peer = describe_self();
  const std::vector<Header> all = exchange_headers(own);
  std::vector<PeerInfo> peers;
  for (int r = 0; r < size(); ++r) {
    const Header& other = all[static_cast<std::size_t>(r)];
    if (!other.same_as(all[static_cast<std::size_t>(rank())])) refuse(own, other, r);
    peers.push_back(other.peer);
    peers.back().host[sizeof(PeerInfo::host) - 1] = '\0';
  }
  peers_ = Peers(rank(), std::move(peers));
}

std::vector<Collectives::Header> Collectives::exchange_headers(const Header& own) {
  std::vector<Header> all(static_cast<std::size_t>(size()));
  all[static_cast<std::size_t>(rank())] = own;
  all[static_cast<std::size_t>(rank())].number = ++number_;
  doing_ = all[static_cast<std::size_t>(rank())].describe();
  const auto own_bytes = std::as_bytes(std::span(all))
                             .subspan(sizeof(Header) * static_cast<std::size_t>(rank()), sizeof(Header));
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    sends.push_back({r, own_bytes});
    receives.push_back({r, std::as_writable_bytes(std::span(all).subspan(static_cast<std::size_t>(r), 1))});
  }
  exchange(sends, receives);
  return all;
}

/// Throws unless everybody calls the same.
void Collectives::agree(Header own) {
  const std::vector<Header> all = exchange_headers(own);
  own.number = number_;
  const auto failed = std::ranges::find_if(
      all, [](const Header& h) { return h.magic == Header::kMagic && h.kind == Kind::kFailure; });
  if (failed != all.end()) {
    const auto length = strnlen(failed->text, sizeof failed->text);
    throw PeerError(peers_.name(static_cast<int>(failed - all.begin())) +
                        " has failed: " + std::string(failed->text, length),
                    failed->exit_code);
  }
  for (int r = 0; r < size(); ++r) {
    if (const Header& other = all[static_cast<std::size_t>(r)]; !other.same_as(own)) refuse(own, other, r);
  }
}

void Collectives::refuse(const Header& own, const Header& other, int rank_of_other) const {
  throw CommError(error_message(
      "comm", "collective " + std::to_string(number_),
      own.describe() + ", as this process, rank " + std::to_string(rank()) + ", calls it",
      other.describe() + " from " + peers_.name(rank_of_other),
      number_ == 1 ? "start all processes with the same version of moh"
                   : "the processes do different work, although they began alike: please report "
                     "this as a bug in moh"));
}

/// Waits until everything has been sent and received.
void Collectives::exchange(const std::vector<Outgoing>& sends, const std::vector<Incoming>& receives) {
  constexpr int kSpins = 200;
  constexpr double kLookEvery = 0.1;
  transport_->begin(sends, receives);
  double began = 0, look = 0;
  for (int spins = 0; !transport_->poll();) {
    abort_if_requested();
    if (waiting_ > 0 && ++spins < kSpins) {
      std::this_thread::yield();
      continue;
    }
    const double now = monotonic();
    if (began == 0) began = now, look = now + kLookEvery;
    if (now >= look) {
      look = now + kLookEvery;
      const std::vector<int> ended = peers_.ended(transport_->awaited());
      // Messages that a process sent before it ended may still be under way.
      if (!ended.empty() && !transport_->poll()) fail_waiting(now - began, ended);
      if (deadline_ > 0 && now - began > deadline_) fail_waiting(now - began, {});
    }
    transport_->wait(now - began, waiting_ > 0);
  }
}

void Collectives::fail_waiting(double waited, const std::vector<int>& ended) const {
  const std::string where = "comm: " + doing_;
  if (!ended.empty()) {
    throw CommError(error_message(where, "", "all " + std::to_string(size()) + " processes",
                                  "that " + peers_.names(ended) + " ended without a word",
                                  "its last output, or the system's log, may say why (out of memory, a "
                                  "signal); start again with --resume"));
  }
  const std::vector<int> awaited = transport_->awaited();
  std::vector<int> here;
  for (int r = 0; r < size(); ++r) {
    if (std::ranges::find(awaited, r) == awaited.end()) here.push_back(r);
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", waited);
  throw CommError(error_message(where, "", "all " + std::to_string(size()) + " processes within comm.timeout",
                                "after " + std::string(seconds) + " s that " + peers_.names(awaited) +
                                    " did not come; " + peers_.names(here) + " did",
                                "the missing one may be stuck or stopped, or need longer: set comm.timeout; "
                                "start again with --resume"));
}

void Collectives::abort_if_requested() {
  if (const int code = abort_code_; code >= 0) transport_->abort(code);
}

std::span<std::byte> Collectives::scratch(std::size_t bytes) {
  const auto wanted = static_cast<std::int64_t>(bytes);
  if (!scratch_.defined() || scratch_.numel() < wanted) {
    const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
    scratch_ = Tensor();
    scratch_ = empty({wanted}, DType::kUInt8);
  }
  return bytes_of(scratch_).first(bytes);
}

/// The part of each process in elements of `unit` bytes, in order.
std::vector<std::span<std::byte>> Collectives::slices_of(std::span<std::byte> values,
                                                         std::size_t unit) const {
  const std::size_t elements = values.size() / unit, n = static_cast<std::size_t>(size());
  std::vector<std::span<std::byte>> slices;
  for (std::size_t r = 0; r < n; ++r) {
    const std::size_t begin = elements * r / n, end = elements * (r + 1) / n;
    slices.push_back(values.subspan(begin * unit, (end - begin) * unit));
  }
  return slices;
}

/// Everybody sends its slice to everybody.
void Collectives::gather_slices(std::span<std::byte> values, std::size_t unit) {
  const std::vector<std::span<std::byte>> slices = slices_of(values, unit);
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    sends.push_back({r, slices[static_cast<std::size_t>(rank())]});
    receives.push_back({r, slices[static_cast<std::size_t>(r)]});
  }
  exchange(sends, receives);
}

void Collectives::all_reduce_piece(std::span<std::byte> values, DType dtype, ReduceOp op) {
  const std::size_t unit = dtype_size(dtype), n = static_cast<std::size_t>(size());
  const bool whole = values.size() <= kSmall;  // every process makes all sums
  std::vector<std::span<std::byte>> slices = slices_of(values, unit);
  if (whole) std::ranges::fill(slices, values);
  const std::span<std::byte> own = slices[static_cast<std::size_t>(rank())];
  const std::span<std::byte> room = scratch(own.size() * n);
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
  std::vector<const std::byte*> rows(n, own.data());
  for (int r = 0; r < size(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (r == rank()) continue;
    const auto place = room.subspan(own.size() * i, own.size());
    sends.push_back({r, slices[i]});
    receives.push_back({r, place});
    rows[i] = place.data();
  }
  exchange(sends, receives);
  reduce_rows(rows, own.data(), own.size() / unit, dtype, op);
  if (!whole) gather_slices(values, unit);
}

namespace {

/// The values in the type in which they are sent: themselves, or a rounded copy.
Tensor as_sent(const Tensor& values, DType wire) {
  if (wire == values.dtype()) return values;
  MOH_CHECK(wire == DType::kBFloat16, "float32 is sent as it is, or as bfloat16");
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  Tensor sent = empty(values.shape(), wire);
  round_to_bfloat16(values.data<float>(), sent.data<bfloat16>(), static_cast<std::size_t>(values.numel()));
  return sent;
}

/// Brings the sums back to where they belong, if they were made in a rounded copy.
void take_received(const Tensor& sums, const Tensor& values) {
  if (sums.dtype() == values.dtype()) return;
  upcast(sums.data<bfloat16>(), values.data<float>(), static_cast<std::size_t>(values.numel()));
}

}  // namespace

void Collectives::all_reduce(const Tensor& values, ReduceOp op, DType wire) {
  agree({.kind = Kind::kAllReduce,
         .elements = static_cast<std::uint64_t>(values.numel()),
         .dtype = static_cast<std::int32_t>(wire),
         .op = static_cast<std::int32_t>(op)});
  const Tensor sent = as_sent(values, wire);
  const std::span<std::byte> bytes = bytes_of(sent);
  for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece)
    all_reduce_piece(piece_of(bytes, begin), wire, op);
  take_received(sent, values);
}

void Collectives::reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) {
  MOH_CHECK(rows.numel() == part.numel() * size() && rows.dtype() == part.dtype(), "a row for each process");
  agree({.kind = Kind::kReduceScatter,
         .elements = static_cast<std::uint64_t>(rows.numel()),
         .dtype = static_cast<std::int32_t>(wire),
         .op = static_cast<std::int32_t>(op)});
  const Tensor sent = as_sent(rows, wire), sums = wire == part.dtype() ? part : empty(part.shape(), wire);
  const std::size_t unit = dtype_size(wire), n = static_cast<std::size_t>(size());
  const std::span<std::byte> all = bytes_of(sent), to = bytes_of(sums);
  for (std::size_t begin = 0; begin < to.size(); begin += kPiece) {
    const std::span<std::byte> piece = piece_of(to, begin), room = scratch(piece.size() * n);
    const auto row = [&](int r) {
      return all.subspan(to.size() * static_cast<std::size_t>(r) + begin, piece.size());
    };
    std::vector<Outgoing> sends;
    std::vector<Incoming> receives;
    std::vector<const std::byte*> parts(n, row(rank()).data());
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const auto place = room.subspan(piece.size() * static_cast<std::size_t>(r), piece.size());
      sends.push_back({r, row(r)});
      receives.push_back({r, place});
      parts[static_cast<std::size_t>(r)] = place.data();
    }
    exchange(sends, receives);
    reduce_rows(parts, piece.data(), piece.size() / unit, wire, op);
  }
  take_received(sums, part);
}

void Collectives::all_gather(const Tensor& part, const Tensor& rows) {
  MOH_CHECK(rows.numel() == part.numel() * size() && rows.dtype() == part.dtype(), "a row for each process");
  agree({.kind = Kind::kAllGather,
         .elements = static_cast<std::uint64_t>(rows.numel()),
         .dtype = static_cast<std::int32_t>(rows.dtype())});
  const std::span<std::byte> own = bytes_of(part), all = bytes_of(rows);
  for (std::size_t begin = 0; begin < own.size(); begin += kPiece) {
    const std::span<std::byte> piece = piece_of(own, begin);
    std::vector<Outgoing> sends;
    std::vector<Incoming> receives;
    for (int r = 0; r < size(); ++r) {
      const auto place = all.subspan(own.size() * static_cast<std::size_t>(r) + begin, piece.size());
      if (r == rank()) {
        if (place.data() != piece.data()) std::memcpy(place.data(), piece.data(), piece.size());
        continue;
      }
      sends.push_back({r, piece});
      receives.push_back({r, place});
    }
    exchange(sends, receives);
  }
}

/// The root sends each process a slice, and these exchange their slices: the root sends every byte once.
void Collectives::broadcast(const Tensor& values, int root) {
  agree({.kind = Kind::kBroadcast,
         .elements = static_cast<std::uint64_t>(values.numel()),
         .dtype = static_cast<std::int32_t>(values.dtype()),
         .root = root});
  const std::span<std::byte> bytes = bytes_of(values);
  for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece) {
    const std::span<std::byte> piece = piece_of(bytes, begin);
    const bool whole = piece.size() <= kSmall;
    std::vector<std::span<std::byte>> slices = slices_of(piece, 1);
    if (whole) std::ranges::fill(slices, piece);
    std::vector<Outgoing> sends;
    std::vector<Incoming> receives;
    if (rank() != root) receives.push_back({root, slices[static_cast<std::size_t>(rank())]});
    for (int r = 0; rank() == root && r < size(); ++r) {
      if (r != root) sends.push_back({r, slices[static_cast<std::size_t>(r)]});
    }
    exchange(sends, receives);
    if (!whole) gather_slices(piece, 1);
  }
}

void Collectives::barrier() {
  agree({.kind = Kind::kBarrier});
}

void Collectives::leave() {
  deadline_ = 0;
  agree({.kind = Kind::kLeave});
  transport_->close();
}

bool Collectives::report_failure(int exit_code, std::string_view message) {
  Header failure{.kind = Kind::kFailure, .exit_code = exit_code};
  message.copy(failure.text, sizeof failure.text - 1);
  const double before = deadline_.exchange(kFarewellDeadline);
  try {
    exchange_headers(failure);
  } catch (const CommError&) {
    const std::vector<int> awaited = transport_->awaited();
    return std::ranges::find(awaited, 0) == awaited.end();
  }
  deadline_ = before;
  return true;
}

void Collectives::leave_failed() {
  deadline_ = kFarewellDeadline;
  exchange_headers({.kind = Kind::kLeave});
  transport_->close();
}

}  // namespace moh

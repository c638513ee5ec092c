#include "train/comm/tcp_transport.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "core/error.h"
#include "train/comm/arrivals.h"
#include "train/comm/comm_error.h"
#include "train/comm/sockets.h"

namespace moh {

namespace {

constexpr std::uint64_t kGreeting = 0x31504354484F4DULL;  // "MOHTCP1"

/// The first thing that a process says on a connection that it has made.
struct Hello {
  std::uint64_t greeting = kGreeting;
  std::int32_t rank = 0, size = 0, port = 0, unused = 0;
};
/// Where a process listens.
struct Place {
  std::array<char, 64> address{};
  std::int32_t port = 0;
};

template <class T>
std::span<const std::byte> raw_bytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// The connections of a process, by rank.
class Meeting {
 public:
  explicit Meeting(const TcpMeeting& meeting)
      : at_(meeting),
        deadline_(Clock::now() + meeting.deadline),
        sockets_(static_cast<std::size_t>(meeting.size)) {}

  std::vector<Socket> connect() {
    places_.resize(sockets_.size());
    if (at_.rank == 0) {
      listener_.emplace(at_.host, at_.port);
      accept_from(1);
      for (std::size_t r = 1; r < sockets_.size(); ++r)
        require(sockets_[r].send_all(std::as_bytes(std::span(places_)), deadline_), static_cast<int>(r));
    } else {
      sockets_[0] = connected(at_.host, at_.port, 0);
      require(sockets_[0].receive_all(std::as_writable_bytes(std::span(places_)), deadline_), 0);
      for (int r = 1; r < at_.rank; ++r) {
        Place& place = places_[static_cast<std::size_t>(r)];
        place.address.back() = '\0';
        sockets_[static_cast<std::size_t>(r)] = connected(place.address.data(), place.port, r);
      }
      accept_from(at_.rank + 1);
    }
    return std::move(sockets_);
  }

 private:
  void require(bool done, int rank) const {
    if (!done)
      throw CommError(error_message("comm", "TCP", "all processes to come",
                                    "that rank " + std::to_string(rank) + " ended, or did not go on within " +
                                        std::to_string(at_.deadline.count()) + " s"));
  }

  /// Connects, and says where this process listens: where the first connection, to rank 0, goes out.
  Socket connected(const std::string& host, int port, int rank) {
    std::optional<Socket> socket = connect_to(host, port, deadline_);
    if (!socket) {
      throw CommError(error_message(
          "comm", "TCP", "rank " + std::to_string(rank) + " at " + host + ", port " + std::to_string(port),
          "nobody within " + std::to_string(at_.deadline.count()) + " s"));
    }
    if (!listener_) listener_.emplace(*socket);
    const Hello hello{.rank = at_.rank, .size = at_.size, .port = listener_->port()};
    require(socket->send_all(raw_bytes(hello), deadline_), rank);
    return std::move(*socket);
  }

  /// Accepts the ranks from `first` on, in any order.
  void accept_from(int first) {
    Arrivals arrivals(*listener_, sizeof(Hello));
    for (int missing = at_.size - first; missing > 0;) {
      std::optional<Arrival> arrival = arrivals.next(deadline_);
      if (!arrival) throw_missing(first);
      Hello hello;
      std::memcpy(&hello, arrival->greeting.data(), sizeof hello);
      if (!is_of_a_run(hello, first)) continue;
      check(hello);
      const auto rank = static_cast<std::size_t>(hello.rank);
      const std::string address = arrival->socket.peer_address();
      address.copy(places_[rank].address.data(), places_[rank].address.size() - 1);
      places_[rank].port = hello.port;
      sockets_[rank] = std::move(arrival->socket);
      --missing;
    }
  }

  /// False for a greeting that no process of a run sends: strangers' greetings end nothing.
  static bool is_of_a_run(const Hello& hello, int first) {
    return hello.greeting == kGreeting && hello.rank >= first && hello.rank < hello.size;
  }

  void check(const Hello& hello) const {
    if (hello.size != at_.size)
      throw ConfigError(error_message("comm", "WORLD_SIZE",
                                      std::to_string(at_.size) + " as in rank " + std::to_string(at_.rank),
                                      std::to_string(hello.size)));
    if (sockets_[static_cast<std::size_t>(hello.rank)].is_open())
      throw ConfigError(error_message("comm", "RANK",
                                      "each from 0 to " + std::to_string(at_.size - 1) + " once",
                                      std::to_string(hello.rank) + " twice"));
  }

  [[noreturn]] void throw_missing(int first) const {
    std::string missing;
    for (int r = first; r < at_.size; ++r) {
      if (!sockets_[static_cast<std::size_t>(r)].is_open())
        missing += (missing.empty() ? "" : ", ") + std::to_string(r);
    }
    throw CommError(error_message("comm", "TCP",
                                  "all " + std::to_string(at_.size) + " processes within " +
                                      std::to_string(at_.deadline.count()) + " s",
                                  "that rank " + missing + " did not come"));
  }

  TcpMeeting at_;
  Clock::time_point deadline_;
  std::optional<Listener> listener_;
  std::vector<Socket> sockets_;
  std::vector<Place> places_;
};

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TcpMeeting& meeting)
      : rank_(meeting.rank), sockets_(Meeting(meeting).connect()) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(sockets_.size()); }
  std::string description() const override { return "TCP"; }

  void begin(std::span<const Outgoing> sends, std::span<const Incoming> receives) override {
    sends_.assign(sends.begin(), sends.end());
    receives_.assign(receives.begin(), receives.end());
  }

  bool poll() override {
    advance(
        sends_, [this](Outgoing& message) { return socket_of(message.to).send_some(message.bytes); },
        &Outgoing::to);
    advance(
        receives_, [this](Incoming& message) { return socket_of(message.from).receive_some(message.bytes); },
        &Incoming::from);
    return sends_.empty() && receives_.empty();
  }

  void wait(double, bool) override {
    constexpr timespec kAtMost{.tv_sec = 0, .tv_nsec = 1'000'000};
    std::vector<pollfd> open;
    for (const Outgoing& message : sends_) open.push_back({socket_of(message.to).fd(), POLLOUT, 0});
    for (const Incoming& message : receives_) open.push_back({socket_of(message.from).fd(), POLLIN, 0});
    ::ppoll(open.data(), open.size(), &kAtMost, nullptr);
  }

  std::vector<int> awaited() const override {
    std::vector<int> ranks;
    for (const Outgoing& message : sends_) ranks.push_back(message.to);
    for (const Incoming& message : receives_) ranks.push_back(message.from);
    std::ranges::sort(ranks);
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

  void close() override { sockets_.clear(); }
  void abort(int exit_code) override { ::_exit(exit_code); }  // the others see their connections end

 private:
  const Socket& socket_of(int rank) const { return sockets_[static_cast<std::size_t>(rank)]; }

  /// Moves the messages on, of each process in their order, and drops those that are complete.
  template <class Message, class Move>
  void advance(std::vector<Message>& messages, const Move& move, int Message::*peer) {
    std::vector<int> blocked;
    for (Message& message : messages) {
      const int rank = message.*peer;
      if (std::ranges::find(blocked, rank) != blocked.end()) continue;
      while (!message.bytes.empty()) {
        const std::optional<std::size_t> moved = move(message);
        if (!moved)
          throw CommError(error_message("comm", "TCP", "all " + std::to_string(size()) + " processes",
                                        "that rank " + std::to_string(rank) + " ended without a word"));
        if (*moved == 0) break;
        message.bytes = message.bytes.subspan(*moved);
      }
      if (!message.bytes.empty()) blocked.push_back(rank);
    }
    std::erase_if(messages, [](const Message& message) { return message.bytes.empty(); });
  }

  int rank_;
  std::vector<Socket> sockets_;  // by rank; its own is closed
  std::vector<Outgoing> sends_;
  std::vector<Incoming> receives_;
};

}  // namespace

std::unique_ptr<Transport> connect_tcp(const TcpMeeting& meeting) {
  return std::make_unique<TcpTransport>(meeting);
}

}  // namespace moh

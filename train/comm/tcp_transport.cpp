#include "train/comm/tcp_transport.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "train/comm/comm_error.h"
#include "train/comm/sockets.h"

namespace moh {

namespace {

constexpr std::uint64_t kGreeting = 0x31504354484F4DULL;  // "MOHTCP1"
/// A process says who it is as soon as it is connected. Whoever does not holds up nobody for longer.
constexpr std::chrono::seconds kGreetingTime{5};

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
std::span<const std::byte> bytes_of(const T& value) {
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
        listener_(meeting.rank == 0 ? meeting.port : 0),
        sockets_(static_cast<std::size_t>(meeting.size)) {}

  std::vector<Socket> connect() {
    if (at_.rank == 0) {
      accept_from(1);
      for (std::size_t r = 1; r < sockets_.size(); ++r)
        require(sockets_[r].send_all(std::as_bytes(std::span(places_)), deadline_), static_cast<int>(r));
    } else {
      sockets_[0] = connected(at_.host, at_.port, 0);
      places_.resize(sockets_.size());
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

  Socket connected(const std::string& host, int port, int rank) const {
    std::optional<Socket> socket = connect_to(host, port, deadline_);
    if (!socket) {
      throw CommError(error_message(
          "comm", "TCP", "rank " + std::to_string(rank) + " at " + host + ", port " + std::to_string(port),
          "nobody within " + std::to_string(at_.deadline.count()) + " s"));
    }
    const Hello hello{.rank = at_.rank, .size = at_.size, .port = listener_.port()};
    require(socket->send_all(bytes_of(hello), deadline_), rank);
    return std::move(*socket);
  }

  /// Accepts the ranks from `first` on, in any order.
  void accept_from(int first) {
    places_.resize(sockets_.size());
    for (int missing = at_.size - first; missing > 0;) {
      std::optional<Socket> socket = listener_.accept(deadline_);
      if (!socket) throw_missing(first);
      Hello hello;
      // What is no process of a run is none of ours.
      const auto until = std::min(deadline_, Clock::now() + kGreetingTime);
      if (!socket->receive_all(writable_bytes_of(hello), until) || hello.greeting != kGreeting) continue;
      check(hello, first);
      Place& place = places_[static_cast<std::size_t>(hello.rank)];
      const std::string address = socket->peer_address();
      address.copy(place.address.data(), place.address.size() - 1);
      place.port = hello.port;
      sockets_[static_cast<std::size_t>(hello.rank)] = std::move(*socket);
      --missing;
    }
  }

  void check(const Hello& hello, int first) const {
    if (hello.size != at_.size)
      throw ConfigError(error_message("comm", "WORLD_SIZE",
                                      std::to_string(at_.size) + " as in rank " + std::to_string(at_.rank),
                                      std::to_string(hello.size)));
    if (hello.rank < first || hello.rank >= at_.size ||
        sockets_[static_cast<std::size_t>(hello.rank)].is_open())
      throw ConfigError(error_message("comm", "RANK",
                                      "each from 0 to " + std::to_string(at_.size - 1) + " once",
                                      std::to_string(hello.rank) + " twice, or out of range"));
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
  Listener listener_;
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

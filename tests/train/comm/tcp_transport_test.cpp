#include "train/comm/tcp_transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "train/comm/arrivals.h"
#include "train/comm/sockets.h"

using namespace moh;

namespace {

Clock::time_point in_seconds(int seconds) {
  return Clock::now() + std::chrono::seconds(seconds);
}

/// A port of this machine that was free a moment ago.
int free_port() {
  return Listener("127.0.0.1", 0).port();
}

Socket connection_to(int port) {
  std::optional<Socket> socket = connect_to("127.0.0.1", port, in_seconds(60));
  REQUIRE(socket);
  return std::move(*socket);
}

/// The greeting of a process of a run: the beginning of its name, rank, size, port, 0.
std::vector<std::byte> greeting(std::int32_t rank, std::int32_t size) {
  const std::uint64_t word = 0x31504354484F4DULL;
  const std::array<std::int32_t, 4> numbers = {rank, size, 1, 0};
  std::vector<std::byte> bytes(sizeof word + sizeof numbers);
  std::memcpy(bytes.data(), &word, sizeof word);
  std::memcpy(bytes.data() + sizeof word, numbers.data(), sizeof numbers);
  return bytes;
}

/// The address at which a listener's only socket listens.
std::string address_of(const Listener& listener) {
  REQUIRE(listener.sockets().size() == 1);
  sockaddr_in address{};
  socklen_t length = sizeof address;
  REQUIRE(::getsockname(listener.sockets()[0].fd(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  if (address.sin_family != AF_INET) return "not of IPv4";
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return text.data();
}

}  // namespace

TEST_CASE("tcp: who says nothing holds up nobody, however many there are") {
  const Listener listener("127.0.0.1", 0);
  std::vector<Socket> silent;
  for (std::size_t i = 0; i < Arrivals::kMostSilent + 40; ++i)
    silent.push_back(connection_to(listener.port()));
  const Socket speaks = connection_to(listener.port());
  REQUIRE(speaks.send_all(greeting(1, 2), in_seconds(60)));
  Arrivals arrivals(listener, greeting(0, 0).size());
  const auto began = Clock::now();
  const std::optional<Arrival> arrival = arrivals.next(in_seconds(60));
  REQUIRE(arrival);
  CHECK(arrival->greeting == greeting(1, 2));
  CHECK(Clock::now() - began < Arrivals::kGreetingTime);  // no silent one was waited for
}

TEST_CASE("tcp: a greeting may come in pieces, and one that never becomes whole is nobody's") {
  const Listener listener("127.0.0.1", 0);
  const std::vector<std::byte> words = greeting(1, 2);
  Socket half = connection_to(listener.port());
  REQUIRE(half.send_all(std::span(words).first(5), in_seconds(60)));
  Arrivals arrivals(listener, words.size());
  CHECK_FALSE(arrivals.next(Clock::now() + std::chrono::milliseconds(50)));
  REQUIRE(half.send_all(std::span(words).subspan(5), in_seconds(60)));
  const std::optional<Arrival> arrival = arrivals.next(in_seconds(60));
  REQUIRE(arrival);
  CHECK(arrival->greeting == words);
}

TEST_CASE("tcp: strangers end nothing, whatever they say") {
  const int port = free_port();
  std::thread second, strangers([&] {
    for (const auto& [rank, size] : {std::pair{7, 2}, std::pair{-1, 2}, std::pair{0, 2}, std::pair{5, 3}}) {
      const Socket stranger = connection_to(port);
      static_cast<void>(stranger.send_all(greeting(rank, size), in_seconds(60)));
    }
    second = std::thread([&] { connect_tcp({.host = "127.0.0.1", .port = port, .rank = 1, .size = 2}); });
  });
  const auto first = connect_tcp({.host = "127.0.0.1", .port = port, .rank = 0, .size = 2});
  CHECK(first->size() == 2);
  strangers.join();
  second.join();
}

TEST_CASE("tcp: a process of another number of processes ends the run") {
  const int port = free_port();
  std::thread other([&] {
    const Socket socket = connection_to(port);
    static_cast<void>(socket.send_all(greeting(2, 3), in_seconds(60)));
  });
  CHECK_THROWS_AS(connect_tcp({.host = "127.0.0.1", .port = port, .rank = 0, .size = 2}), ConfigError);
  other.join();
}

TEST_CASE("tcp: a listener is where the address says, and not at all of the machine's") {
  CHECK(address_of(Listener("127.0.0.1", 0)) == "127.0.0.1");
  CHECK(address_of(Listener("127.0.0.2", 0)) == "127.0.0.2");
  // Behind an address translation (here one that is for documentation, RFC 5737), it is at all of them.
  CHECK(address_of(Listener("192.0.2.7", 0)) != "192.0.2.7");
  const Listener listener("127.0.0.1", 0);
  const Socket socket = connection_to(listener.port());
  CHECK(address_of(Listener(socket)) == "127.0.0.1");
}

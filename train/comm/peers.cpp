#include "train/comm/peers.h"

#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace moh {

namespace {

/// A descriptor that becomes readable when the process ends (Linux 5.3); -1 where there is none.
int open_process(std::int64_t process) {
#ifdef SYS_pidfd_open
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0U));
#else
  return -1;
#endif
}

}  // namespace

PeerInfo describe_self() {
  PeerInfo self;
  ::gethostname(self.host, sizeof self.host - 1);
  struct stat space {};
  if (::stat("/proc/self/ns/pid", &space) == 0) self.pid_namespace = space.st_ino;
  self.process = ::getpid();
  static_assert(sizeof(cpu_set_t) == sizeof(PeerInfo::processors));
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0)
    std::memcpy(self.processors, &usable, sizeof usable);
  return self;
}

Peers::Peers(int own_rank, std::vector<PeerInfo> peers) : own_(own_rank), peers_(std::move(peers)) {
  const PeerInfo& self = peers_.at(static_cast<std::size_t>(own_));
  for (const PeerInfo& peer : peers_) {
    const bool visible = std::string_view(peer.host) == self.host && self.pid_namespace != 0 &&
                         peer.pid_namespace == self.pid_namespace && peer.process != self.process;
    handles_.push_back(visible ? open_process(peer.process) : -1);
  }
}

Peers::~Peers() {
  for (const int handle : handles_) {
    if (handle >= 0) ::close(handle);
  }
}

Peers::Peers(Peers&& other) noexcept {
  *this = std::move(other);
}

Peers& Peers::operator=(Peers&& other) noexcept {
  std::swap(own_, other.own_);
  std::swap(peers_, other.peers_);
  std::swap(handles_, other.handles_);
  return *this;
}

int Peers::local_rank() const {
  if (peers_.empty()) return 0;
  const std::string_view host = peers_[static_cast<std::size_t>(own_)].host;
  return static_cast<int>(std::count_if(peers_.begin(), peers_.begin() + own_,
                                        [&](const PeerInfo& peer) { return peer.host == host; }));
}

int Peers::local_size() const {
  if (peers_.empty()) return 1;
  const std::string_view host = peers_[static_cast<std::size_t>(own_)].host;
  return static_cast<int>(
      std::ranges::count_if(peers_, [&](const PeerInfo& peer) { return peer.host == host; }));
}

int Peers::hosts() const {
  std::set<std::string_view> hosts;
  for (const PeerInfo& peer : peers_) hosts.insert(peer.host);
  return static_cast<int>(hosts.size());
}

int Peers::sharing_processors() const {
  const PeerInfo& self = peers_[static_cast<std::size_t>(own_)];
  const auto shares = [&self](const PeerInfo& peer) {
    if (std::string_view(peer.host) != self.host) return false;
    for (std::size_t i = 0; i < std::size(self.processors); ++i) {
      if ((peer.processors[i] & self.processors[i]) != 0) return true;
    }
    return false;
  };
  return std::max(1, static_cast<int>(std::ranges::count_if(peers_, shares)));
}

std::string Peers::name(int rank) const {
  std::string name = "rank " + std::to_string(rank);
  if (static_cast<std::size_t>(rank) >= peers_.size()) return name;  // before they have met
  const PeerInfo& peer = peers_[static_cast<std::size_t>(rank)];
  return name + " (host " + peer.host + ", process " + std::to_string(peer.process) + ")";
}

std::string Peers::names(const std::vector<int>& ranks) const {
  std::string names;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) names += i + 1 == ranks.size() ? " and " : ", ";
    names += name(ranks[i]);
  }
  return names;
}

std::vector<int> Peers::ended(const std::vector<int>& ranks) const {
  std::vector<int> ended;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    if (index >= handles_.size() || handles_[index] < 0) continue;
    pollfd handle{handles_[index], POLLIN, 0};
    if (::poll(&handle, 1, 0) == 1) ended.push_back(rank);
  }
  return ended;
}

}  // namespace moh

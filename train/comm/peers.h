#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moh {

/// The facts that a process sends to the others when they meet. Trivially copyable: sent byte by byte.
struct PeerInfo {
  char host[256] = {};
  std::uint64_t pid_namespace = 0;  ///< in which `process` is its number
  std::int64_t process = 0;
  std::uint64_t processors[16] = {};  ///< that it may use, a bit each; of more than 1024 the first
};

PeerInfo describe_self();

/// The processes of a run, by rank. Those of this machine are watched, so that one that was killed is noticed
/// at once, and not when others have waited for it in vain.
class Peers {
 public:
  Peers() = default;
  Peers(int own_rank, std::vector<PeerInfo> peers);
  ~Peers();
  Peers(Peers&& other) noexcept;
  Peers& operator=(Peers&& other) noexcept;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Number of processes on this machine with a lower rank.
  int local_rank() const;
  /// Number of processes on this machine.
  int local_size() const;
  int hosts() const;
  /// Number of processes of this machine, the own one included, that may use one of its processors.
  int sharing_processors() const;
  /// "rank 2 (host H, process P)".
  std::string name(int rank) const;
  /// "rank 1 (host H, process P) and rank 3 (...)".
  std::string names(const std::vector<int>& ranks) const;
  /// The processes among the given ones that ran on this machine and have ended.
  std::vector<int> ended(const std::vector<int>& ranks) const;

 private:
  int own_ = 0;
  std::vector<PeerInfo> peers_;
  std::vector<int> handles_;  // pidfd of each that is watched, else -1
};

}  // namespace moh

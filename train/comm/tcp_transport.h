#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "train/comm/transport.h"

namespace moh {

/// Where the processes of a run meet, as torchrun tells each of them.
struct TcpMeeting {
  std::string host;  ///< of rank 0: a name or an address
  int port = 0;      ///< at which rank 0 listens for the others
  int rank = 0, size = 1;
  std::chrono::seconds deadline{120};  ///< for all to come
};

/// Connects all processes with each other by TCP: each with rank 0, which tells them where the others listen.
/// Waits for processes that start later. Throws CommError, naming the ranks, if some do not come in time, and
/// ConfigError for a port that is in use, two processes of one rank, other numbers of processes, or programs
/// of another version.
///
/// Nothing is encrypted, and whoever reaches the port may join: for machines that trust their network, as
/// MPI's and NCCL's.
std::unique_ptr<Transport> connect_tcp(const TcpMeeting& meeting);

}  // namespace moh

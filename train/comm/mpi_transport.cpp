#include "train/comm/mpi_transport.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "train/comm/comm_error.h"
#include "train/comm/mpi_library.h"

namespace moh {

namespace {

/// "Open MPI v4.1.4", of a text that goes on with its builder and dates.
std::string version_of(const MpiLibrary& mpi) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (mpi.get_library_version(text, &length) != MPI_SUCCESS) return "Open MPI";
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find(','));
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    // One thread calls MPI, but not the one that runs main().
    require(mpi_.init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED)
      throw ConfigError(
          error_message("comm", "MPI", "MPI_THREAD_SERIALIZED", "a library for programs of one thread"));
    require(mpi_.comm_set_errhandler(mpi_.world, mpi_.errors_return), "MPI_Comm_set_errhandler");
    require(mpi_.comm_rank(mpi_.world, &rank_), "MPI_Comm_rank");
    require(mpi_.comm_size(mpi_.world, &size_), "MPI_Comm_size");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::string description() const override { return version_of(mpi_); }

  void begin(std::span<const Outgoing> sends, std::span<const Incoming> receives) override {
    requests_.clear();
    peers_.clear();
    for (const Incoming& message : receives) {
      require(mpi_.irecv(message.bytes.data(), static_cast<int>(message.bytes.size()), mpi_.byte,
                         message.from, kTag, mpi_.world, &next_request(message.from)),
              "MPI_Irecv");
    }
    for (const Outgoing& message : sends) {
      require(mpi_.isend(message.bytes.data(), static_cast<int>(message.bytes.size()), mpi_.byte, message.to,
                         kTag, mpi_.world, &next_request(message.to)),
              "MPI_Isend");
    }
  }

  bool poll() override {
    int complete = 0;
    require(
        mpi_.testall(static_cast<int>(requests_.size()), requests_.data(), &complete, MPI_STATUSES_IGNORE),
        "MPI_Testall");
    return complete != 0;
  }

  /// MPI has no wait that others could end: one that adds a sixteenth to what has been waited at most.
  void wait(double waited, bool in_haste) override {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::clamp(waited / 16, in_haste ? 20e-6 : 100e-6, 1e-3)));
  }

  std::vector<int> awaited() const override {
    std::vector<int> awaited;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      int complete = 0;
      mpi_.request_get_status(requests_[i], &complete, MPI_STATUS_IGNORE);
      if (complete == 0 && std::ranges::find(awaited, peers_[i]) == awaited.end())
        awaited.push_back(peers_[i]);
    }
    std::ranges::sort(awaited);
    return awaited;
  }

  void close() override { mpi_.finalize(); }

  void abort(int exit_code) override {
    mpi_.abort(mpi_.world, exit_code);
    ::_exit(exit_code);
  }

 private:
  static constexpr int kTag = 1;

  MPI_Request& next_request(int peer) {
    peers_.push_back(peer);
    return requests_.emplace_back();
  }

  void require(int error, const char* function) const {
    if (error == MPI_SUCCESS) return;
    throw CommError(error_message("comm", function, "success", mpi_.describe(error)));
  }

  MpiLibrary mpi_;
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  // of each request
};

}  // namespace

std::unique_ptr<Transport> connect_mpi() {
  return std::make_unique<MpiTransport>();
}

std::string mpi_version() {
  return version_of(MpiLibrary());
}

}  // namespace moh

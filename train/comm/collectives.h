#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "train/comm/communicator.h"
#include "train/comm/peers.h"
#include "train/comm/transport.h"

namespace moh {

/// The collectives of a Communicator, made of messages between two processes. All members are called by one
/// thread, but for those that say otherwise.
///
/// Each collective begins with a header from everybody to everybody: its number, what it does, to how many
/// elements. So a process that is missing is known by name, and one that calls something else is found
/// before any element is overwritten. A sum is made by the process to which a part of the elements belongs,
/// in the order of the ranks, and sent to the others: 2 (N - 1) / N of the bytes for each process, as a ring
/// sends, in two exchanges.
class Collectives {
 public:
  /// Meets the others, within the first deadline.
  explicit Collectives(std::unique_ptr<Transport> transport);

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  const Peers& peers() const { return peers_; }
  std::string description() const { return transport_->description(); }

  // From any thread:
  void set_deadline(double seconds) { deadline_ = seconds; }
  /// While more than 0 threads wait for a result, messages are looked for without a pause.
  void add_waiting(int threads) { waiting_ += threads; }
  /// The next look at messages ends all processes.
  void request_abort(int exit_code) { abort_code_ = exit_code; }

  void all_reduce(const Tensor& values, ReduceOp op, DType wire);
  void reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire);
  void all_gather(const Tensor& part, const Tensor& rows);
  void broadcast(const Tensor& values, int root);
  void barrier();

  /// The last exchange; then the transport is closed.
  void leave();
  /// Gives the others an error in place of the next collective. Returns whether process 0 has got it.
  bool report_failure(int exit_code, std::string_view message);
  void leave_failed();
  /// Ends all processes if that was requested.
  void abort_if_requested();

 private:
  struct Header;

  std::vector<Header> exchange_headers(const Header& own);
  void agree(Header own);
  void exchange(const std::vector<Outgoing>& sends, const std::vector<Incoming>& receives);
  [[noreturn]] void fail_waiting(double waited, const std::vector<int>& ended) const;
  [[noreturn]] void refuse(const Header& own, const Header& other, int rank) const;
  void all_reduce_piece(std::span<std::byte> values, DType dtype, ReduceOp op);
  void gather_slices(std::span<std::byte> values, std::size_t unit);
  std::vector<std::span<std::byte>> slices_of(std::span<std::byte> values, std::size_t unit) const;
  std::span<std::byte> scratch(std::size_t bytes);

  std::unique_ptr<Transport> transport_;
  Peers peers_;
  std::uint64_t number_ = 0;  // of the collective
  std::string doing_;         // what it is, for messages
  Tensor scratch_;
  std::atomic<double> deadline_;
  std::atomic<int> waiting_ = 0;
  std::atomic<int> abort_code_ = -1;
};

}  // namespace moh

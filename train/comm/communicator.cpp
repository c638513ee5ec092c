#include "train/comm/communicator.h"

#include <unistd.h>

#include <algorithm>

#include "core/error.h"

namespace moh {

namespace {

class OneProcess final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int sharing_processors() const override { return 1; }
  std::string description() const override { return "one process"; }
  void set_deadline(double) override {}
  Pending start_all_reduce(const Tensor&, ReduceOp, DType) override { return done(); }
  Pending start_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp) override {
    part.copy_from(rows.reshape(part.shape()));
    return done();
  }
  Pending start_all_gather(const Tensor& part, const Tensor& rows) override {
    rows.reshape(part.shape()).copy_from(part);
    return done();
  }
  Pending start_broadcast(const Tensor&, int) override { return done(); }
  void barrier() override {}
  void finish(Pending& pending) override { pending.get(); }
  void leave() override {}
  bool tell_failure(int, std::string_view) override { return true; }
  void leave_failed(int) override {}
  void abort(int exit_code) override { ::_exit(exit_code); }

 private:
  static Pending done() {
    std::promise<void> promise;
    promise.set_value();
    return promise.get_future();
  }
};

}  // namespace

std::int64_t Communicator::max(std::int64_t number) {
  if (alone()) return number;
  const Tensor value = tensor_of<std::int64_t>({}, {number});
  all_reduce(value, ReduceOp::kMax);
  return *value.data<std::int64_t>();
}

std::string Communicator::text_of_leader(std::string_view text) {
  constexpr std::size_t kMost = 1 << 20;
  if (alone()) return std::string(text);
  const auto size = max(leads() ? static_cast<std::int64_t>(std::min(text.size(), kMost)) : 0);
  const Tensor bytes = zeros({size}, DType::kUInt8);
  if (leads()) std::copy_n(text.begin(), size, bytes.data<std::uint8_t>());
  broadcast(bytes);
  return {bytes.data<std::uint8_t>(), bytes.data<std::uint8_t>() + size};
}

Communicator& one_process() {
  static OneProcess process;
  return process;
}

}  // namespace moh

#include "train/comm/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "core/error.h"
#include "train/comm/device_collectives.h"

namespace moh {

namespace {

class NoDeviceCollectives final : public DeviceCollectives {
 public:
  std::string description() const override { return "a dry run"; }
  bool capturable() const override { return true; }
  void barrier() override {}
  void check() override {}
  void abort() noexcept override {}
  void leave() override {}

 private:
  void do_all_reduce(const Tensor&, ReduceOp, DType) override {}
  void do_reduce_scatter(const Tensor&, const Tensor&, ReduceOp, DType) override {}
  void do_all_gather(const Tensor&, const Tensor&) override {}
  void do_broadcast(const Tensor&, int) override {}
};

/// A process that meets no other. Its collectives do nothing.
class Unconnected : public Communicator {
 public:
  explicit Unconnected(int size) : size_(size) { set_device(&no_collectives_); }

  int rank() const override { return 0; }
  int size() const override { return size_; }
  int local_rank() const override { return 0; }
  int local_size() const override { return size_; }
  int sharing_processors() const override { return 1; }
  std::string description() const override { return size_ == 1 ? "one process" : "a dry run"; }
  void set_listener(std::function<void(const Collective&)>) override {}
  void set_deadline(double) override {}
  Pending start_all_reduce(const Tensor&, ReduceOp, DType) override { return done(); }
  Pending start_reduce_scatter(const Tensor&, const Tensor&, ReduceOp, DType) override { return done(); }
  Pending start_all_gather(const Tensor&, const Tensor&) override { return done(); }
  Pending start_broadcast(const Tensor&, int) override { return done(); }
  void barrier() override {}
  void finish(Pending& pending) override { pending.get(); }
  double waited_seconds() const override { return 0; }
  std::string trouble() const override { return {}; }
  void leave() override {}
  bool report_failure(int, std::string_view) override { return true; }
  void leave_failed(int) override {}
  void abort(int exit_code) override { ::_exit(exit_code); }

 protected:
  static Pending done() {
    std::promise<void> promise;
    promise.set_value();
    return promise.get_future();
  }

 private:
  int size_;
  NoDeviceCollectives no_collectives_;
};

class OneProcess final : public Unconnected {
 public:
  OneProcess() : Unconnected(1) {}

  Pending start_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp, DType) override {
    part.copy_from(rows.reshape(part.shape()));
    return done();
  }
  Pending start_all_gather(const Tensor& part, const Tensor& rows) override {
    rows.reshape(part.shape()).copy_from(part);
    return done();
  }
};

template <class T>
void sum_over(Communicator& processes, std::span<T> numbers) {
  if (processes.alone()) return;
  const Tensor sums = empty({std::ssize(numbers)}, dtype_of<T>());
  std::ranges::copy(numbers, sums.data<T>());
  processes.all_reduce(sums, ReduceOp::kSum);
  std::ranges::copy(sums.span<T>(), numbers.begin());
}

}  // namespace

DeviceCollectives& Communicator::on_device() const {
  MOH_CHECK(device_ != nullptr, "several processes with GPUs open collectives on them first");
  return *device_;
}

void Communicator::sum(std::span<double> numbers) {
  sum_over(*this, numbers);
}

void Communicator::sum(std::span<std::int64_t> numbers) {
  sum_over(*this, numbers);
}

std::int64_t Communicator::max(std::int64_t number) {
  if (alone()) return number;
  const Tensor value = tensor_of<std::int64_t>({}, {number});
  all_reduce(value, ReduceOp::kMax);
  return *value.data<std::int64_t>();
}

std::string Communicator::text_of_rank0(std::string_view text) {
  constexpr std::size_t kMost = 1 << 20;
  if (alone()) return std::string(text);
  const auto size = max(is_rank0() ? static_cast<std::int64_t>(std::min(text.size(), kMost)) : 0);
  const Tensor bytes = zeros({size}, DType::kUInt8);
  if (is_rank0()) std::copy_n(text.begin(), size, bytes.data<std::uint8_t>());
  broadcast(bytes);
  return {bytes.data<std::uint8_t>(), bytes.data<std::uint8_t>() + size};
}

std::vector<std::string> Communicator::texts_of_all(std::string_view text) {
  const Tensor lengths = zeros({size()}, DType::kInt64);
  all_gather(tensor_of<std::int64_t>({1}, {static_cast<std::int64_t>(text.size())}), lengths);
  const std::span<const std::int64_t> each = lengths.span<std::int64_t>();
  const Tensor own = zeros({std::ranges::max(each)}, DType::kUInt8),
               all = zeros({size(), own.numel()}, DType::kUInt8);
  std::ranges::copy(text, own.data<std::uint8_t>());
  all_gather(own, all);
  std::vector<std::string> texts;
  for (int r = 0; r < size(); ++r) {
    const auto* const begin = all.select(r).data<std::uint8_t>();
    texts.emplace_back(begin, begin + each[static_cast<std::size_t>(r)]);
  }
  return texts;
}

Communicator& one_process() {
  static OneProcess process;
  return process;
}

std::unique_ptr<Communicator> dry_processes(int size) {
  return std::make_unique<Unconnected>(size);
}

}  // namespace moh

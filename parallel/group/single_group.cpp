#include "parallel/group/failure.h"
#include "parallel/group/group.h"
#include "parallel/group/peer.h"

namespace sluice::parallel {

namespace {

class SingleGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int channel_count() const override { return kMaxChannels; }
  RequestPtr send(int to, int, std::span<const std::byte>, uint8_t) override { return check_peer("send", 0, 1, to), nullptr; }
  RequestPtr receive(int from, int, std::span<std::byte>, uint8_t) override { return check_peer("receive", 0, 1, from), nullptr; }
  bool wait(const Request& request, double) override { return failure_.check(), request.is_done.load(); }
  void tell(int to, std::string) override { check_peer("tell", 0, 1, to); }
  std::string hear(int from, double) override { return check_peer("hear", 0, 1, from), ""; }
  void abort(const std::string& reason) override { failure_.set(reason, true); }
  std::string failure() const override { return failure_.text(); }
  void on_failure(std::function<void(const std::string&)>) override {}  // there is no other rank
  void set_status(std::function<std::string()>) override {}             // ... that would hear it
  std::vector<std::optional<Heartbeat>> heartbeats() const override { return {std::nullopt}; }
  void set_watchdog(double) override {}
  void close(double) override { failure_.check(); }

 private:
  Failure failure_;
};

}  // namespace

std::unique_ptr<Group> make_single_group() { return std::make_unique<SingleGroup>(); }

}  // namespace sluice::parallel

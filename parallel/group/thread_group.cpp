#include "parallel/group/thread_group.h"

#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/start_thread.h"
#include "parallel/group/peer.h"
#include "parallel/group/thread_job.h"

namespace sluice::parallel {

namespace {

class ThreadGroup : public Group {
 public:
  ThreadGroup(std::shared_ptr<ThreadJob> job, int rank) : job_(std::move(job)), rank_(rank) {}
  ~ThreadGroup() override { job_->leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return job_->size(); }
  int channel_count() const override { return kMaxChannels; }

  RequestPtr send(int to, int channel, std::span<const std::byte> bytes, uint8_t label) override {
    check("send", to, channel);
    return job_->send(rank_, to, channel, bytes, label);
  }
  RequestPtr receive(int from, int channel, std::span<std::byte> room, uint8_t label) override {
    check("receive", from, channel);
    return job_->receive(rank_, from, channel, room, label);
  }
  bool wait(const Request& request, double seconds) override { return job_->wait(rank_, request, seconds); }

  void tell(int to, std::string message) override {
    check("tell", to, 0);
    job_->tell(rank_, to, std::move(message));
  }
  std::string hear(int from, double seconds) override {
    check("hear", from, 0);
    return job_->hear(rank_, from, seconds);
  }

  void abort(const std::string& reason) override { job_->abort(rank_, reason); }
  std::string failure() const override { return job_->failure_of(rank_).text(); }
  void on_failure(std::function<void(const std::string&)> hook) override { job_->failure_of(rank_).set_hook(std::move(hook)); }
  void set_status(std::function<std::string()> status) override { job_->set_status(rank_, std::move(status)); }
  std::vector<std::optional<Heartbeat>> heartbeats() const override {
    std::vector<std::optional<Heartbeat>> all(size());
    for (int other = 0; other < size(); ++other)
      if (other != rank_ && (is_root() || other == 0)) all[other] = Heartbeat{job_->status_of(other), 0};
    return all;
  }
  void set_watchdog(double) override {}
  void close(double seconds) override { job_->close(rank_, seconds); }

 private:
  void check(const char* call, int peer, int channel) const {
    check_peer(call, rank_, size(), peer);
    check_channel(call, channel_count(), channel);
  }

  const std::shared_ptr<ThreadJob> job_;
  const int rank_;
};

std::vector<std::unique_ptr<Group>> groups_of(const std::shared_ptr<ThreadJob>& job) {
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < job->size(); ++rank) groups.push_back(std::make_unique<ThreadGroup>(job, rank));
  return groups;
}

std::string text_of(const std::exception_ptr& error) try { std::rethrow_exception(error); } catch (const std::exception& known) {
  return known.what();
} catch (...) {
  return "an error of unknown kind";
}

}  // namespace

std::vector<std::unique_ptr<Group>> make_thread_groups(int ranks) { return groups_of(std::make_shared<ThreadJob>(ranks)); }

void run_ranks(int ranks, const std::function<void(Group&)>& body) {
  const auto job = std::make_shared<ThreadJob>(ranks);
  const auto groups = groups_of(job);
  std::vector<std::exception_ptr> errors(ranks);
  const auto run = [&](int rank) {
    try {
      body(*groups[rank]);
    } catch (...) {
      errors[rank] = std::current_exception();
      groups[rank]->abort(text_of(errors[rank]));
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (int rank = 0; rank < ranks; ++rank) threads.push_back(start_thread("a rank", [&run, rank] { run(rank); }));
    } catch (const ResourceError& error) {
      groups[0]->abort(error.what());  // those that run already would wait for this one
      throw;
    }
  }
  // The others failed because of this one; but it may have called abort() itself, and thrown nothing.
  if (const int first = job->failed_rank(); first >= 0 && errors[first]) std::rethrow_exception(errors[first]);
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace sluice::parallel

// Every action of every device fails in every way, one at a time: one error that says where, a trainer that is as it was or refuses to go
// on, no byte left behind, and never a hang. Which actions there are is seen in a run, so that new kinds are among them.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "core/file/hash.h"
#include "core/ops/copy.h"
#include "parallel/run/executor.h"
#include "parallel/trainer.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using namespace sluice::testing;

constexpr int kSamples = 5, kMicroBatches = 2;
constexpr double kLongWait = 60;

enum class Fault {
  exception,  ///< one that Sluice does not know
  no_memory,
  full_device,  ///< the device's budget is used up: the next tensor that it makes does not fit
  hang,         ///< until all devices are told to stop
};

/// One pipeline that is made to fail.
struct Victim {
  const char* name;
  const char* model;
  int devices;
  NamedSchedule schedule;
  Remat remat;
  int virtual_stages = 1;
  double moving_average = 0;
};
std::ostream& operator<<(std::ostream& out, const Victim& victim) { return out << victim.name; }

const Victim kVictims[] = {
    {"gpipe", "skips", 3, NamedSchedule::gpipe, Remat::none},
    {"one_forward_one_backward", "tied", 3, NamedSchedule::one_f_one_b, Remat::full, 1, 0.9},
    {"interleaved", "tied", 2, NamedSchedule::interleaved, Remat::none, 2},
    {"zero_bubble_h1", "statistics", 2, NamedSchedule::zb_h1, Remat::none, 1, 0.9},
    {"zero_bubble_v", "skips", 2, NamedSchedule::zb_v, Remat::full},
    {"statistics", "statistics", 3, NamedSchedule::one_f_one_b, Remat::full},
};

layers::Graph graph_of(const Victim& victim) {
  const std::string_view model = victim.model;
  return model == "tied" ? models::transformer_lm(tiny_transformer_options()) : model == "statistics" ? image_graph() : skip_graph();
}

Batch batch_of(const Victim& victim, uint64_t seed) {
  const std::string_view model = victim.model;
  return model == "tied"         ? token_batch(tiny_transformer_options(), kSamples, seed)
         : model == "statistics" ? image_batch(kSamples, seed)
                                 : skip_batch(kSamples, seed);
}

struct Site {
  int device;
  size_t index;  ///< in the device's list
};

/// Sees the actions of a run, and strikes at one of them.
class Saboteur {
 public:
  explicit Saboteur(std::vector<DevicePtr> devices) : devices_(std::move(devices)), seen_(devices_.size()) {}
  void plant(Site site, Fault fault) { site_ = site, fault_ = fault; }

  void before(int device, const Action& action, const std::stop_token& failed) {
    auto& seen = seen_[static_cast<size_t>(device)];
    seen.push_back(action);
    if (site_ && site_->device == device && site_->index + 1 == seen.size()) strike(*devices_[static_cast<size_t>(device)], failed);
  }

  /// By device, in their order. Read when no run is under way.
  const std::vector<std::vector<Action>>& seen() const { return seen_; }

 private:
  void strike(Device& device, const std::stop_token& failed) {
    std::unique_lock lock(mutex_);
    switch (fault_) {
      case Fault::exception:
        throw std::runtime_error("sabotage");
      case Fault::no_memory:
        throw OutOfMemory("sabotage");
      case Fault::full_device:
        return device.set_budget_bytes(std::max<int64_t>(1, device.live_bytes()));
      case Fault::hang:
        changed_.wait(lock, failed, [] { return false; });
    }
  }

  std::vector<DevicePtr> devices_;
  std::vector<std::vector<Action>> seen_;
  std::optional<Site> site_;
  Fault fault_ = Fault::exception;
  std::mutex mutex_;
  std::condition_variable_any changed_;
};

/// What a step or an evaluation makes.
struct Answer {
  double loss = 0, gradient_norm = 0;
  std::string state;
  bool operator==(const Answer&) const = default;
};

/// A trainer after its first step, which can be put back there.
class Patient {
 public:
  Patient(const Victim& victim, bool training)
      : training_(training), graph_(graph_of(victim)), batch_(batch_of(victim, 2)), optimizer_(AdamW({.lr = 1e-2})) {
    optimizer_.ema = victim.moving_average;
    std::string names = "cpu:0";
    for (int i = 1; i < victim.devices; ++i) names += ",cpu:" + std::to_string(i);
    trainer_ = std::make_unique<Trainer>(graph_,
                                         plan(graph_, sluice::devices(names),
                                              {.batch = kSamples,
                                               .micro_batches = kMicroBatches,
                                               .schedule = {victim.schedule, victim.virtual_stages},
                                               .partition = PartitionRule::uniform,
                                               .remat = victim.remat}),
                                         optimizer_, TrainerOptions{.seed = 3, .clip = 1, .timeout_seconds = kLongWait});
    trainer_->step(batch_of(victim, 1));
    for (const Tensor& tensor : tensors()) saved_.push_back(tensor.clone());
  }

  Trainer& trainer() { return *trainer_; }
  const std::vector<DevicePtr>& devices() const { return trainer_->plan().devices; }

  Answer act() {
    if (!training_) return {trainer_->evaluate(batch_).loss_sum, 0, state()};
    const StepResult result = trainer_->step(batch_);
    return {result.loss, result.gradient_norm, state()};
  }
  /// Of all that a checkpoint keeps.
  std::string state() const {
    Hash hash;
    for (const Tensor& tensor : tensors()) hash.add(tensor.data(), static_cast<size_t>(tensor.bytes()));
    return hash.text();
  }
  void put_back() {
    const auto now = tensors();
    for (size_t i = 0; i < now.size(); ++i) copy(saved_[i], now[i]);
    trainer_->set_steps_done(1);
    trainer_->publish_parameters();
  }
  std::vector<int64_t> live_bytes() const {
    std::vector<int64_t> bytes;
    for (const auto& device : devices()) bytes.push_back(device->live_bytes());
    return bytes;
  }

 private:
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all;
    for (const auto& parameter : trainer_->parameters())
      all.insert(all.end(), parameter.optimizer_states.begin(), parameter.optimizer_states.end());
    for (const auto& tensors : {trainer_->model(), trainer_->averages()})
      for (const auto& [name, tensor] : tensors) all.push_back(tensor);
    return all;
  }

  bool training_;
  layers::Graph graph_;
  Batch batch_;
  AdamW optimizer_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<Tensor> saved_;
};

class EveryFailure : public ::testing::TestWithParam<Victim> {
 protected:
  void fail_everywhere(bool training);

 private:
  void strike(Patient& patient, Site site, Fault fault);
  std::string error_of(Patient& patient, Site site, Fault fault);
  void expect_whole_or_refusing(Patient& patient, Site site, Fault fault, bool failed);
  /// The position of the first action of a device that is so, or behind its list.
  template <class IsSo>
  size_t first(int device, const IsSo& is_so) const {
    const auto& actions = actions_[static_cast<size_t>(device)];
    return static_cast<size_t>(std::ranges::find_if(actions, is_so) - actions.begin());
  }

  std::vector<std::vector<Action>> actions_;  // by device
  Topology topology_;
  Answer answer_;
  std::string state_;
  std::vector<int64_t> live_bytes_;
  int errors_ = 0, refusals_ = 0;
};

/// The message of the one error, empty for none. What waits for a hang to be noticed waits longer when the machine is so busy that others
/// were late first.
std::string EveryFailure::error_of(Patient& patient, Site site, Fault fault) {
  Executor& executor = patient.trainer().executor();
  const auto saboteur = std::make_shared<Saboteur>(patient.devices());
  saboteur->plant(site, fault);
  executor.set_before_action(
      [saboteur](int device, const Action& action, const std::stop_token& failed) { saboteur->before(device, action, failed); });
  std::string message;
  try {
    patient.act();
  } catch (const HangError& error) {
    ADD_FAILURE() << "nothing hangs for ever: " << error.what();
  } catch (const CommError& error) {
    EXPECT_EQ(fault, Fault::hang) << error.what();
    message = error.what();
  } catch (const OutOfMemory& error) {
    EXPECT_TRUE(fault == Fault::no_memory || fault == Fault::full_device) << error.what();
    message = error.what();
  } catch (const Error& error) {
    EXPECT_EQ(fault, Fault::exception) << error.what();
    EXPECT_NE(dynamic_cast<const std::nested_exception*>(&error), nullptr) << error.what();
    message = error.what();
  }
  executor.set_before_action({});
  for (const auto& device : patient.devices()) device->set_budget_bytes(kUnlimited);
  return message;
}

void EveryFailure::expect_whole_or_refusing(Patient& patient, Site site, Fault fault, bool failed) {
  const bool strikes_here = fault != Fault::full_device;
  const bool changed = strikes_here && site.index >= first(site.device, changes_weights);
  const bool before_norm =
      strikes_here && site.index <= first(site.device, [](const Action& action) { return action.kind == ActionKind::gradient_norm; });
  if (!failed) return;
  try {
    patient.trainer().require_whole();
    EXPECT_FALSE(changed) << "a device had begun to change its weights";
    EXPECT_EQ(patient.state(), state_);
    EXPECT_EQ(patient.act(), answer_);
  } catch (const Error& refusal) {
    ++refusals_;
    EXPECT_FALSE(before_norm) << refusal.what();
    EXPECT_THROW(patient.act(), Error);
    EXPECT_THROW(patient.trainer().evaluate(skip_batch(kSamples, 1)), Error);
  }
}

void EveryFailure::strike(Patient& patient, Site site, Fault fault) {
  const Action& action = actions_[static_cast<size_t>(site.device)][site.index];
  const std::string place = describe(action, topology_), device = patient.devices()[static_cast<size_t>(site.device)]->name();
  SCOPED_TRACE(join("fault ", static_cast<int>(fault), " at ", place, " on ", device));
  std::string message;
  const int attempts = fault == Fault::hang ? 4 : 1;
  for (int attempt = 0; attempt < attempts && message.find(place) == std::string::npos; ++attempt) {
    if (attempt > 0) patient.put_back();
    patient.trainer().executor().set_timeout_seconds(fault == Fault::hang ? 0.02 * std::pow(8, attempt) : kLongWait);
    message = error_of(patient, site, fault);
    EXPECT_EQ(patient.live_bytes(), live_bytes_);
  }
  patient.trainer().executor().set_timeout_seconds(kLongWait);
  if (fault == Fault::full_device && message.empty()) return;  // nothing more was made there
  ++errors_;
  EXPECT_NE(message.find(device), std::string::npos) << message;
  if (fault == Fault::full_device)
    EXPECT_TRUE(message.find("micro-batch") != std::string::npos || message.find(" on ") != std::string::npos) << message;
  else
    EXPECT_NE(message.find(place), std::string::npos) << message;
}

void EveryFailure::fail_everywhere(bool training) {
  Patient patient(GetParam(), training);
  topology_ = topology_of(patient.trainer().graph());
  const auto observer = std::make_shared<Saboteur>(patient.devices());
  patient.trainer().executor().set_before_action(
      [observer](int device, const Action& action, const std::stop_token& failed) { observer->before(device, action, failed); });
  answer_ = patient.act();
  actions_ = observer->seen();
  patient.put_back();
  state_ = patient.state();
  live_bytes_ = patient.live_bytes();
  int runs = 0;
  for (int device = 0; device < GetParam().devices; ++device)
    for (size_t index = 0; index < actions_[static_cast<size_t>(device)].size(); ++index)
      for (const Fault fault : {Fault::exception, Fault::no_memory, Fault::full_device, Fault::hang}) {
        const int before = errors_;
        strike(patient, {device, index}, fault);
        expect_whole_or_refusing(patient, {device, index}, fault, errors_ > before);
        patient.put_back();
        ++runs;
      }
  fmt::print("{} of {}: {} failures injected, {} errors, {} trainers that refuse to go on\n", training ? "training" : "evaluation",
             GetParam().name, runs, errors_, refusals_);
  RecordProperty("failures", runs);
  EXPECT_EQ(refusals_ > 0, training);
}

TEST_P(EveryFailure, OfAStepIsOneErrorAndLeavesATrainerThatIsAsItWasOrRefuses) { fail_everywhere(true); }
TEST_P(EveryFailure, OfAnEvaluationIsOneErrorAndChangesNothing) { fail_everywhere(false); }

INSTANTIATE_TEST_SUITE_P(Victims, EveryFailure, ::testing::ValuesIn(kVictims),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sluice::parallel

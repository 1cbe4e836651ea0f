#include "core/cuda/choices.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/cuda/cuda.h"
#include "core/error.h"
#include "core/file/cache_folder.h"
#include "core/file/file.h"

namespace sluice {

namespace {

constexpr int kFormat = 1;

std::filesystem::path file_of_user() {
  const auto folder = user_cache_folder();
  return folder.empty() ? folder : folder / "gpu-algorithms.json";
}

using Clock = std::chrono::steady_clock;

}  // namespace

Choices::Choices(std::filesystem::path file) : path_(std::move(file)), file_(read(path_)) {}

Choices& Choices::of_process() {
  static Choices all(file_of_user());
  return all;
}

/// All that can be understood.
Choices::File Choices::read(const std::filesystem::path& file) try {
  File found;
  if (file.empty()) return found;
  const auto json = nlohmann::json::parse(read_file(file), nullptr, false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat) return found;
  const auto entries = json.value("algorithms", nlohmann::json());
  if (!entries.is_object()) return found;
  for (const auto& [key, entry] : entries.items()) {
    if (!entry.is_object()) continue;
    const auto candidates = entry.find("candidates"), choice = entry.find("choice");
    if (candidates == entry.end() || !candidates->is_number_integer() || choice == entry.end() || !choice->is_string()) continue;
    found[key] = {candidates->get<int>(), choice->get<std::string>()};
  }
  return found;
} catch (const DataError&) {
  return {};
}

void Choices::write(const std::filesystem::path& file, const File& found) {
  auto entries = nlohmann::json::object();
  for (const auto& [key, entry] : found) entries[key] = {{"candidates", entry.candidates}, {"choice", entry.choice}};
  const nlohmann::json json = {{"format", kFormat}, {"algorithms", entries}};
  try {
    write_atomically(file, json.dump(2) + "\n");
  } catch (const ResourceError&) {  // the choice serves this process all the same
  }
}

void Choices::keep(const std::string& key, const Found& found) {
  file_[key] = found;
  if (path_.empty()) return;
  File all = read(path_);  // another process may have added to it
  all[key] = found;
  write(path_, all);
}

std::string Choices::choose(const CallKind& kind) {
  const std::lock_guard lock(mutex_);
  if (const auto choice = known(kind)) return *choice;
  if (scopes_ > 0 && kind.may_be_tried)
    if (const auto choice = fastest(kind)) return *choice;
  const std::string untried = kind.untried();
  if (!untried.empty()) (is_adopted_ ? settled_ : provisional_)[kind.key] = untried;
  return untried;
}

std::optional<std::string> Choices::known(const CallKind& kind) {
  for (const GpuChoices* choices : {&settled_, &provisional_})
    if (const auto found = choices->find(kind.key); found != choices->end() && kind.can_run(found->second)) return found->second;
  if (is_adopted_ && scopes_ == 0) return std::nullopt;
  const auto found = file_.find(kind.key);
  const bool serves = found != file_.end() && (scopes_ == 0 || found->second.candidates >= limits_.candidates);
  if (!serves || !kind.can_run(found->second.choice)) return std::nullopt;
  return settled_[kind.key] = found->second.choice;
}

/// While it lives, seconds are spent: once, where the trials of one kind make those of another.
class Choices::Spending {
 public:
  explicit Spending(Choices& choices) : choices_(choices) {
    const std::chrono::duration<double> left(choices.limits_.seconds);
    if (choices.spendings_++ == 0) choices.end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
  }
  ~Spending() {
    if (--choices_.spendings_ == 0) choices_.limits_.seconds = std::chrono::duration<double>(choices_.end_ - Clock::now()).count();
  }
  Spending(const Spending&) = delete;
  Spending& operator=(const Spending&) = delete;
  bool is_over() const { return Clock::now() >= choices_.end_; }

 private:
  Choices& choices_;
};

std::optional<std::string> Choices::fastest(const CallKind& kind) {
  const Spending spending(*this);
  if (spending.is_over()) return std::nullopt;
  std::multimap<double, const Candidate*> timed;  // the first of equals first
  bool is_cut_short = false;
  const auto candidates = kind.candidates(limits_.candidates);
  for (const Candidate& candidate : candidates) {
    if (static_cast<int>(timed.size()) == limits_.candidates) break;
    if ((is_cut_short = spending.is_over())) break;
    if (const double seconds = candidate.seconds(); std::isfinite(seconds)) timed.emplace(seconds, &candidate);
  }
  const auto best = std::find_if(timed.begin(), timed.end(), [](const auto& entry) { return entry.second->is_right(); });
  if (best == timed.end()) return std::nullopt;
  const std::string& choice = best->second->choice;
  if (kind.is_kept && !is_cut_short) keep(kind.key, {limits_.candidates, choice});
  return settled_[kind.key] = choice;
}

void Choices::begin_trials(const TuningLimits& limits) {
  const std::lock_guard lock(mutex_);
  if (++scopes_ > 1) {
    limits_ = {std::max(limits_.seconds, limits.seconds), std::max(limits_.candidates, limits.candidates)};
    return;
  }
  limits_ = limits;
  provisional_.clear();
  ++version_;
}

void Choices::end_trials() {
  const std::lock_guard lock(mutex_);
  --scopes_;
}

GpuChoices Choices::all() const {
  const std::lock_guard lock(mutex_);
  GpuChoices choices = settled_;
  choices.insert(provisional_.begin(), provisional_.end());
  return choices;
}

void Choices::adopt(const GpuChoices& choices) {
  const std::lock_guard lock(mutex_);
  settled_.merge(provisional_);
  provisional_.clear();
  is_adopted_ = true;
  for (const auto& [key, choice] : choices) {
    std::string& settled = settled_[key];
    if (settled == choice) continue;
    settled = choice;
    ++version_;
  }
}

bool Choices::has_any(std::string_view prefix) const {
  const std::lock_guard lock(mutex_);
  const auto found = settled_.lower_bound(std::string(prefix));
  return found != settled_.end() && found->first.starts_with(prefix);
}

void Choices::forget() {
  const std::lock_guard lock(mutex_);
  file_ = read(path_);
  settled_.clear();
  provisional_.clear();
  is_adopted_ = false;
  ++version_;
}

std::string gpu_prefix(const GpuDescription& gpu) { return join(gpu.name, ", driver ", gpu.driver_version, ", "); }

}  // namespace sluice

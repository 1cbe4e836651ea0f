// A rank of failures_test.py: goes on from the newest checkpoint for one step and saves, in the ways of `sluice train`; one rank fails on
// the way. Saves are made to fail from outside (file_faults.cpp).
// usage: failing_rank start|forward|backward|step|none RANK kill|exit|throw|stop MARK TABLE.KEY=VALUE...
// MARK is a file that is made when the rank fails.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cli/build.h"
#include "cli/corpus.h"
#include "cli/exit_codes.h"
#include "cli/job.h"
#include "cli/messages.h"
#include "cli/signals.h"
#include "data/loader.h"
#include "parallel/checkpoint.h"
#include "parallel/run/executor.h"

namespace sluice::cli {

namespace {

const std::map<std::string, parallel::ActionKind> kActions = {
    {"forward", parallel::ActionKind::forward}, {"backward", parallel::ActionKind::backward}, {"step", parallel::ActionKind::step}};

/// Which rank fails where, and how.
struct Failure {
  std::string phase;
  int rank;
  std::string way;
  std::string mark;

  void strike() const {
    std::ofstream(mark).flush();
    if (way == "kill") kill(getpid(), SIGKILL);
    if (way == "exit") std::exit(7);
    if (way == "stop") kill(getpid(), SIGSTOP);
    if (way == "throw") throw std::runtime_error("made to fail");
  }
  /// On the way through a step: before this action of the second micro-batch.
  void plant(parallel::Executor& executor) const {
    const auto kind = kActions.find(phase);
    if (kind == kActions.end()) return;
    executor.set_before_action([*this, kind = kind->second](int, const parallel::Action& action, const std::stop_token&) {
      if (action.kind == kind && (action.micro_batch == 1 || action.micro_batch == -1)) strike();
    });
  }
};

int go_on(const Settings& settings, const Job& job, const Failure& failure) {
  ignore_output_signals();
  parallel::Group* const ranks = job.ranks().get();
  const layers::Graph graph = build_graph(settings);
  const auto optimizer = build_optimizer(settings);
  const auto plan = build_plan(graph, settings, *optimizer, ranks);
  job.set_watchdog(settings.number("pipeline.timeout"));
  const bool is_victim = job.ranks()->rank() == failure.rank;
  if (is_victim && failure.phase == "start") failure.strike();
  parallel::OutputFolder output(settings.text("output.dir"), ranks);
  auto options = build_trainer_options(settings);
  options.group = job.ranks();
  parallel::Trainer trainer(graph, plan, *optimizer, options);
  if (const auto checkpoint = parallel::find_latest(output.path(), warn)) parallel::restore(*checkpoint, trainer);
  if (is_victim) failure.plant(trainer.executor());
  data::LoaderOptions loading;
  loading.batch = settings.integer("train.batch");
  loading.threads = 0;
  data::Loader loader(load_corpus(settings).dataset, loading);
  trainer.step(loader.at(trainer.steps_done()));
  output.save(trainer, settings.toml(), {}, 1);
  return 0;
}

int run(const std::vector<std::string>& words) {
  const Failure failure{words.at(0), std::stoi(words.at(1)), words.at(2), words.at(3)};
  const Settings settings = read_settings("tiny", {words.begin() + 4, words.end()});
  Job job;
  return job.run([&] { return go_on(settings, job, failure); });
}

}  // namespace

}  // namespace sluice::cli

int main(int count, char** words) {
  try {
    return sluice::cli::run({words + 1, words + count});
  } catch (const std::exception& error) {
    sluice::cli::tell_error(error.what());
    return sluice::cli::exit_code_of(error);
  }
}

#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/program/program.h"
#include "tests/schedule/pick.h"

/// Ways to damage a right program so that it is wrong at every place to which they apply.
namespace sluice::parallel {

struct Place {
  int device;
  int index;
};

struct Mutation {
  std::string name;
  std::function<bool(const Program&, Place)> applies;
  std::function<void(Program&, Place)> damage;
};

inline const Action& at(const Program& program, Place place) { return program.devices[place.device][place.index]; }
inline Action& at(Program& program, Place place) { return program.devices[place.device][place.index]; }

inline std::vector<Place> places(const Mutation& mutation, const Program& program) {
  std::vector<Place> found;
  for (int device = 0; device < program.device_count(); ++device)
    for (int index = 0; index < static_cast<int>(program.devices[device].size()); ++index)
      if (mutation.applies(program, {device, index})) found.push_back({device, index});
  return found;
}

inline bool anywhere(const Program&, Place) { return true; }

inline bool is_compute(const Action& a) { return a.micro_batch >= 0 && a.transfer.payload == Payload::none; }
inline bool accumulates(const Action& a) { return a.kind == ActionKind::backward || a.kind == ActionKind::weight_gradient; }

inline auto is_kind(ActionKind kind) {
  return [=](const Program& program, Place place) { return at(program, place).kind == kind; };
}

inline auto is_transfer(ActionKind kind, Payload payload) {
  return [=](const Program& program, Place place) {
    return at(program, place).kind == kind && at(program, place).transfer.payload == payload;
  };
}

/// The index of the next action behind `place` that `wanted` takes, or -1.
template <class Wanted>
int next(const Program& program, Place place, Wanted wanted) {
  const auto& actions = program.devices[place.device];
  for (int i = place.index + 1; i < static_cast<int>(actions.size()); ++i)
    if (wanted(actions[i])) return i;
  return -1;
}

inline int next_compute(const Program& program, Place place) {
  const Action& here = at(program, place);
  return next(program, place, [&](const Action& a) { return is_compute(a) && a.stage == here.stage && a.micro_batch == here.micro_batch; });
}

inline int next_accumulation(const Program& program, Place place) {
  const Action& here = at(program, place);
  return next(program, place, [&](const Action& a) { return accumulates(a) && a.stage == here.stage; });
}

inline void swap_with(Program& program, Place place, int other) { std::swap(at(program, place), program.devices[place.device][other]); }

inline void move_to_front(Program& program, Place place) {
  auto& actions = program.devices[place.device];
  std::rotate(actions.begin(), actions.begin() + place.index, actions.begin() + place.index + 1);
}

inline void move_behind(Program& program, Place place, int target) {
  auto& actions = program.devices[place.device];
  std::rotate(actions.begin() + place.index, actions.begin() + place.index + 1, actions.begin() + target + 1);
}

inline void move_to_end(Program& program, Place place) {
  move_behind(program, place, static_cast<int>(program.devices[place.device].size()) - 1);
}

/// Actions that are missing, twice, elsewhere or others than they should be.
inline std::vector<Mutation> mutations_of_actions() {
  const auto of_micro_batch = [](const Program& program, Place place) { return at(program, place).micro_batch >= 0; };
  const auto computes = [](const Program& program, Place place) { return is_compute(at(program, place)); };
  const auto transfers = [](const Program& program, Place place) { return at(program, place).transfer.payload != Payload::none; };
  const auto has_another_device = [](const Program& program, Place) { return program.device_count() > 1; };
  const auto is_end_of_micro_batch = [](const Program& program, Place place) {
    const Action& action = at(program, place);
    return action.transfer.of_micro_batch() && (action.kind == ActionKind::send || action.kind == ActionKind::recv);
  };
  return {
      {"DropsAnAction", anywhere,
       [](Program& p, Place at) {
         auto& list = p.devices[at.device];
         list.erase(list.begin() + at.index);
       }},
      {"RunsAnActionTwice", anywhere,
       [](Program& p, Place place) {
         const Action copy = at(p, place);
         p.devices[place.device].insert(p.devices[place.device].begin() + place.index, copy);
       }},
      {"RunsAnotherMicroBatch", of_micro_batch, [](Program& p, Place place) { ++at(p, place).micro_batch; }},
      {"ComputesAnotherStage", computes, [](Program& p, Place place) { ++at(p, place).stage; }},
      {"TransfersToAnotherEnd", transfers, [](Program& p, Place place) { ++at(p, place).transfer.to; }},
      {"TransfersFromAnotherEnd", transfers, [](Program& p, Place place) { --at(p, place).transfer.from; }},
      {"TransfersAnotherValue", transfers, [](Program& p, Place place) { ++at(p, place).transfer.value; }},
      {"CreditsAnotherConsumer", is_transfer(ActionKind::send, Payload::gradient),
       [](Program& p, Place place) { ++at(p, place).transfer.consumer; }},
      {"ChangesTheBytesOfOneEnd", is_end_of_micro_batch, [](Program& p, Place place) { ++at(p, place).bytes; }},
      {"TurnsASendIntoARecv", is_kind(ActionKind::send), [](Program& p, Place place) { at(p, place).kind = ActionKind::recv; }},
      {"RunsOnAnotherDevice", has_another_device,
       [](Program& p, Place place) {
         auto& to = p.devices[(place.device + 1) % p.device_count()];
         to.insert(to.begin(), at(p, place));
         p.devices[place.device].erase(p.devices[place.device].begin() + place.index);
       }},
      {"GoesBackwardInsteadOfForward", is_kind(ActionKind::forward),
       [](Program& p, Place place) { at(p, place).kind = ActionKind::backward; }},
      {"ComputesOnlyInputGradients", is_kind(ActionKind::backward),
       [](Program& p, Place place) { at(p, place).kind = ActionKind::input_gradient; }},
      {"CommitsStatisticsThatNoStageHas", is_kind(ActionKind::step),
       [](Program& p, Place place) { at(p, place).kind = ActionKind::commit_statistics; }},
      {"PromisesMoreMicroBatches", anywhere, [](Program& p, Place) { ++p.micro_batches; }},
      {"MistakesTrainingForEvaluation", anywhere, [](Program& p, Place) { p.training = !p.training; }},
      {"PlacesAStageOnNoDevice", anywhere, [](Program& p, Place) { p.device_of_stage.back() = p.device_count(); }},
  };
}

/// Actions in an order that breaks a dependency, a sum or the end of the step.
inline std::vector<Mutation> mutations_of_order() {
  const auto sends_directly = [](const Program& p, Place place) {
    return at(p, place).kind == ActionKind::forward &&
           next(p, place, [](const Action& a) { return a.kind == ActionKind::send; }) == place.index + 1;
  };
  const auto receives_for_compute = [](const Program& p, Place place) {
    return at(p, place).kind == ActionKind::recv && at(p, place).transfer.of_micro_batch();
  };
  const auto has_later_compute = [](const Program& p, Place place) { return is_compute(at(p, place)) && next_compute(p, place) >= 0; };
  const auto has_later_accumulation = [](const Program& p, Place place) {
    return accumulates(at(p, place)) && next_accumulation(p, place) >= 0;
  };
  const auto not_alone = [](ActionKind kind) {
    return [=](const Program& p, Place place) { return at(p, place).kind == kind && place.index > 0; };
  };
  return {
      {"SendsBeforeItComputes", sends_directly, [](Program& p, Place place) { swap_with(p, place, place.index + 1); }},
      {"ComputesBeforeItReceives", receives_for_compute,
       [](Program& p, Place place) {
         const int user =
             at(p, place).transfer.payload == Payload::activation ? next_compute(p, place) : next(p, place, [&](const Action& a) {
               return (a.kind == ActionKind::backward || a.kind == ActionKind::input_gradient) && a.stage == at(p, place).stage &&
                      a.micro_batch == at(p, place).micro_batch;
             });
         move_behind(p, place, user);
       }},
      {"SwapsTwoComputesOfAMicroBatch", has_later_compute, [](Program& p, Place place) { swap_with(p, place, next_compute(p, place)); }},
      {"AccumulatesInAnotherOrder", has_later_accumulation,
       [](Program& p, Place place) { swap_with(p, place, next_accumulation(p, place)); }},
      {"WaitsInACircle", is_transfer(ActionKind::recv, Payload::gradient), [](Program& p, Place place) { move_to_front(p, place); }},
      {"StepsBeforeTheGradients", not_alone(ActionKind::step), move_to_front},
      {"TakesTheNormBeforeTheGradients", not_alone(ActionKind::gradient_norm), move_to_front},
      {"StepsBeforeItKnowsTheNorm", is_transfer(ActionKind::recv, Payload::norm), move_to_end},
      {"ReducesTheNormBeforeItsParts", is_transfer(ActionKind::recv, Payload::norm_part), move_to_end},
      {"CommitsStatisticsBeforeTheForwards", not_alone(ActionKind::commit_statistics), move_to_front},
      {"CommitsStatisticsAfterTheStep", is_kind(ActionKind::commit_statistics), move_to_end},
      {"ReducesTiedAfterTheStep", is_kind(ActionKind::reduce_tied), move_to_end},
      {"ReducesTiedBeforeItReceives", is_transfer(ActionKind::recv, Payload::tied_gradient), move_to_end},
      {"SharesBeforeTheGradientsAreWhole", not_alone(ActionKind::shard_gradients), move_to_front},
      {"FoldsBeforeTheShardsCome", is_transfer(ActionKind::recv, Payload::gradient_shard), move_to_end},
      {"FoldsAfterTheStep", is_kind(ActionKind::fold_shards), move_to_end},
      {"SendsWeightsToReplicasBeforeTheStep", is_transfer(ActionKind::send, Payload::weight_shard), move_to_front},
      {"SendsStatisticsBeforeTheForwards", is_transfer(ActionKind::send, Payload::statistics), move_to_front},
      {"CommitsStatisticsBeforeThoseOfReplicasCome", is_transfer(ActionKind::recv, Payload::statistics), move_to_end},
      {"StepsBeforeTheSumsOfReplicasCome", is_transfer(ActionKind::recv, Payload::gradient_sum), move_to_end},
      {"SendsTiedWeightsBeforeTheStep", is_transfer(ActionKind::send, Payload::tied_weight), move_to_front},
  };
}

/// The next action of the list that is of this kind and of the channel of the one at `place`; -1 when there is none.
inline int next_of_channel(const Program& program, Place place, ActionKind kind) {
  const Transfer& here = at(program, place).transfer;
  return next(program, place, [&](const Action& a) {
    return a.kind == kind && program.sender(a.transfer) == program.sender(here) && program.receiver(a.transfer) == program.receiver(here);
  });
}

/// The next action of the list that is of this kind and of the transfer at `place`; -1 when there is none.
inline int next_of_transfer(const Program& program, Place place, ActionKind kind) {
  const Action& here = at(program, place);
  return next(program, place,
              [&](const Action& a) { return a.kind == kind && a.transfer == here.transfer && a.micro_batch == here.micro_batch; });
}

/// Channels whose ends differ, and waits that stand where they wait for ever.
inline std::vector<Mutation> mutations_of_channels() {
  const auto posts_more = [](const Program& p, Place place) {
    return at(p, place).kind == ActionKind::recv_post && next_of_channel(p, place, ActionKind::recv_post) >= 0;
  };
  // Only when one transfer of a channel runs at a time: what is received first was sent second, and is posted before.
  const auto receives_before_the_next_post = [](const Program& p, Place place) {
    if (at(p, place).kind != ActionKind::recv_post) return false;
    const int later = next_of_channel(p, place, ActionKind::recv_post), recv = next_of_transfer(p, place, ActionKind::recv);
    return later >= 0 && recv < later;
  };
  const auto ends_a_send = is_kind(ActionKind::send_wait);
  return {
      {"PostsTwoReceivesOfAChannelInTheOtherOrder", posts_more,
       [](Program& p, Place place) { swap_with(p, place, next_of_channel(p, place, ActionKind::recv_post)); }},
      {"CrossesAChannelSoThatItHangs", receives_before_the_next_post,
       [](Program& p, Place place) { swap_with(p, place, next_of_channel(p, place, ActionKind::recv_post)); }},
      {"DropsTheEndOfASend", ends_a_send,
       [](Program& p, Place place) { p.devices[place.device].erase(p.devices[place.device].begin() + place.index); }},
      {"EndsASendBeforeItBegins", ends_a_send, move_to_front},
      {"PostsAfterItReceives", is_kind(ActionKind::recv_post),
       [](Program& p, Place place) { move_behind(p, place, next_of_transfer(p, place, ActionKind::recv)); }},
      {"FreesWhatIsStillBeingSent",
       [](const Program& p, Place place) { return at(p, place).kind == ActionKind::send_wait && !at(p, place).frees.empty(); },
       [](Program& p, Place place) {
         auto& actions = p.devices[place.device];
         const Action wait = at(p, place);
         const auto send = std::find_if(actions.begin(), actions.end(), [&](const Action& a) {
           return a.kind == ActionKind::send && a.transfer == wait.transfer && a.micro_batch == wait.micro_batch;
         });
         send->frees.swap(at(p, place).frees);
       }},
  };
}

/// Buffers that are freed early, twice, never, or that nobody has.
inline std::vector<Mutation> mutations_of_buffers() {
  const auto frees = [](const Program& p, Place place) { return !at(p, place).frees.empty(); };
  const auto receives = [](const Program& p, Place place) {
    return at(p, place).kind == ActionKind::recv && at(p, place).transfer.of_micro_batch();
  };
  const auto sends_once_more = [](const Program& p, Place place) {
    return at(p, place).kind == ActionKind::send_wait && at(p, place).frees.empty() && at(p, place).transfer.payload == Payload::activation;
  };
  const auto has_tape = [](const Program& p, Place place) { return p.training && at(p, place).kind == ActionKind::forward; };
  return {
      {"FreesTwice", frees, [](Program& p, Place place) { at(p, place).frees.push_back(at(p, place).frees.front()); }},
      {"NeverFrees", frees, [](Program& p, Place place) { at(p, place).frees.pop_back(); }},
      {"FreesBeforeTheUse", receives,
       [](Program& p, Place place) {
         const Action& a = at(p, place);
         const auto kind = a.transfer.payload == Payload::activation ? Buffer::Kind::value : Buffer::Kind::gradient;
         at(p, place).frees.push_back({kind, a.stage, a.micro_batch, a.transfer.value, a.transfer.consumer});
       }},
      {"FreesBeforeTheLastSend", sends_once_more,
       [](Program& p, Place place) {
         const Action& a = at(p, place);
         at(p, place).frees.push_back({Buffer::Kind::value, a.stage, a.micro_batch, a.transfer.value});
       }},
      {"FreesTheTapeAfterForward", has_tape,
       [](Program& p, Place place) {
         at(p, place).frees.push_back({Buffer::Kind::tape, at(p, place).stage, at(p, place).micro_batch});
       }},
      {"FreesWhatNobodyMade", anywhere,
       [](Program& p, Place place) {
         at(p, place).frees.push_back({Buffer::Kind::tape, 99, 0});
       }},
  };
}

inline std::vector<Mutation> all_mutations() {
  std::vector<Mutation> all = mutations_of_actions();
  for (const auto& more : {mutations_of_order(), mutations_of_channels(), mutations_of_buffers()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Damage of any kind at any place, also such that leaves the program right.
inline std::vector<std::pair<std::string, std::function<void(Program&)>>> random_mutations() {
  const auto device = [](const Program& p) {
    int device = pick(0, p.device_count());
    while (p.devices[device].empty()) device = (device + 1) % p.device_count();
    return device;
  };
  const auto any = [=](Program& p) -> Action& {
    auto& list = p.devices[device(p)];
    return list[pick(0, static_cast<int>(list.size()))];
  };
  const auto insert = [](std::vector<Action>& list, const Action& action) {
    list.insert(list.begin() + pick(0, static_cast<int>(list.size()) + 1), action);
  };
  const auto take = [](std::vector<Action>& list) {
    const int index = pick(0, static_cast<int>(list.size()));
    const Action action = list[index];
    list.erase(list.begin() + index);
    return action;
  };
  const auto off = [](int& number) { number += pick(0, 2) == 0 ? 1 : -1; };
  return {
      {"swap",
       [=](Program& p) {
         auto& list = p.devices[device(p)];
         const int n = static_cast<int>(list.size());
         std::swap(list[pick(0, n)], list[pick(0, n)]);
       }},
      {"swap neighbours",
       [=](Program& p) {
         auto& list = p.devices[device(p)];
         const int i = pick(0, static_cast<int>(list.size()));
         std::swap(list[i], list[std::max(0, i - 1)]);
       }},
      {"move",
       [=](Program& p) {
         auto& list = p.devices[device(p)];
         insert(list, take(list));
       }},
      {"move to a device", [=](Program& p) { insert(p.devices[pick(0, p.device_count())], take(p.devices[device(p)])); }},
      {"drop", [=](Program& p) { take(p.devices[device(p)]); }},
      {"repeat", [=](Program& p) { insert(p.devices[device(p)], any(p)); }},
      {"stage", [=](Program& p) { off(any(p).stage); }},
      {"micro-batch", [=](Program& p) { off(any(p).micro_batch); }},
      {"swap micro-batches", [=](Program& p) { std::swap(any(p).micro_batch, any(p).micro_batch); }},
      {"swap transfers", [=](Program& p) { std::swap(any(p).transfer, any(p).transfer); }},
      {"swap frees", [=](Program& p) { std::swap(any(p).frees, any(p).frees); }},
      {"from", [=](Program& p) { off(any(p).transfer.from); }},
      {"to", [=](Program& p) { off(any(p).transfer.to); }},
      {"value", [=](Program& p) { off(any(p).transfer.value); }},
      {"consumer", [=](Program& p) { off(any(p).transfer.consumer); }},
      {"payload", [=](Program& p) { any(p).transfer.payload = static_cast<Payload>(pick(0, static_cast<int>(Payload::statistics) + 1)); }},
      {"kind", [=](Program& p) { any(p).kind = static_cast<ActionKind>(pick(0, static_cast<int>(ActionKind::step) + 1)); }},
      {"bytes", [=](Program& p) { any(p).bytes += pick(-1, 2); }},
      {"free no more", [=](Program& p) { any(p).frees.clear(); }},
      {"free elsewhere",
       [=](Program& p) {
         auto& frees = any(p).frees;
         if (frees.empty()) return;
         any(p).frees.push_back(frees.back());
         frees.pop_back();
       }},
      {"free what another frees",
       [=](Program& p) {
         const auto frees = any(p).frees;
         if (!frees.empty()) any(p).frees.push_back(frees.front());
       }},
      {"another buffer",
       [=](Program& p) {
         auto& frees = any(p).frees;
         if (!frees.empty()) off(pick(0, 2) == 0 ? frees.front().micro_batch : frees.front().value);
       }},
      {"micro-batches", [=](Program& p) { off(p.micro_batches); }},
      {"rematerialize", [=](Program& p) { p.rematerialize[pick(0, static_cast<int>(p.rematerialize.size()))].flip(); }},
      {"placement", [=](Program& p) { off(p.device_of_stage[pick(0, p.stage_count())]); }},
      {"partition",
       [=](Program& p) {
         const int stage = pick(0, p.partition.stage_count()), other = pick(0, p.partition.stage_count());
         ++p.partition.sizes[stage];
         --p.partition.sizes[other];
       }},
  };
}

}  // namespace sluice::parallel

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/precision.h"
#include "parallel/plan/profile.h"
#include "parallel/program/partition.h"
#include "parallel/program/program.h"
#include "parallel/program/schedule.h"
#include "parallel/schedule/named.h"
#include "parallel/schedule/search.h"

namespace sluice::parallel {

/// A cut of the nodes into stages, which the schedule places on the devices, and of stages into segments, which are recomputed one after
/// the other (in_segments).
class SegmentedPartition {
 public:
  SegmentedPartition() = default;  ///< of no nodes: no plan can have it
  /// Stages of one segment each.
  /// Errors  UsageError for a stage without nodes.
  SegmentedPartition(Partition stages);
  /// The nodes of every segment, and by stage how many of the segments it has.
  /// Errors  UsageError for a segment without nodes, a stage without segments, and other numbers of segments.
  SegmentedPartition(Partition segments, std::vector<int> segments_of_stage);

  /// What runs on its own: all stages' segments, in order.
  const Partition& segments() const { return segments_; }
  /// By stage: the number of its segments.
  const std::vector<int>& segments_of_stage() const { return segments_of_stage_; }
  bool has_whole_stages() const { return stage_count() == segments_.stage_count(); }
  int stage_count() const { return static_cast<int>(segments_of_stage_.size()); }
  /// The nodes of each stage.
  std::vector<int> stage_sizes() const;

 private:
  Partition segments_;
  std::vector<int> segments_of_stage_;
};

/// An order of work that was searched. For another number of micro-batches it is searched again, with the same costs on the same devices.
class SearchedSchedule {
 public:
  /// `costs`  by stage of `order`.
  /// Errors  UsageError for an order that is not a step of training, and for costs of other stages.
  SearchedSchedule(Schedule order, StageCosts costs);
  const Schedule& order() const { return order_; }
  const StageCosts& costs() const { return costs_; }
  /// The order for so many micro-batches, of whole stages.
  /// `byte_caps`  by device, as the costs estimate bytes; empty: none.
  FoundSchedule search_again(int micro_batches, const std::vector<double>& byte_caps = {}) const;

 private:
  Schedule order_;
  StageCosts costs_;
};

/// The order of work of a plan: by name for any number of micro-batches, the user's own for its numbers alone, or searched.
class PlannedSchedule {
 public:
  PlannedSchedule(NamedSchedule name) : named_(name) {}
  PlannedSchedule(Schedule own);
  /// For several numbers of micro-batches, as replicas with unequal ones have them. Errors  UsageError for none.
  PlannedSchedule(std::vector<Schedule> own);
  PlannedSchedule(SearchedSchedule searched);

  /// Null for orders of the other kinds; own: the first.
  const NamedSchedule* named() const { return own_ || searched_ ? nullptr : &named_; }
  const Schedule* own() const { return own_ ? &own_->front() : nullptr; }
  /// All of the user's own, which there are; that for a number, or null.
  const std::vector<Schedule>& all_own() const { return *own_; }
  const Schedule* own_for(int micro_batches) const;
  const SearchedSchedule* searched() const { return searched_.get(); }

 private:
  NamedSchedule named_ = NamedSchedule::gpipe;
  std::shared_ptr<const std::vector<Schedule>> own_;
  std::shared_ptr<const SearchedSchedule> searched_;
};

/// As people know it: "1f1b", the name of the user's own (that of its file), or "auto" for one that was searched.
std::string name_of(const PlannedSchedule& schedule);

/// How a model is trained: which nodes on which device, how many micro-batches, in which order, what is rematerialized, in which
/// numbers. `plan` makes one; one that is made by hand is checked wherever it is taken (plan/check.h).
struct Plan {
  std::vector<DevicePtr> devices;                   ///< of all replicas, equally many each
  SegmentedPartition partition;                     ///< of each replica
  int micro_batches = 1;                            ///< of all replicas
  PlannedSchedule schedule = NamedSchedule::gpipe;  ///< of each replica; one of the user's own is for as many micro-batches as each has
  std::vector<bool> rematerialize;                  ///< by node
  TransferWindow window{};                          ///< how early receives are posted, and how late sends are waited for
  Precision precision = Precision::f32;
  /// By kind of device (device_kinds) and node, one micro-batch: what predictions use; empty: counted.
  std::vector<std::vector<NodeTimes>> times{};
  /// The step of no plan of the same choices takes less, by `times` or at the devices' nominal speeds; 0 when nothing was searched.
  double bound_seconds = 0;
  /// No plan of the same choices that fits is faster by a thousandth or more (which is what a wider window has to save), by the nodes' times
  /// added up over a chain of stages. Claimed for models that are a chain without tied parameters, without crowding, when all plans were
  /// tried, and none that is faster was ruled out for bytes that are only estimated.
  bool is_exact = false;
  bool is_out_of_time = false;  ///< PlanOptions::search_seconds ended the search: the best plan until then
  Replication replication{};    ///< how many replicas, and how their gradients are added up
  ReplicaDevices replica_devices = ReplicaDevices::together;
};

/// By device: the number of its kind, counted from 0 in the order in which kinds appear. Devices of one kind take the same times and bytes.
std::vector<int> device_kinds(const std::vector<DevicePtr>& devices);

/// How many devices each replica has.
int devices_of_replica(const Plan& plan);

/// The device of each segment of a plan's partition, of all replicas.
/// Errors  UsageError for a plan that is wrong in itself.
std::vector<int> device_of_stage(const Plan& plan);

/// The order of work of all replicas of a plan, cut into `micro_batches`. A searched one is searched again for another number than its own, whatever the
/// budgets; a trainer's keeps to them.
/// Errors  UsageError for a plan that is wrong in itself, and for a schedule of the user's own that is for another number.
Schedule schedule_of(const Plan& plan, int micro_batches);

/// The forwards of an evaluation. Replicas beyond the number of micro-batches have none.
Schedule evaluation_schedule_of(const Plan& plan, int micro_batches);

}  // namespace sluice::parallel

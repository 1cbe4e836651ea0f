#pragma once
#include "parallel/program/schedule.h"

namespace sluice::parallel {

/// The order of one device under a named schedule: `device` of `devices`, which hold `virtual_stages` stages each.
using OrderOf = std::vector<ComputeAction> (*)(int device, int devices, int micro_batches, int virtual_stages);

std::vector<ComputeAction> gpipe_order(int device, int devices, int micro_batches, int virtual_stages);
std::vector<ComputeAction> one_forward_one_backward_order(int device, int devices, int micro_batches, int virtual_stages);
std::vector<ComputeAction> interleaved_order(int device, int devices, int micro_batches, int virtual_stages);
std::vector<ComputeAction> zb_h1_order(int device, int devices, int micro_batches, int virtual_stages);
std::vector<ComputeAction> zb_v_order(int device, int devices, int micro_batches, int virtual_stages);

/// The forwards of any placement, each device taking the deepest stage that is ready.
std::vector<std::vector<ComputeAction>> forward_orders(const std::vector<int>& device_of_stage, int devices, int micro_batches);

}  // namespace sluice::parallel

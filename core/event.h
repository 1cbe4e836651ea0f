#pragma once
#include <memory>

namespace sluice {

class CudaEvent;

/// A point in the order of a device's work: all that was enqueued before it. Null: passed already, as always on CPU and meta devices.
/// Threads  any.
using Event = std::shared_ptr<const CudaEvent>;

bool has_passed(const Event& event);
/// Blocks the calling thread until then.
void wait_until(const Event& event);
/// Time between two passed events of one device that were taken with a time stamp.
double seconds_between(const Event& earlier, const Event& later);

}  // namespace sluice

#pragma once
#include <memory>

namespace sluice {

class CudaEvent;

/// A point in the order of a device's work: all that was enqueued before it. Null: passed already, as always on CPU and meta devices.
/// Threads  any.
using Moment = std::shared_ptr<const CudaEvent>;

bool has_passed(const Moment& moment);
/// Blocks the calling thread until then.
void wait_until(const Moment& moment);
/// Time between two passed moments of one device that were taken with a time stamp.
double seconds_between(const Moment& earlier, const Moment& later);

}  // namespace sluice

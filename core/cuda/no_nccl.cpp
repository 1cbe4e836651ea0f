// Stands in for nccl*.cpp in builds without NCCL's header.
#include "core/cuda/nccl.h"
#include "core/error.h"

namespace sluice::nccl {

namespace {

[[noreturn]] void refuse() { throw UsageError("nccl: " + unavailable_reason()); }

}  // namespace

std::string unavailable_reason() { return "this build has no NCCL; configure with -Dcuda=enabled -Dnccl=enabled"; }
std::string library_version() { return ""; }
std::string new_unique_id() { refuse(); }
Communicator::Communicator(int, const std::string&, int, int) : gpu_(0) { refuse(); }
Communicator::~Communicator() = default;
Event Communicator::send(const void*, size_t, int, const Event&) { refuse(); }
Event Communicator::receive(void*, size_t, int, const Event&) { refuse(); }
Event Communicator::send_to_self(const void*, void*, size_t, const Event&, const Event&) { refuse(); }
void Communicator::check() const { refuse(); }

}  // namespace sluice::nccl

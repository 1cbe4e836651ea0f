#include "parallel/group/mpi_control.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "parallel/group/mpi_try.h"

namespace sluice::parallel {

void MpiControl::tell(ControlKind kind, int to, std::string message) {
  require(message.size() <= INT_MAX, "group: tell needs a message of less than 2 GiB, got ", message.size(), " bytes; tell it in parts");
  Outgoing& sent = outgoing_.emplace_back(Outgoing{kind, to, std::move(message)});
  mpi_try(library_, library_.send(kControl, to, static_cast<int>(kind), sent.message.data(), sent.message.size(), true, &sent.request),
          "MPI_Issend");
}

void MpiControl::poll() {
  outgoing_.remove_if([&](const Outgoing& sent) { return is_done(sent.request, "MPI_Issend"); });
  begin_receives();
  for (size_t rank = 0; rank < incoming_.size(); ++rank) deliver_from(static_cast<int>(rank));
}

bool MpiControl::is_idle(ControlKind kind, int to) const {
  return std::none_of(outgoing_.begin(), outgoing_.end(), [&](const Outgoing& sent) { return sent.kind == kind && sent.to == to; });
}

bool MpiControl::is_done(void* request, const char* call) const {
  int state = kUnderWay;
  size_t ignored = 0;
  mpi_try(library_, library_.test(request, &state, &ignored), call);
  return state != kUnderWay;
}

void MpiControl::begin_receives() {
  while (true) {
    int is_there = 0, from = 0, tag = 0;
    size_t bytes = 0;
    mpi_try(library_, library_.probe(kControl, &is_there, &from, &tag, &bytes), "MPI_Iprobe");
    if (!is_there) return;
    Incoming& received = incoming_.at(from).emplace_back(Incoming{static_cast<ControlKind>(tag), std::string(bytes, '\0')});
    mpi_try(library_, library_.receive(kControl, from, tag, received.message.data(), bytes, &received.request), "MPI_Irecv");
  }
}

void MpiControl::deliver_from(int rank) {
  auto& messages = incoming_[rank];
  while (!messages.empty() && is_done(messages.front().request, "MPI_Irecv")) {
    Incoming received = std::move(messages.front());
    messages.pop_front();
    deliver_(received.kind, rank, std::move(received.message));
  }
}

}  // namespace sluice::parallel

// Stands in for libnccl.so.2 and core/cuda/nccl_library.cpp where GPUs are emulated.
#include "tests/emulation/nccl.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "core/cuda/nccl_library.h"
#include "core/cuda/nccl_version.h"
#include "tests/emulation/nccl_clique.h"
#include "tests/emulation/runtime.h"

using namespace sluice;
using namespace sluice::emulation;

namespace {

thread_local std::string last_error;

/// A call that NCCL refuses.
struct NcclRefusal {
  ncclResult_t result;
  std::string text;
};

template <class... Parts>
void expect(bool ok, ncclResult_t result, const Parts&... parts) {
  if (!ok) throw NcclRefusal{result, join(parts...)};
}

template <class Body>
ncclResult_t nccl_call(const char* name, Body&& body) {
  Runtime& state = runtime();
  std::lock_guard lock(state.mutex);
  try {
    const Nccl& nccl = emulated_nccl();
    const bool fails_here = nccl.failing_gpu < 0 || nccl.failing_gpu == current_device();
    expect(nccl.failing_call != name || !fails_here, nccl.failure, "a failure that a test planted");
    body(state);
    return ncclSuccess;
  } catch (const NcclRefusal& refusal) {
    last_error = refusal.text;
    return refusal.result;
  } catch (const KernelFault& fault) {
    last_error = fault.what();
    return ncclUnhandledCudaError;
  }
}

/// The calls of one thread between ncclGroupStart and ncclGroupEnd.
struct Group {
  struct Part {
    ncclComm_t communicator;
    cudaStream_t stream;
    std::vector<Operation> operations;
  };
  int depth = 0;
  std::vector<Part> parts;  ///< one a communicator
};
thread_local Group group;

/// By name; of those whose ranks have not all come.
std::map<std::string, std::weak_ptr<Clique>>& cliques() {
  static auto& all = *new std::map<std::string, std::weak_ptr<Clique>>;
  return all;
}

void check_sends_to_self(const Group::Part& part) {
  const auto count = [&](bool is_send) {
    return std::ranges::count_if(part.operations, [&](const Operation& operation) {
      return operation.peer == part.communicator->rank && operation.is_send == is_send;
    });
  };
  expect(count(true) == count(false), ncclInvalidUsage, "Trying to send to self without a matching recv");
}

/// Blocks the calling thread until the other end of every connection has come, too.
void connect(Runtime& state, const Group::Part& part) {
  for (const Operation& operation : part.operations) {
    Connection& connection = part.communicator->connection(operation);
    auto& end = operation.is_send ? connection.sender : connection.receiver;
    if (!end.has_come) state.ranks.note_change();
    end.has_come = true;
  }
  state.wait_until([&] {
    return std::ranges::all_of(part.operations, [&](const Operation& operation) {
      const Connection& connection = part.communicator->connection(operation);
      return connection.sender.has_come && connection.receiver.has_come;
    });
  });
}

void launch(Runtime& state, const Group::Part& part) {
  check_sends_to_self(part);
  connect(state, part);
  auto made = std::make_shared<GroupLaunch>();
  made->communicator = part.communicator;
  made->operations = part.operations;
  made->queue = state.queue_of(part.stream);
  made->position = made->queue->put_count() + 1;
  part.communicator->launches.push_back(made);
  state.ranks.note_change();
  // The communicator owns the launch, which owns the queue: work of the queue that owned the launch would never be freed where it never ends.
  const auto launch_of_communicator = std::weak_ptr(made);
  state.submit(part.stream, {CUgraphNode_st::Kind::kernel, [&state, launch_of_communicator] {
                               const auto launch = launch_of_communicator.lock();
                               if (!launch) throw Blocked{};
                               run_launch(state, launch);
                             }});
}

void launch_group(Runtime& state) {
  const std::vector<Group::Part> parts = std::exchange(group.parts, {});
  for (const Group::Part& part : parts) launch(state, part);
}

void add(Runtime& state, Operation operation, ncclDataType_t type, ncclComm_t communicator, cudaStream_t stream) {
  expect(type == ncclInt8 && operation.bytes > 0, ncclInvalidArgument, "only some bytes of ncclInt8 are emulated");
  expect(stream && !is_captured(stream), ncclInvalidUsage, "captures and the default stream are not emulated");
  expect(stream->queue->device() == communicator->device, ncclInvalidArgument, "the stream belongs to device ", stream->queue->device(),
         ", the communicator to ", communicator->device);
  expect(operation.peer >= 0 && operation.peer < static_cast<int>(communicator->clique->members.size()), ncclInvalidArgument,
         "there is no rank ", operation.peer);
  const auto* allocation = state.memory.find(operation.memory);
  expect(allocation && allocation->device == communicator->device &&
             reinterpret_cast<uintptr_t>(operation.memory) + operation.bytes <= allocation->end(),
         ncclInvalidArgument, "the memory does not lie on device ", communicator->device);
  emulated_nccl().launching_threads[communicator->device].insert(std::this_thread::get_id());
  const auto known = std::ranges::find(group.parts, communicator, &Group::Part::communicator);
  if (known == group.parts.end()) {
    group.parts.push_back({communicator, stream, {operation}});
  } else {
    expect(known->stream == stream, ncclInvalidUsage, "a group over several streams is not emulated");
    known->operations.push_back(operation);
  }
  if (group.depth == 0) launch_group(state);
}

void require_own_gpus(const Clique& clique) {
  std::set<int> devices;
  for (const int device : clique.devices)
    expect(devices.insert(device).second, ncclInvalidUsage, "Duplicate GPU detected : two ranks on CUDA device ", device);
}

void join_clique(Runtime& state, ncclComm& communicator, const std::string& name, int ranks) {
  auto& known = cliques()[name];
  auto clique = known.lock();
  if (!clique) known = clique = std::make_shared<Clique>();
  clique->members.resize(ranks);
  expect(communicator.rank >= 0 && communicator.rank < ranks && !clique->members[communicator.rank], ncclInvalidArgument, "rank ",
         communicator.rank, " of ", ranks, " has come already, or is none");
  communicator.clique = clique;
  clique->members[communicator.rank] = &communicator;
  clique->devices.push_back(communicator.device);
  state.ranks.note_change();
  state.wait_until([&] { return clique->devices.size() == clique->members.size(); });
  cliques().erase(name);
  require_own_gpus(*clique);
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = nccl::kOldestVersion;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "unhandled cuda error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call("ncclGetUniqueId", [&](Runtime&) {
    static unsigned made = 0;
    *id = {};
    std::strcpy(id->internal, join("communicator ", ++made).c_str());
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return nccl_call("ncclCommInitRankConfig", [&](Runtime& state) {
    expect(config->blocking == 1, ncclInvalidUsage, "only blocking communicators are emulated");
    auto made = std::make_unique<ncclComm>();
    made->rank = rank;
    made->device = current_device();
    join_clique(state, *made, id.internal, ranks);
    emulated_nccl().configs.push_back(*config);
    ++emulated_nccl().live_communicators;
    *communicator = made.release();
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  return nccl_call("ncclCommDestroy", [&](Runtime& state) {
    if (state.ranks.are_torn_down()) communicator->launches.clear();  // whose queues were dropped
    state.wait_for([&] {
      while (!communicator->launches.empty()) {
        const auto launch = communicator->launches.front();
        launch->queue->run_until(launch->position);
      }
    });
    communicator->clique->members[communicator->rank] = nullptr;
    --emulated_nccl().live_communicators;
    delete communicator;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* met) {
  return nccl_call("ncclCommGetAsyncError", [&](Runtime&) { *met = emulated_nccl().async_error; });
}

ncclResult_t ncclGroupStart() {
  return nccl_call("ncclGroupStart", [&](Runtime&) { ++group.depth; });
}

ncclResult_t ncclGroupEnd() {
  return nccl_call("ncclGroupEnd", [&](Runtime& state) {
    expect(group.depth > 0, ncclInvalidUsage, "ncclGroupEnd: not in a group call");
    if (--group.depth == 0) launch_group(state);
  });
}

ncclResult_t ncclSend(const void* memory, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator, cudaStream_t stream) {
  return nccl_call("ncclSend", [&](Runtime& state) {
    add(state, {true, peer, static_cast<char*>(const_cast<void*>(memory)), count}, type, communicator, stream);
  });
}

ncclResult_t ncclRecv(void* memory, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator, cudaStream_t stream) {
  return nccl_call("ncclRecv", [&](Runtime& state) {
    add(state, {false, peer, static_cast<char*>(memory), count}, type, communicator, stream);
  });
}

namespace sluice::emulation {

namespace {

nccl::Loaded loaded_with(int version) {
  return {{ncclGetVersion, ncclGetErrorString, ncclGetLastError, ncclGetUniqueId, ncclCommInitRankConfig, ncclCommDestroy,
           ncclCommGetAsyncError, ncclGroupStart, ncclGroupEnd, ncclSend, ncclRecv},
          nccl::version_text(version),
          version == 0 ? "the emulated machine has no NCCL; install one" : nccl::version_fault(version)};
}

nccl::Loaded& state_of_library() {
  static nccl::Loaded state = loaded_with(nccl::kOldestVersion);
  return state;
}

thread_local std::optional<nccl::Loaded> library_of_thread;

}  // namespace

Nccl& emulated_nccl() {
  static Nccl state;
  return state;
}

void install_nccl(int version) { state_of_library() = loaded_with(version); }
void install_nccl_for_thread(int version) { library_of_thread = loaded_with(version); }

}  // namespace sluice::emulation

namespace sluice::nccl {

const Loaded& loaded() { return emulation::library_of_thread ? *emulation::library_of_thread : emulation::state_of_library(); }

}  // namespace sluice::nccl

#include "core/cuda/cudnn_graph.h"

#include <algorithm>
#include <utility>

namespace sluice::cudnn {

namespace {

constexpr int64_t kMostProposals = 16;  ///< of one way of asking

void* created(const Library& library, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t handle = nullptr;
  cudnn_try(library, library.BackendCreateDescriptor(type, &handle), "cudnnBackendCreateDescriptor");
  return handle;
}

bool is_wanted(const Descriptor& engine, bool tensor_cores) {
  const auto notes = engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::all_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP || (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && tensor_cores);
  });
}

void append_proposals(std::vector<Proposal>& all, const Graph& graph, const Descriptor& gpu, cudnnBackendHeurMode_t mode,
                      bool tensor_cores) {
  Descriptor heuristic(gpu.library(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.whole());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu);
  heuristic.finalize();
  for (Descriptor& configuration : heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostProposals))
    for (const Descriptor& engine : configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1))
      if (is_wanted(engine, tensor_cores))
        all.push_back({std::move(configuration), engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX).at(0)});
}

}  // namespace

Descriptor::Descriptor(const Library& library, cudnnBackendDescriptorType_t type)
    : library_(&library), handle_(created(library, type), Destroy{&library}) {}

void Descriptor::set_all(cudnnBackendAttributeName_t name, const std::vector<cudnnBackendDescriptor_t>& descriptors) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(descriptors.size()), descriptors.data());
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  cudnn_try(*library_, library_->BackendSetAttribute(handle(), name, type, count, values),
            join("cudnnBackendSetAttribute of ", static_cast<int>(name)).c_str());
}

void Descriptor::finalize() { cudnn_try(*library_, library_->BackendFinalize(handle()), "cudnnBackendFinalize"); }

int64_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most, void* values) const {
  int64_t count = 0;
  cudnn_try(*library_, library_->BackendGetAttribute(handle(), name, type, most, &count, values),
            join("cudnnBackendGetAttribute of ", static_cast<int>(name)).c_str());
  return std::min(count, most);  // the library counts what it has, also where it gives less
}

std::vector<Descriptor> Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, int64_t most) const {
  std::vector<Descriptor> filled;
  for (int64_t i = 0; i < most; ++i) filled.emplace_back(*library_, type);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& descriptor : filled) handles.push_back(descriptor.handle());
  const int64_t count = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, handles.data());
  filled.erase(filled.begin() + count, filled.end());
  return filled;
}

std::vector<Proposal> proposals(const Graph& graph, const Descriptor& gpu, bool tensor_cores) {
  std::vector<Proposal> all;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) append_proposals(all, graph, gpu, mode, tensor_cores);
  return all;
}

Plan::Plan(std::shared_ptr<const Graph> graph, Proposal proposal, const Descriptor& gpu)
    : graph_(std::move(graph)), proposal_(std::move(proposal)), plan_(gpu.library(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal_.configuration);
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu);
  plan_.finalize();
  workspace_bytes_ = plan_.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE).at(0);
}

void Plan::run(cudnnHandle_t handle, std::span<void* const> addresses, void* workspace) const {
  const Library& library = plan_.library();
  std::vector<void*> all(addresses.begin(), addresses.end());
  for (const float& scalar : graph_->scalars) all.push_back(const_cast<float*>(&scalar));
  Descriptor pack(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(graph_->uids));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(all));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.finalize();
  cudnn_try(library, library.BackendExecute(handle, plan_.handle(), pack.handle()), "cudnnBackendExecute");
}

}  // namespace sluice::cudnn

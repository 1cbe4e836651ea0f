// Stands in for libcudnn.so.9 and core/cuda/cudnn_library.cpp where kernels are emulated: convolutions and composed graphs as plain loops on the stream.
#include "tests/emulation/cudnn.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "core/cuda/cudnn_library.h"
#include "core/dtype.h"
#include "tests/emulation/cudnn_convolution.h"
#include "tests/emulation/cudnn_descriptions.h"
#include "tests/emulation/cudnn_interpreter.h"
#include "tests/emulation/cudnn_object.h"

using namespace sluice;
using namespace sluice::emulation;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

std::string last_error;

cudnnStatus_t fails(cudnnStatus_t status, const std::string& why) {
  last_error = why;
  return status;
}

Object& object_of(cudnnBackendDescriptor_t descriptor) { return *static_cast<Object*>(descriptor); }

const CudnnEngine& engine_numbered(int64_t index) {
  for (const CudnnEngine& engine : emulated_cudnn().engines)
    if (engine.index == index) return engine;
  throw std::invalid_argument("an engine that is known");
}

const Object& graph_of_configuration(const Object& configuration) {
  return configuration.object(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
}

/// What is checked and made when a descriptor becomes final.
cudnnStatus_t finish(Object& object) {
  switch (object.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      tensor_of(object);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      window_of(object);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      expect(object.one<cudnnHandle_t>(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE), "a handle");
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      described(object);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      object.object(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
      object.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE);
      graph_of_configuration(object);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      object.object(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
      const Object& configuration = object.object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      const auto& engine = engine_numbered(configuration.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64));
      if (engine.behaviour == CudnnEngine::is_refused) return fails(CUDNN_STATUS_NOT_SUPPORTED, "this engine refuses the graph");
      object.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::vector<int64_t>{engine.workspace_bytes});
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
      return CUDNN_STATUS_SUCCESS;
    default:
      check_operation(object);
      return CUDNN_STATUS_SUCCESS;
  }
}

/// The first way of asking gives all engines but the last, the other one the last.
std::vector<int64_t> engines_for(const Object& heuristic) {
  const Object& graph = graph_of_configuration(heuristic);
  if (emulated_cudnn().keeps_bf16_weight_gradients && is_bf16_weight_gradient_in_f32(graph)) return {};
  std::vector<int64_t> all;
  for (const CudnnEngine& engine : emulated_cudnn().engines) all.push_back(engine.index);
  if (all.empty()) return all;
  const auto mode = heuristic.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE);
  if (mode == CUDNN_HEUR_MODE_FALLBACK) return {all.back()};
  return {all.begin(), all.end() - 1};
}

/// Results are descriptors that the caller made, and which are filled.
int64_t fill_results(const Object& heuristic, int64_t most, void* values) {
  const auto engines = engines_for(heuristic);
  for (int64_t i = 0; i < most && i < static_cast<int64_t>(engines.size()); ++i) {
    Object& configuration = object_of(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
    expect(configuration.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "room for configurations");
    configuration.put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector<int64_t>{engines[i]});
    configuration.attributes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = heuristic.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    configuration.is_final = true;
  }
  return static_cast<int64_t>(engines.size());  // also those that had no room
}

int64_t fill_engine(const Object& configuration, int64_t most, void* values) {
  expect(most >= 1, "room for an engine");
  Object& engine = object_of(static_cast<cudnnBackendDescriptor_t*>(values)[0]);
  expect(engine.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR, "room for an engine");
  const auto index = configuration.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64);
  engine.put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector<int64_t>{index});
  engine.put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, engine_numbered(index).notes);
  engine.is_final = true;
  return 1;
}

int64_t fill_values(const Object& object, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most, void* values) {
  const auto found = object.attributes.find(name);
  expect(found != object.attributes.end() && found->second.type == type, "an attribute of this type");
  const auto count = static_cast<int64_t>(found->second.bytes.size() / bytes_of(type));
  const size_t bytes = bytes_of(type) * static_cast<size_t>(std::min(count, most));
  if (bytes > 0) std::memcpy(values, found->second.bytes.data(), bytes);
  return count;
}

void* address_of(const Object& pack, const CudnnTensor& tensor) {
  const auto uids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64);
  const auto addresses = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR);
  expect(uids.size() == addresses.size(), "an address for each tensor");
  for (size_t i = 0; i < uids.size(); ++i)
    if (uids[i] == tensor.uid) {
      expect(addresses[i], "an address for each tensor");
      expect(tensor.is_scalar || reinterpret_cast<uintptr_t>(addresses[i]) % tensor.alignment == 0, "an aligned address");
      return addresses[i];
    }
  throw std::invalid_argument("an address for each tensor");
}

/// What an engine multiplies results of that dtype by.
double factor_of(const CudnnEngine& engine, cudnnDataType_t dtype, size_t run) {
  if (engine.behaviour == CudnnEngine::deviates) return 1.1;
  if (engine.behaviour == CudnnEngine::deviates_in_f32 && dtype == CUDNN_DATA_FLOAT) return 1 / std::log(2);
  if (engine.behaviour == CudnnEngine::changes_with_every_run)
    return dtype == CUDNN_DATA_FLOAT ? 1 + 1e-6 * static_cast<double>(run % 7)
                                     : 1 + 4.5e-3 * static_cast<double>(run % 2);  // or the next bf16
  return 1;
}

using Work = std::function<void(const CudnnEngine&, size_t run)>;

Work work_of(const CudnnConvolution& of, const Object& pack) {
  return [of, x = address_of(pack, of.x), weight = address_of(pack, of.weight), y = address_of(pack, of.y)](
             const CudnnEngine& engine, size_t run) { of.run(x, weight, y, factor_of(engine, of.result().dtype, run)); };
}

Work work_of(const CudnnComposition& of, const Object& pack) {
  std::map<int64_t, void*> addresses;
  CudnnNumbers scalars;
  for (const CudnnTensor& tensor : of.outside()) {
    addresses[tensor.uid] = address_of(pack, tensor);
    if (tensor.is_scalar) scalars[tensor.uid] = numbers(tensor, addresses[tensor.uid]);
  }
  return [of, addresses, scalars](const CudnnEngine& engine, size_t run) {
    CudnnNumbers known = scalars;
    for (const CudnnTensor& tensor : of.outside())
      if (tensor.is_in_memory() && !of.is_result(tensor)) known[tensor.uid] = numbers(tensor, addresses.at(tensor.uid));
    interpret(of, known);
    for (const CudnnTensor& tensor : of.outside())
      if (of.is_result(tensor)) store(tensor, known.at(tensor.uid), factor_of(engine, tensor.dtype, run), addresses.at(tensor.uid));
  };
}

struct Run {
  Work work;
  CudnnEngine engine;
  char* workspace;
  size_t number;

  void operator()() const {
    std::memset(workspace, 0x5a, static_cast<size_t>(engine.workspace_bytes));
    if (engine.behaviour == CudnnEngine::is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    work(engine, number);
  }
};

cudnnStatus_t execute(cudnnHandle_t handle, const Object& plan, const Object& pack) {
  expect(plan.is_final && pack.is_final, "final descriptors");
  const Object& configuration = plan.object(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const auto& engine = engine_numbered(configuration.one<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64));
  if (engine.behaviour == CudnnEngine::fails) return fails(CUDNN_STATUS_EXECUTION_FAILED, "this engine always fails");
  emulated_cudnn().ran.push_back(engine.index);
  const Work work = std::visit([&](const auto& of) { return work_of(of, pack); }, described(graph_of_configuration(configuration)));
  auto* const run = new Run{work, engine, static_cast<char*>(pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR)),
                            emulated_cudnn().ran.size()};
  cudaLaunchHostFunc(
      handle->stream,
      [](void* argument) {
        const std::unique_ptr<Run> owned(static_cast<Run*>(argument));
        (*owned)();
      },
      run);
  return CUDNN_STATUS_SUCCESS;
}

template <class F>
cudnnStatus_t checked(const F& f) {
  try {
    last_error.clear();
    return f();
  } catch (const std::invalid_argument& error) {
    return fails(CUDNN_STATUS_BAD_PARAM, join("the emulated cuDNN needs ", error.what()));
  }
}

}  // namespace

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_SUCCESS";
  }
}
void cudnnGetLastErrorString(char* text, size_t bytes) { std::strncpy(text, last_error.c_str(), bytes - 1); }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (!emulated_cudnn().has_driver) return fails(CUDNN_STATUS_NOT_INITIALIZED, "no driver");
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Object{type, false, {}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Object*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  return checked([&] {
    expect(!object_of(descriptor).is_final, "a descriptor that is not final yet");
    const auto* bytes = static_cast<const char*>(values);
    object_of(descriptor).attributes[name] = {type, std::vector<char>(bytes, bytes + bytes_of(type) * static_cast<size_t>(count))};
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t* count, void* values) {
  return checked([&] {
    const Object& object = object_of(descriptor);
    expect(object.is_final, "a final descriptor");
    *count = name == CUDNN_ATTR_ENGINEHEUR_RESULTS ? fill_results(object, most, values)
             : name == CUDNN_ATTR_ENGINECFG_ENGINE ? fill_engine(object, most, values)
                                                   : fill_values(object, name, type, most, values);
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return checked([&] {
    const auto status = finish(object_of(descriptor));
    object_of(descriptor).is_final = status == CUDNN_STATUS_SUCCESS;
    return status;
  });
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  return checked([&] { return execute(handle, object_of(plan), object_of(pack)); });
}

namespace sluice::emulation {

Cudnn& emulated_cudnn() {
  static Cudnn state = [] {
    Cudnn made;
    const char* value = std::getenv("SLUICE_EMULATED_CUDNN");
    made.is_there = value && std::strcmp(value, "1") == 0;
    made.engines = {{1, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 0, CudnnEngine::changes_with_every_run},
                    {2, {}, int64_t{1} << 40, CudnnEngine::deviates},
                    {3, {}, 0, CudnnEngine::is_refused},
                    {4, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, 4096, CudnnEngine::right}};
    return made;
  }();
  return state;
}

}  // namespace sluice::emulation

namespace sluice::cudnn {

const Library* library() {
  static const Library functions{cudnnGetVersion,
                                 cudnnGetErrorString,
                                 cudnnGetLastErrorString,
                                 cudnnCreate,
                                 cudnnDestroy,
                                 cudnnSetStream,
                                 cudnnBackendCreateDescriptor,
                                 cudnnBackendDestroyDescriptor,
                                 cudnnBackendSetAttribute,
                                 cudnnBackendGetAttribute,
                                 cudnnBackendFinalize,
                                 cudnnBackendExecute};
  return emulation::emulated_cudnn().is_there ? &functions : nullptr;
}

std::string library_missing_reason() { return emulation::emulated_cudnn().is_there ? "" : "the emulated machine has no cuDNN"; }

}  // namespace sluice::cudnn

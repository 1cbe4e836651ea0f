#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/cuda/cudnn_library.h"

namespace sluice::cudnn {

/// The name under which the library takes an attribute's values of a type of C++.
constexpr cudnnBackendAttributeType_t type_of(const int64_t*) { return CUDNN_TYPE_INT64; }
constexpr cudnnBackendAttributeType_t type_of(const float*) { return CUDNN_TYPE_FLOAT; }
constexpr cudnnBackendAttributeType_t type_of(const bool*) { return CUDNN_TYPE_BOOLEAN; }
constexpr cudnnBackendAttributeType_t type_of(const char*) { return CUDNN_TYPE_CHAR; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnHandle_t*) { return CUDNN_TYPE_HANDLE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnDataType_t*) { return CUDNN_TYPE_DATA_TYPE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnConvolutionMode_t*) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnPointwiseMode_t*) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnReduceTensorOp_t*) { return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnBackendHeurMode_t*) { return CUDNN_TYPE_HEUR_MODE; }
constexpr cudnnBackendAttributeType_t type_of(const cudnnBackendNumericalNote_t*) { return CUDNN_TYPE_NUMERICAL_NOTE; }
constexpr cudnnBackendAttributeType_t type_of(void* const*) { return CUDNN_TYPE_VOID_PTR; }

/// A descriptor of the backend interface: attributes are set, then it is finalized, then others may name it and its results be asked for.
/// Errors  CallError of every call.
/// Owns    the library's object; not those that it names, which must live as long.
class Descriptor {
 public:
  Descriptor(const Library& library, cudnnBackendDescriptorType_t type);

  template <class Value>
  void set(cudnnBackendAttributeName_t name, std::span<const Value> values) {
    set(name, type_of(values.data()), static_cast<int64_t>(values.size()), values.data());
  }
  template <class Value>
  void set(cudnnBackendAttributeName_t name, const Value& value) {
    set(name, type_of(&value), 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& descriptor) { set_all(name, {descriptor.handle()}); }
  void set_all(cudnnBackendAttributeName_t name, const std::vector<cudnnBackendDescriptor_t>& descriptors);
  void finalize();

  /// At most `most` values.
  template <class Value>
  std::vector<Value> get(cudnnBackendAttributeName_t name, int64_t most = 1) const {
    std::vector<Value> values(most);
    values.resize(get(name, type_of(values.data()), most, values.data()));
    return values;
  }
  /// The library fills descriptors that exist already.
  std::vector<Descriptor> get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, int64_t most) const;

  cudnnBackendDescriptor_t handle() const { return handle_.get(); }
  const Library& library() const { return *library_; }

 private:
  struct Destroy {
    const Library* library;
    void operator()(void* handle) const { library->BackendDestroyDescriptor(handle); }
  };
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most, void* values) const;

  const Library* library_;
  std::unique_ptr<void, Destroy> handle_;
};

/// Of the addresses of all tensors, in bytes.
inline constexpr int64_t kAlignment = 16;

/// Operations on tensors, and all descriptors that they are made of.
struct Graph {
  std::vector<Descriptor> parts;  ///< the last one is the graph
  std::vector<int64_t> uids;      ///< of its tensors, in the order in which `Plan::run` takes their addresses; then of its scalars
  std::vector<float> scalars;     ///< operands that the library reads from the host with every run

  const Descriptor& whole() const { return parts.back(); }
};

/// An algorithm that the library offers for a graph.
struct Proposal {
  Descriptor configuration;
  int64_t engine;  ///< the library's number of it; proposals of one engine differ in its settings
};

/// What the library offers, the one that it expects to be the fastest first; none where it has none. Left out: algorithms that do not give
/// the same bits every time, add up in less than f32, round factors further, or go through transforms (FFT, Winograd); without
/// `tensor_cores` also those that use these, as products of f32 may only with TF32.
/// `gpu` is a finalized descriptor of a device's properties.
std::vector<Proposal> proposals(const Graph& graph, const Descriptor& gpu, bool tensor_cores);

/// A proposal made ready to run, with the workspace that it needs.
class Plan {
 public:
  /// Errors  CallError where the library refuses it after all.
  Plan(std::shared_ptr<const Graph> graph, Proposal proposal, const Descriptor& gpu);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues on the handle's stream. Errors  CallError.
  void run(cudnnHandle_t handle, std::span<void* const> addresses, void* workspace) const;

 private:
  std::shared_ptr<const Graph> graph_;
  Proposal proposal_;
  Descriptor plan_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace sluice::cudnn

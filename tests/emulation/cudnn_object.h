#pragma once
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "cudnn_graph.h"

namespace sluice::emulation {

/// Thrown by checks, answered as CUDNN_STATUS_BAD_PARAM.
inline void expect(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(what);
}

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::vector<char> bytes;
};

inline size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    default:
      return 4;
  }
}

/// A descriptor of the emulated cuDNN: attributes as they were set, read back with checks.
struct Object {
  cudnnBackendDescriptorType_t type;
  bool is_final = false;
  std::map<int, Attribute> attributes;

  template <class Value>
  std::vector<Value> all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t wanted) const {
    const auto found = attributes.find(name);
    expect(found != attributes.end(), "an attribute is missing");
    expect(found->second.type == wanted && sizeof(Value) == bytes_of(wanted), "an attribute has another type");
    std::vector<Value> values(found->second.bytes.size() / sizeof(Value));
    std::memcpy(values.data(), found->second.bytes.data(), found->second.bytes.size());
    return values;
  }
  template <class Value>
  Value one(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t wanted) const {
    const auto values = all<Value>(name, wanted);
    expect(values.size() == 1, "an attribute needs one value");
    return values[0];
  }
  bool has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  /// False where it is not set.
  bool flag(cudnnBackendAttributeName_t name) const { return has(name) && one<char>(name, CUDNN_TYPE_BOOLEAN) != 0; }
  const Object& object(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t wanted) const {
    const Object& found = *one<const Object*>(name, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    expect(found.type == wanted && found.is_final, "a descriptor of another type, or one that is not final");
    return found;
  }
  template <class Value>
  void put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<Value>& values) {
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    attributes[name] = {type, std::vector<char>(bytes, bytes + values.size() * sizeof(Value))};
  }
};

}  // namespace sluice::emulation

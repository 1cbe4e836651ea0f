#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/file/file_summary.h"
#include "core/tensor.h"

namespace sluice {

/// One tensor of a safetensors file. Units: bytes from the start of the data, which follow the header.
struct SafetensorsEntry {
  DType dtype = DType::f32;
  Shape shape;
  int64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;  ///< byte of the file where the data start
};

/// Reads the header of a file of `file_bytes` bytes, of which `start` holds at least the header, and proves that it describes exactly
/// this file: known dtypes, unique names, tensors that cover the data without overlap, hole or rest. A tensor without elements may stand
/// at any boundary between two others. Nothing is allocated by what the header claims.
/// Errors  DataError naming file, tensor and byte.
/// Source  the safetensors format: u64 length, JSON, data.
SafetensorsHeader parse_safetensors_header(std::string_view start, int64_t file_bytes, const std::string& file);

/// A safetensors file, validated when it is opened.
/// Threads  any, at the same time: each read opens the file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::string path);

  const std::map<std::string, SafetensorsEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// Reads a tensor's elements into `into`, on any device with memory. Errors  DataError when it is not in the file, or `into` has another dtype or shape.
  void read(const std::string& name, const Tensor& into) const;
  /// Reads a tensor to a device.
  Tensor read(const std::string& name, const DevicePtr& device = default_device()) const;

 private:
  const SafetensorsEntry& entry(const std::string& name) const;
  std::string path_;
  SafetensorsHeader header_;
};

/// All tensors of a safetensors file, by name: what write_safetensors wrote. Errors  DataError naming file, tensor and byte.
std::map<std::string, Tensor> read_safetensors(const std::string& path, const DevicePtr& device = default_device());

/// Writes tensors in name order, whole or not at all (write_atomically), synced: equal tensors give equal bytes.
/// Errors  ResourceError, see FileWriter.
FileSummary write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace sluice

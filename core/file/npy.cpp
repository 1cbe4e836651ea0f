#include "core/file/npy.h"

#include <algorithm>
#include <filesystem>

#include "core/file/file.h"
#include "core/ops/copy.h"

namespace sluice {

namespace {

/// Appends the next bytes of a file up to the one at `end`, or fewer where it ends.
void read_up_to(int64_t end, const ByteReader& read, std::string& start) {
  const size_t before = start.size();
  start.resize(static_cast<size_t>(end));
  start.resize(before + read(start.data() + before, start.size() - before));
}

NpyHeader read_header(const ByteReader& read, int64_t bytes, const std::string& name) {
  std::string start;
  read_up_to(std::min(bytes, kNpyStartBytes), read, start);
  read_up_to(npy_data_begin(start, bytes, name), read, start);
  return parse_npy_header(start, bytes, name);
}

Shape reversed(const Shape& shape) {
  std::vector<int64_t> extents(shape.extents().rbegin(), shape.extents().rend());
  return Shape(std::span<const int64_t>(extents));
}

Tensor with_axes_reversed(const Tensor& x) {
  std::vector<int> axes;
  for (int axis = x.rank() - 1; axis >= 0; --axis) axes.push_back(axis);
  return x.permute(axes).contiguous();
}

}  // namespace

Tensor read_npy(const ByteReader& read, int64_t bytes, const std::string& name, const DevicePtr& device) {
  if (device->kind() == DeviceKind::cuda) return read_npy(read, bytes, name, default_device()).to(device);
  const NpyHeader header = read_header(read, bytes, name);
  const Tensor result = empty(header.is_fortran_order ? reversed(header.shape) : header.shape, header.dtype, device);
  const size_t came = read(result.data(), static_cast<size_t>(result.bytes()));
  char rest = 0;  // the end has to be seen: that is where a zip file's checksum is compared
  require<DataError>(came == static_cast<size_t>(result.bytes()) && read(&rest, 1) == 0, name, ", byte ",
                     header.data_begin + static_cast<int64_t>(came), ": the file changed while it was read; read it again");
  return header.is_fortran_order ? with_axes_reversed(result) : result;
}

Tensor read_npy(const std::string& path, const DevicePtr& device) {
  const auto [read, bytes] = open_bytes(path);
  return read_npy(read, bytes, path, device);
}

Tensor npy_elements(const Tensor& x) { return (x.dtype() == DType::bf16 ? cast(x, DType::f32) : x).on_host(); }

void write_npy(const std::string& path, const Tensor& x) {
  const Tensor elements = npy_elements(x);
  const std::string header = npy_header(elements.dtype(), elements.shape());
  write_atomically(path, [&](const std::filesystem::path& temporary) {
    FileWriter file(temporary);
    file.write(header.data(), header.size());
    file.write(elements.data(), static_cast<size_t>(elements.bytes()));
    file.finish();
  });
}

}  // namespace sluice

#include "core/file/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/file/file.h"
#include "core/ops/copy.h"

namespace sluice {

namespace {

const char* format_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f64:
      return "F64";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::u8:
      return "U8";
  }
  return "";
}

SafetensorsHeader read_header(const std::filesystem::path& path) {
  require<DataError>(std::filesystem::is_regular_file(path), path.string(), ": needs a safetensors file, found ",
                     std::filesystem::exists(path) ? "something else" : "nothing", "; check the path");
  std::error_code error;
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  require<DataError>(!error, path.string(), ": cannot read the file: ", error.message());
  std::ifstream in(path, std::ios::binary);
  uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), 8);
  // A length that passes the file's end is refused by the parser: here it only must not be allocated.
  const uint64_t rest = file_bytes > 8 ? static_cast<uint64_t>(file_bytes) - 8 : 0;
  std::string start(8 + (length <= std::min<uint64_t>(rest, 100'000'000) ? length : 0), '\0');
  in.clear();
  in.seekg(0);
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(in.gcount()));
  return parse_safetensors_header(start, file_bytes, path.string());
}

std::string header_text(const std::map<std::string, Tensor>& tensors, const std::map<std::string, std::string>& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    require(name != "__metadata__",
            "write_safetensors: needs other names of tensors than '__metadata__', which the format keeps for itself");
    const auto extents = tensor.shape().extents();
    header[name] = {{"dtype", format_name(tensor.dtype())},
                    {"shape", std::vector<int64_t>(extents.begin(), extents.end())},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(join("write_safetensors: needs names and metadata in UTF-8, got others: ", error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data are aligned in the file
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)), header_(read_header(path_)) {}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = header_.tensors.find(name);
  require<DataError>(found != header_.tensors.end(), path_, ": needs a tensor '", name, "', it has none of that name");
  return found->second;
}

void SafetensorsFile::read(const std::string& name, const Tensor& into) const {
  const SafetensorsEntry& found = entry(name);
  require<DataError>(found.dtype == into.dtype() && found.shape == into.shape(), path_, ", tensor '", name, "': needs ",
                     name_of(into.dtype()), " ", into.shape(), ", the file has ", name_of(found.dtype), " ", found.shape);
  require(into.is_contiguous(), path_, ", tensor '", name, "': needs a contiguous destination");
  if (into.device().kind() == DeviceKind::cuda) return copy(read(name), into);
  std::ifstream in(path_, std::ios::binary);
  in.seekg(header_.data_begin + found.begin);
  in.read(static_cast<char*>(into.data()), into.bytes());
  require<DataError>(in.gcount() == into.bytes(), path_, ", tensor '", name, "', byte ", header_.data_begin + found.begin + in.gcount(),
                     ": the file became shorter while it was read");
}

Tensor SafetensorsFile::read(const std::string& name, const DevicePtr& device) const {
  const SafetensorsEntry& found = entry(name);
  Tensor result = empty(found.shape, found.dtype, device);
  read(name, result);
  return result;
}

std::map<std::string, Tensor> read_safetensors(const std::string& path, const DevicePtr& device) {
  const SafetensorsFile file(path);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] : file.tensors()) tensors[name] = file.read(name, device);
  return tensors;
}

FileSummary write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  const std::string text = header_text(tensors, metadata);
  const uint64_t length = text.size();
  FileSummary summary;
  write_atomically(path, [&](const std::filesystem::path& temporary) {
    FileWriter file(temporary);
    file.write(&length, 8);
    file.write(text.data(), text.size());
    for (const auto& [name, tensor] : tensors) {
      const Tensor source = tensor.contiguous().to(default_device());
      file.write(source.data(), static_cast<size_t>(source.bytes()));
    }
    summary = file.finish();
  });
  return summary;
}

}  // namespace sluice

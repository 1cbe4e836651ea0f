#include "core/file/npz.h"

#include <filesystem>

#include "core/file/file.h"
#include "core/file/npy.h"
#include "core/file/zip.h"

namespace sluice {

namespace {

constexpr std::string_view kEnding = ".npy";

}  // namespace

std::map<std::string, Tensor> read_npz(const std::string& path, const DevicePtr& device) {
  const ZipFile file(path);
  std::map<std::string, Tensor> tensors;
  for (size_t i = 0; i < file.members().size(); ++i) {
    const auto& [member, bytes] = file.members()[i];
    require<DataError>(member.ends_with(kEnding), path, ", member '", member, "': needs members NAME.npy; is it a file of np.savez?");
    const std::string name = member.substr(0, member.size() - kEnding.size());
    require<DataError>(!tensors.contains(name), path, ", array '", name, "': needs unique names, got this one twice; save it again");
    tensors[name] = read_npy(file.open(i), bytes, join(path, ", array '", name, "'"), device);
  }
  return tensors;
}

void write_npz(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  require(!tensors.empty(), path, ": needs at least one tensor, got none; a zip file of nothing cannot be written");
  std::vector<Tensor> elements;
  std::vector<std::string> headers;
  for (const auto& [name, tensor] : tensors) {
    elements.push_back(npy_elements(tensor));
    headers.push_back(npy_header(elements.back().dtype(), elements.back().shape()));
  }
  std::vector<ZipContent> contents;
  for (const auto& [name, tensor] : tensors) {
    const Tensor& x = elements[contents.size()];
    contents.push_back(
        {join(name, kEnding), {headers[contents.size()], {static_cast<const char*>(x.data()), static_cast<size_t>(x.bytes())}}});
  }
  write_atomically(path, [&](const std::filesystem::path& temporary) { write_zip(temporary, contents); });
}

}  // namespace sluice

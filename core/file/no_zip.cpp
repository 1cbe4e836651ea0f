// zip.h in a build without libzip.
#include <filesystem>

#include "core/error.h"
#include "core/file/zip.h"

namespace sluice {

namespace {

[[noreturn]] void throw_no_zip(const std::filesystem::path& path) {
  throw UsageError(join(path.string(),
                        ": needs a Sluice with libzip, this one was built without; install libzip-dev and build again, or use "
                        ".npy or .safetensors"));
}

}  // namespace

ZipFile::ZipFile(const std::filesystem::path& path) { throw_no_zip(path); }
ByteReader ZipFile::open(size_t) const { throw_no_zip(name_); }
void write_zip(const std::filesystem::path& path, const std::vector<ZipContent>&) { throw_no_zip(path); }

}  // namespace sluice

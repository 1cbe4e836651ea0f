#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file/npy_header.h"
#include "core/file/zip.h"

namespace {

/// A file in memory with a name, for a library that opens files by name.
struct MemoryFile {
  MemoryFile(const uint8_t* bytes, size_t size) : descriptor(memfd_create("input", 0)) {
    if (write(descriptor, bytes, size) != static_cast<ssize_t>(size)) __builtin_trap();
  }
  ~MemoryFile() { close(descriptor); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor); }
  int descriptor;
};

}  // namespace

/// Any bytes are a zip file whose members unpack to what they claim and no more, and are arrays or not; or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const MemoryFile input(bytes, size);
  try {
    const sluice::ZipFile file(input.path());
    for (size_t i = 0; i < file.members().size(); ++i) {
      const auto claimed = static_cast<size_t>(file.members()[i].bytes);
      if (claimed > size * 1032 + 1032) __builtin_trap();
      std::string member(claimed + 1, '\0');
      const size_t came = file.open(i)(member.data(), member.size());
      if (came > claimed) __builtin_trap();
      member.resize(came);
      sluice::parse_npy_header(member, static_cast<int64_t>(came), "member");
    }
  } catch (const sluice::DataError&) {
  }
  return 0;
}

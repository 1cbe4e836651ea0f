#include "tests/emulation/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "core/error.h"

namespace sluice::emulation {

namespace {

constexpr size_t kPage = 4096, kGuardBytes = size_t{1} << 20;  // address space only

bool within_mapping(const Memory::Allocation& allocation, uintptr_t address) {
  return address >= allocation.mapping && address < allocation.mapping + allocation.mapping_bytes;
}

}  // namespace

std::string Memory::Allocation::text() const {
  return join("an allocation of ", bytes, " bytes ", device == kHost ? std::string("of pinned host memory") : join("on device ", device));
}

void* Memory::allocate(size_t bytes, int device) {
  const size_t padded = (bytes + 15) / 16 * 16, pages = (padded + kPage - 1) / kPage * kPage;
  void* mapping = mmap(nullptr, pages + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* usable = static_cast<char*>(mapping) + kGuardBytes;
  if (mprotect(usable, pages, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, pages + 2 * kGuardBytes);
    return nullptr;
  }
  std::memset(usable, 0xff, pages);
  const auto begin = reinterpret_cast<uintptr_t>(usable) + pages - padded;
  Bytes& count = bytes_[device - kHost];
  count.live += bytes;
  count.peak = std::max(count.peak, count.live);
  live_[begin] = {begin, bytes, device, reinterpret_cast<uintptr_t>(mapping), pages + 2 * kGuardBytes};
  return reinterpret_cast<void*>(begin);
}

bool Memory::release(void* memory) {
  const auto found = live_.find(reinterpret_cast<uintptr_t>(memory));
  if (found == live_.end()) return false;
  const Allocation& allocation = freed_.emplace_back(found->second);
  live_.erase(found);
  bytes_[allocation.device - kHost].live -= allocation.bytes;
  // Mapped anew, the pages go back to the system while their addresses stay taken.
  mmap(reinterpret_cast<void*>(allocation.mapping), allocation.mapping_bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (freed_.size() > kFreedKept) {
    munmap(reinterpret_cast<void*>(freed_.front().mapping), freed_.front().mapping_bytes);
    freed_.pop_front();
  }
  return true;
}

const Memory::Allocation* Memory::find(const void* address) const {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  auto after = live_.upper_bound(wanted);
  if (after == live_.begin()) return nullptr;
  const Allocation& allocation = std::prev(after)->second;
  return wanted < allocation.end() ? &allocation : nullptr;
}

std::string Memory::describe(uintptr_t address) const {
  for (const auto& [begin, allocation] : live_) {
    if (!within_mapping(allocation, address)) continue;
    if (address < allocation.begin) return join(allocation.begin - address, " bytes before ", allocation.text());
    return join(address - allocation.end(), " bytes past the end of ", allocation.text());
  }
  const auto freed = std::find_if(freed_.rbegin(), freed_.rend(), [&](const auto& each) { return within_mapping(each, address); });
  if (freed != freed_.rend())
    return join("near byte ", static_cast<int64_t>(address - freed->begin), " of ", freed->text() + " that was freed");
  if (address < kPage) return "a null pointer";
  std::ostringstream text;
  text << "address 0x" << std::hex << address << ", which is in no memory of the device, or not aligned as its type needs";
  return text.str();
}

const Memory::Allocation* Memory::overwritten_end() const {
  for (const auto& [begin, allocation] : live_)
    for (uintptr_t at = allocation.end(); at < allocation.padded_end(); ++at)
      if (*reinterpret_cast<const uint8_t*>(at) != 0xff) return &allocation;
  return nullptr;
}

}  // namespace sluice::emulation

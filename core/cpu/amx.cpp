#include "core/cpu/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#endif

namespace sluice {

namespace {

#if defined(__x86_64__) && defined(__linux__)
bool asks_for_amx() {
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;  // of leaf 7's edx
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0) return false;
  constexpr long kRequestPermission = 0x1023,
                 kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA: headers of older kernels lack them
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

struct alignas(64) Layout {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

__attribute__((target("amx-tile"))) void take_tiles() {
  const Layout layout;
  asm volatile("" : : "m"(layout));  // the instruction does not tell the compiler that it reads memory
  _tile_loadconfig(&layout);
}
__attribute__((target("amx-tile"))) void release_tiles() { _tile_release(); }
#else
bool asks_for_amx() { return false; }
void take_tiles() {}
void release_tiles() {}
#endif

}  // namespace

bool has_amx() {
  static const bool has = asks_for_amx();
  return has;
}

AmxTiles::AmxTiles() {
  if (has_amx()) take_tiles();
}

AmxTiles::~AmxTiles() {
  if (has_amx()) release_tiles();
}

}  // namespace sluice

#pragma once

namespace sluice {

/// Whether products and attention of bf16, and large ones of f32, use the tiles of AMX: the processor has them, and the system lets this process
/// use them. Linux is asked for that at the first call (Linux kernel documentation, arch/x86/xstate.rst).
/// Threads  any; one answer for the life of the process.
bool has_amx();

/// Gives the calling thread's eight tiles 16 rows of 64 bytes each (palette 1) while this lives, where has_amx(). A thread without tiles
/// leaves the system less to save.
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

}  // namespace sluice

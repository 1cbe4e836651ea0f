#pragma once
#include <cstdint>
#include <string>

namespace sluice::parallel {

/// Room on a disk that nothing else can take while this object lives: a file without a name, so that the room is free again when the
/// process ends, however it ends. Where the file system reserves nothing in advance, it is only checked once.
/// Its file has the name `file` for a moment, which nobody else may take.
/// Errors  ResourceError naming the folder, the bytes needed and free, and the cure.
class ReservedRoom {
 public:
  ReservedRoom(const std::string& file, int64_t bytes);
  ~ReservedRoom();
  ReservedRoom(const ReservedRoom&) = delete;
  ReservedRoom& operator=(const ReservedRoom&) = delete;

 private:
  int file_;
};

}  // namespace sluice::parallel

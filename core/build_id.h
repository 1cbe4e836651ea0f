#pragma once
#include <string>

namespace sluice {

/// Which build of which code this process runs: the version, the compiler, the C library, oneDNN, and the hash of the program's file,
/// which differs when any of the code or of the compiler's flags does. "sluice 0.1.0, compiler 12.2.0, glibc 2.36, oneDNN 2.6.3, program
/// 0123...". Two builds of one code are one where the file is the same byte for byte.
/// What it cannot see: shared libraries other than these, so a program that links Sluice as one.
/// Cost    reads the file, once a process.
/// Errors  DataError when the file cannot be read.
/// Threads any.
const std::string& build_id();

}  // namespace sluice

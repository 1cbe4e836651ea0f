#pragma once
#include <cstdio>
#include <exception>

namespace sluice::bench {

/// What a main() of this folder does: run(argc, argv), or exit code 2 with "NAME: error: what was wrong".
inline int run_program(const char* name, int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: error: %s\n", name, error.what());
    return 2;
  }
}

}  // namespace sluice::bench

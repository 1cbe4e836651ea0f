#pragma once

namespace sluice::cli {

/// Runs the program: reads the command line, runs a command, turns an error into one line "sluice: error: ..." and its exit code.
int run_program(int argument_count, char** arguments);

}  // namespace sluice::cli

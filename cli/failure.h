#pragma once
#include <exception>
#include <string>

/// How the program ends when something fails.
namespace sluice::cli {

/// The error in words that a user can act upon, those of the config.
std::string explain(const std::exception& error);

/// Ends the process at once, without waiting for any thread: one of them may never end.
[[noreturn]] void end_process(int code);

}  // namespace sluice::cli

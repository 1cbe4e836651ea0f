#pragma once
#include <cstdio>
#include <string>

/// What the program says of itself on standard error. A message that cannot be written is dropped: there is nowhere to say so.
/// Threads  any.
namespace sluice::cli {

/// Of one of several ranks: its errors name it, and all but the root say nothing else.
void set_rank(int rank);

/// "sluice: error: ...", one line.
void tell_error(const std::string& text);
/// "sluice: warning: ...": something is not as it was asked for.
void warn(const std::string& text);
/// "sluice: note: ...": something that was asked for in another place holds.
void note(const std::string& text);

/// Writes out what was printed to standard output, where it lies in a buffer until then.
/// Errors  ResourceError when it cannot be written: a command whose result is lost has not done what it was asked for.
void flush_result();
/// Prints a text that goes beside the result, such as progress. A stream that cannot be written loses it.
void tell(std::FILE* out, const std::string& text);

}  // namespace sluice::cli

#pragma once
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.h"

namespace sluice {

/// A thread that runs `work`; it is joined when it is destroyed. `whose` is for the message: "the data loader".
/// Errors  ResourceError with the system's reason and the cure when the system refuses one more thread. Who starts several of them has to
///         end those that run already before it lets the error pass.
template <class Work>
std::jthread start_thread(std::string_view whose, Work work) try {
  return std::jthread(std::move(work));
} catch (const std::system_error& error) {
  throw ResourceError(join("cannot start a thread of ", whose, ": ", error.code().message(),
                           "; raise the limit of threads (ulimit -u) or of memory (ulimit -v), or set fewer of them ([pipeline] threads, "
                           "[data] threads)"));
}

}  // namespace sluice

#include "cli/failure.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "cli/config_words.h"
#include "core/error.h"

namespace sluice::cli {

namespace {

std::string explain_plainly(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "the system has no memory left; end other programs, or use a smaller model, vocabulary or number of micro-batches or beams";
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr || dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) return error.what();
  if (system->code() == std::errc::resource_unavailable_try_again)
    return "the system refuses another thread; lower pipeline.threads, data.threads or the number of devices, or raise the limit (ulimit "
           "-u)";
  return join("the output cannot be written: ", system->code().message(), "; the result is lost");
}

}  // namespace

std::string explain(const std::exception& error) { return in_config_words(explain_plainly(error)); }

void end_process(int code) {
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace sluice::cli

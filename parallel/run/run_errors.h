#pragma once
#include "core/error.h"

namespace sluice::parallel {

/// A device's thread is still inside an action long after the run was to end, and nothing can end it but the end of the process. What
/// the run used stays as it is for ever: see Executor::is_abandoned() and Trainer. Tell the error and end the process with _exit: exit
/// code 5.
struct HangError : CommError {
  using CommError::CommError;
};

/// RunContext::stop asked for the end of the run: no fault, and nothing has changed.
struct StoppedError : Error {
  using Error::Error;
};

}  // namespace sluice::parallel

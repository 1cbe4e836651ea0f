#pragma once
#include "cli/arguments.h"

/// The commands of the program, one file each. All return the exit code, or throw an Error.
namespace sluice::cli {

int run_train(const Arguments& arguments);
int run_eval(const Arguments& arguments);
int run_generate(const Arguments& arguments);
int run_translate(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_inspect(const Arguments& arguments);
int run_devices(const Arguments& arguments);

}  // namespace sluice::cli

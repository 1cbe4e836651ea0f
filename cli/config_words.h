#pragma once
#include <string>

namespace sluice::cli {

/// A message of the library as the user of a config has to read it: fields of C++ become the keys that set them, such as
/// "PlanOptions::sizes" pipeline.partition.
std::string in_config_words(const std::string& message);

}  // namespace sluice::cli

#pragma once
#include <exception>
#include <string>
#include <vector>

namespace sluice::cli {

/// One way in which the program ends. This table is the only list of them: help, the manual page and the program's end are made from it.
struct ExitCode {
  int code;
  std::string meaning;
  bool (*is_of)(const std::exception&);  ///< whether an error ends the program so; null for codes that no error gives
};

/// By code. Of the rows that know an error the last one is its own: any error is an internal one if it is nothing else.
const std::vector<ExitCode>& exit_codes();

int exit_code_of(const std::exception& error);

/// A signal's: 128 + its number, as shells have it.
int exit_code_of_signal(int number);

}  // namespace sluice::cli

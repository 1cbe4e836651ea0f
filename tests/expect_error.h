#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace sluice {

/// Expects an error of kind E whose message contains each of the words.
template <class E, class F>
void expect_error(const F& run, std::initializer_list<std::string> words) {
  try {
    run();
    ADD_FAILURE() << "no error";
  } catch (const E& error) {
    for (const auto& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what() << "\n lacks: " << word;
  }
}

}  // namespace sluice

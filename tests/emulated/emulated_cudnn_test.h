#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/cuda/choices.h"
#include "tests/emulation/cudnn.h"

namespace sluice::testing {

/// Tests of what is taken from the emulated cuDNN: it is there, has the engines that the test offers, and may be tried.
class EmulatedCudnnTest : public ::testing::Test {
 protected:
  explicit EmulatedCudnnTest(emulation::CudnnEngine right) : right_(std::move(right)) {}

  /// With the one engine that is right.
  void SetUp() override {
    setenv("SLUICE_CUDNN", "1", 1);
    Choices::of_process().forget();
    tuning_.emplace(limits_of(Tuning::full));
    emulation::emulated_cudnn() = {};
    offer({right_});
  }
  void end_tuning() { tuning_.reset(); }
  static void offer(std::vector<emulation::CudnnEngine> engines) {
    emulation::emulated_cudnn().is_there = true;
    emulation::emulated_cudnn().engines = std::move(engines);
    emulation::emulated_cudnn().ran.clear();
  }
  static const std::vector<int64_t>& ran() { return emulation::emulated_cudnn().ran; }

 private:
  const emulation::CudnnEngine right_;
  std::optional<TuningScope> tuning_;
};

}  // namespace sluice::testing

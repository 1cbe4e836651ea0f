#pragma once
#include <gtest/gtest.h>

#include "tests/group/group_checks.h"

namespace sluice::parallel {

/// A check and a number of ranks, for parametrised tests.
struct GroupCase {
  GroupCheck check;
  int ranks;
};

inline std::vector<GroupCase> group_cases(std::vector<GroupCheck> checks) {
  std::vector<GroupCase> cases;
  for (const GroupCheck& check : checks)
    for (int ranks = check.least_ranks; ranks <= 4; ++ranks) cases.push_back({check, ranks});
  return cases;
}

inline std::string name_of(const testing::TestParamInfo<GroupCase>& info) {
  return info.param.check.name + "_" + std::to_string(info.param.ranks);
}

}  // namespace sluice::parallel

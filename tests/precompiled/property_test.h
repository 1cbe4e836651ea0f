// The same for programs that are mostly property tests.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/precompiled/standard.h"

// What nearly every test includes, parsed once for each program (precompiled).
#include <gtest/gtest.h>

#include "core/precompiled/standard.h"

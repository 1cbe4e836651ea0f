// The same for CPU kernels, which alone include Eigen.
#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>

#include "core/precompiled/standard.h"

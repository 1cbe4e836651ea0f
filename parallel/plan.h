#pragma once
/// From a model and devices to a plan of its training, and what that will take.
#include "parallel/plan/choices.h"
#include "parallel/plan/compare.h"
#include "parallel/plan/model_topology.h"
#include "parallel/plan/options.h"
#include "parallel/plan/plan.h"
#include "parallel/plan/predict.h"
#include "parallel/plan/replicas.h"

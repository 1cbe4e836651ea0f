#include "autograd/ops/elementwise.h"
#include "autograd/ops/reshape.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

OP_CASES(reshape) {
  const auto same = [](const std::vector<Tensor>& x) { return x[0].to_vector(); };
  add({.name = "flat", .inputs = {randn({2, 3, 4})}, .run = [](const auto& x) { return reshape(x[0], {24}); }, .expect = same});
  add({.name = "of_view",
       .inputs = {transposed(randn({2, 3}), 0, 1)},
       .run = [](const auto& x) { return reshape(x[0], {6}); },
       .expect = same});
  add({.name = "empty", .inputs = {randn({0, 3})}, .run = [](const auto& x) { return reshape(x[0], {3, 0}); }, .expect = same});
  add({.name = "wrong", .inputs = {randn({2, 3})}, .run = [](const auto& x) { return reshape(x[0], {7}); }, .throws = "needs 6 elements"});
}

OP_CASES(transpose) {
  add({.name = "middle",
       .inputs = {randn({2, 3, 4})},
       .run = [](const auto& x) { return transpose(x[0], 0, 1); },
       .expect =
           [](const auto& x) {
             const Values from = x[0].to_vector();
             Values to(24);
             for (int i = 0; i < 2; ++i)
               for (int j = 0; j < 3; ++j)
                 for (int k = 0; k < 4; ++k) to[(j * 2 + i) * 4 + k] = from[(i * 3 + j) * 4 + k];
             return to;
           }});
}

OP_CASES(slice) {
  add({.name = "columns",
       .inputs = {randn({3, 5})},
       .run = [](const auto& x) { return slice(x[0], 1, 1, 3); },
       .expect =
           [](const auto& x) {
             const Values from = x[0].to_vector();
             return Values{from[1], from[2], from[6], from[7], from[11], from[12]};
           }});
  add({.name = "overlapping",
       .inputs = {randn({3, 5})},
       .run =
           [](const auto& x) {
             return sluice::add(slice(x[0], 1, 0, 3), mul(slice(x[0], 1, 2, 5), sluice::add(slice(x[0], 1, 1, 4), slice(x[0], 1, 0, 3))));
           },
       .expect =
           [](const auto& x) {
             const Values from = x[0].to_vector();
             Values to;
             for (int i = 0; i < 3; ++i)
               for (int j = 0; j < 3; ++j) {
                 const double* at = from.data() + i * 5 + j;
                 to.push_back(at[0] + at[2] * (at[1] + at[0]));
               }
             return to;
           }});
  add({.name = "nothing", .inputs = {randn({3, 5})}, .run = [](const auto& x) { return slice(x[0], 0, 2, 2); }});
  add({.name = "outside", .inputs = {randn({3, 5})}, .run = [](const auto& x) { return slice(x[0], 0, 2, 4); }, .throws = "begin <= end"});
}

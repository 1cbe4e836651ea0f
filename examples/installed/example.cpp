// Fits a transposed weight matrix to a target by gradient descent on an installed Sluice. Ends with a loss near 0.
#include <sluice/sluice.h>

#include <cstdio>

using namespace sluice;

int main() {
  Tensor weight = zeros({2, 3});
  const Tensor target = tensor_of({1, 2, 3, 4, 5, 6}, {3, 2});
  for (int step = 0; step < 20; ++step) {
    const Var leaf = Var::parameter(weight);
    const Var y = transpose(leaf, 0, 1);
    const Tensor error = sub(y.value(), target);
    double loss = 0;
    for (double e : error.to_vector()) loss += e * e / 2;
    std::printf("step %2d  loss %.6f\n", step, loss);
    const Tensor gradient = gradients(y, error, {leaf})[0];
    weight = sub(weight, scale(gradient, 0.5));
  }
}

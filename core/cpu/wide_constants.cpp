// What Meson runs to know whether the compiler keeps the zeros at the end of constants (meson.build); exit 1: it does not.
#include <cstring>

namespace {

constexpr int kBytes = 32;
const char kText[kBytes + 1] = "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\0\0\0\0\0\0\0\0";

[[gnu::noinline]] void put(double* to) {
  const double list[4] = {1, 1, 1, 0};
  std::memcpy(to, list, sizeof list);
}
[[gnu::noinline]] void put(long* to) {
  const long list[8] = {7, 7, 7, 7, 7, 0, 0, 0};
  std::memcpy(to, list, sizeof list);
}
[[gnu::noinline]] void put(float* to) {
  const float list[8] = {1, 1, 1, 1, 1, 1, 0, 0};
  std::memcpy(to, list, sizeof list);
}
[[gnu::noinline]] void put(char* to) { std::memcpy(to, kText, kBytes); }

template <class T, int count>
bool keeps_zero() {
  T values[count];
  put(values);
  volatile T last = values[count - 1];
  return last == T(0);
}

}  // namespace

int main() { return keeps_zero<double, 4>() && keeps_zero<long, 8>() && keeps_zero<float, 8>() && keeps_zero<char, kBytes>() ? 0 : 1; }

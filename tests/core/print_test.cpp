#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "core/elements.h"
#include "core/ops/ramp.h"
#include "core/precision.h"
#include "tests/core/cuda_fixture.h"

namespace sluice {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

std::string printed(const Tensor& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

/// The values' text, without the line that describes the tensor.
std::string values_of(const Tensor& x) {
  const std::string text = printed(x);
  return text.substr(0, text.rfind('\n'));
}

struct Printed {
  const char* name;
  Tensor x;
  const char* text;
};

class PrintedAsByNumPy : public testing::TestWithParam<Printed> {};

TEST_P(PrintedAsByNumPy, TheTextIsTheSame) { EXPECT_EQ(values_of(GetParam().x), GetParam().text); }

// The texts are those of numpy 2.4.6 with set_printoptions(precision=4).
INSTANTIATE_TEST_SUITE_P(
    List, PrintedAsByNumPy,
    testing::Values(
        Printed{"fractions", tensor({1, 2.5, -3.25}), "[ 1.    2.5  -3.25]"},
        Printed{"rounded", tensor({1.0 / 3, 2.0 / 3, 12.345678}), "[ 0.3333  0.6667 12.3457]"},
        Printed{"half_to_even", tensor({0.00025, 0.00035, 0.03125}), "[0.0003 0.0003 0.0312]"},
        Printed{"matrix", tensor({{0.1, -200.5}, {3, 4.00001}}), "[[ 1.000e-01 -2.005e+02]\n [ 3.000e+00  4.000e+00]]"},
        Printed{"smallest_without_exponent", tensor({1e-4, 1e-4}), "[0.0001 0.0001]"},
        Printed{"small", tensor({1e-5, 1}), "[1.e-05 1.e+00]"}, Printed{"large_f32", tensor({1e6, 1}), "[1.e+06 1.e+00]"},
        Printed{"below_the_limit_of_f64", tensor({1e6, 99999999.0}, DType::f64), "[ 1000000. 99999999.]"},
        Printed{"large_f64", tensor({1e8, 2e8}, DType::f64), "[1.e+08 2.e+08]"},
        Printed{"far_apart", tensor({1, 1001.5}), "[1.0000e+00 1.0015e+03]"},
        Printed{"exponents_of_three_digits", tensor({1e-120, -1e100}, DType::f64), "[ 1.e-120 -1.e+100]"},
        Printed{"nan_and_inf", tensor({kNan, 1.5, kInfinity, -kInfinity}), "[ nan  1.5  inf -inf]"},
        Printed{"no_finite_number", tensor({kNan, kInfinity}), "[nan inf]"}, Printed{"minus_inf", tensor({-kInfinity, 1}), "[-inf   1.]"},
        Printed{"nan_beside_exponents", tensor({kNan, 1e-7, 5}), "[   nan 1.e-07 5.e+00]"},
        Printed{"zeros", zeros({2, 2}), "[[0. 0.]\n [0. 0.]]"},
        Printed{"integers", tensor({{1, -20}, {300, 4}}), "[[  1 -20]\n [300   4]]"},
        Printed{"bytes", tensor({0, 255, 7}, DType::u8), "[  0 255   7]"},
        Printed{"i64", tensor({int64_t{1} << 62, int64_t{-1}}, DType::i64), "[4611686018427387904                  -1]"},
        Printed{"three_axes", arange(0, 8).reshape({2, 2, 2}), "[[[0. 1.]\n  [2. 3.]]\n\n [[4. 5.]\n  [6. 7.]]]"},
        Printed{"long_row", arange(0, 30),
                "[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n"
                " 18. 19. 20. 21. 22. 23. 24. 25. 26. 27. 28. 29.]"},
        Printed{"long_row_of_integers", arange(995, 1025, 1, DType::i32),
                "[ 995  996  997  998  999 1000 1001 1002 1003 1004 1005 1006 1007 1008\n"
                " 1009 1010 1011 1012 1013 1014 1015 1016 1017 1018 1019 1020 1021 1022\n 1023 1024]"},
        Printed{"more_than_a_thousand", arange(0, 1001, 1, DType::i32), "[   0    1    2 ...  998  999 1000]"},
        Printed{"both_axes_cut", arange(0, 2000, 1, DType::i32).reshape({50, 40}),
                "[[   0    1    2 ...   37   38   39]\n [  40   41   42 ...   77   78   79]\n [  80   81   82 ...  117  118  119]\n ...\n"
                " [1880 1881 1882 ... 1917 1918 1919]\n [1920 1921 1922 ... 1957 1958 1959]\n [1960 1961 1962 ... 1997 1998 1999]]"},
        Printed{"axis_of_six_is_whole", arange(0, 1200, 1, DType::i32).reshape({2, 600}).slice(0, 0, 2),
                "[[   0    1    2 ...  597  598  599]\n [ 600  601  602 ... 1197 1198 1199]]"},
        Printed{"no_elements", empty({0, 3}), "[]"}, Printed{"scalar", tensor(-2.5), "-2.5"},
        Printed{"bf16", tensor({0.1, 3}, DType::bf16), "[0.1001 3.    ]"},
        Printed{"view", tensor({{1, 2}, {3, 4}}).transpose(0, 1), "[[1 3]\n [2 4]]"}),
    [](const auto& info) { return info.param.name; });

TEST(Print, TheLastLineTellsDtypeShapeAndDevice) {
  EXPECT_EQ(printed(tensor({{1, 2}, {3, 4}})), "[[1 2]\n [3 4]]\ni32 [2, 2] on cpu:0");
  EXPECT_EQ(printed(tensor({0.5}, DType::bf16)), "[0.5]\nbf16 [1] on cpu:0");
}

TEST(Print, AThousandElementsArePrintedWhole) {
  EXPECT_EQ(values_of(zeros({1000})).find("..."), std::string::npos);
  EXPECT_NE(values_of(zeros({1001})).find("..."), std::string::npos);
}

TEST(Print, ATensorWithoutValuesSaysSo) {
  EXPECT_EQ(printed(Tensor()), "an undefined tensor");
  EXPECT_EQ(printed(empty({2, 3}, DType::f32, make_device("meta:1"))), "f32 [2, 3] on meta:1, which holds no values");
}

TEST(Print, ShapesDtypesAndDevicesGoToAStreamByTheirNames) {
  const Tensor x = zeros({2, 3}, DType::bf16);
  std::ostringstream out;
  out << x.shape() << ' ' << x.dtype() << ' ' << x.device() << ' ' << x.device().kind() << ' ' << Precision::tf32;
  EXPECT_EQ(out.str(), "[2, 3] bf16 cpu:0 cpu tf32");
}

TEST(Print, MessagesDescribeTensorsWithoutValues) {
  const Tensor x = tensor({1, 2, 3});
  EXPECT_EQ(join("got ", x, " and ", Tensor()), "got i32 [3] on cpu:0 and an undefined tensor");
}

TEST(Print, PrintingTakesMemoryForTheShownElementsOnly) {
  const DevicePtr device = make_device("cpu:0");
  const Tensor x = zeros({1000, 1000}, DType::f32, device);
  device->reset_peak();
  printed(x);
  EXPECT_LE(device->peak_bytes() - device->live_bytes(), 64 * 1024);
  EXPECT_EQ(device->live_bytes(), x.bytes());
}

using CudaPrint = CudaTest;

TEST_F(CudaPrint, ValuesOnAGpuAreShownAsOnTheCpu) {
  const DevicePtr gpu = make_device("cuda:0");
  for (const Tensor& x : {arange(0, 2000).reshape({50, 40}), tensor({{1.5, 2}, {3, 4}}).transpose(0, 1), tensor(3)})
    EXPECT_EQ(values_of(x.to(gpu)), values_of(x));
}

}  // namespace
}  // namespace sluice

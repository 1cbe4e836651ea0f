#pragma once
#include <string>
#include <string_view>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// A program as bytes, all of it, counted bytes too: what the root sends to the other ranks, and what a certificate has the hash of.
/// Equal programs have equal bytes, on every machine and in every process (ByteWriter).
/// Cost  some 15 bytes an action.
std::string encode(const Program& program);

/// The program that was encoded. Other bytes are refused, or are a program that encodes to just these bytes; whether it is right is
/// verify's to say.
/// Errors  DataError naming the byte for what is cut short, damaged, or followed by more.
Program decode_program(std::string_view bytes);

}  // namespace sluice::parallel

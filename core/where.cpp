#include "core/where.h"

#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <typeinfo>

#include "core/device.h"
#include "core/no_elements.h"

namespace sluice {

std::string Where::text() const {
  std::string parts;
  const auto add = [&](const std::string& part) { parts += (parts.empty() ? "" : ", ") + part; };
  if (node) add("node '" + std::string(node) + "'");
  if (stage >= 0) add("stage " + std::to_string(stage));
  if (micro_batch >= 0) add("micro-batch " + std::to_string(micro_batch));
  return parts.empty() ? "" : " (" + parts + ")";
}

Where& where() {
  thread_local Where place;
  return place;
}

namespace {

template <class... Kinds>
void throw_as(const Error& error, const std::string& place) {
  ((typeid(error) == typeid(Kinds) ? throw Kinds(error.what() + place) : void()), ...);
}

}  // namespace

void rethrow_at(const std::string& place) {
  try {
    throw;
  } catch (const Error& error) {
    if (std::string_view(error.what()).find(place) != std::string_view::npos) throw;
    throw_as<Error, NoElements, UsageError, DataError, ResourceError, OutOfMemory, DeviceError, CommError>(error, place);
    throw;
  } catch (const std::bad_alloc&) {
    std::throw_with_nested(
        OutOfMemory(join("the system has no memory left", place, "; use more micro-batches, more rematerialization or a smaller model")));
  } catch (const std::system_error& error) {
    std::throw_with_nested(ResourceError(error.what() + place));
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(error.what() + place));
  } catch (...) {
    std::throw_with_nested(Error("an exception that is no std::exception" + place));
  }
}

}  // namespace sluice

#pragma once
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.h"

namespace sluice::parallel {

/// Numbers, texts, lists and maps of them as the bytes of a control message, for ranks of one build on machines of one kind.
class PacketWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> PacketWriter& operator<<(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  PacketWriter& operator<<(std::string_view text) {
    *this << text.size();
    bytes_ += text;
    return *this;
  }
  PacketWriter& operator<<(const std::string& text) { return *this << std::string_view(text); }
  template <class T>
  PacketWriter& operator<<(const std::vector<T>& list) {
    *this << list.size();
    for (const T& entry : list) *this << entry;
    return *this;
  }
  template <class Key, class T>
  PacketWriter& operator<<(const std::map<Key, T>& entries) {
    *this << entries.size();
    for (const auto& [key, entry] : entries) *this << key << entry;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what a PacketWriter wrote, in its order. The bytes live as long as this.
/// Errors  CommError for bytes that end early.
class PacketReader {
 public:
  explicit PacketReader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> PacketReader& operator>>(T& value) {
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
    return *this;
  }
  PacketReader& operator>>(std::string& text) {
    text = next(read<size_t>());
    return *this;
  }
  template <class T>
  PacketReader& operator>>(std::vector<T>& list) {
    list.resize(read_size());
    for (T& entry : list) *this >> entry;
    return *this;
  }
  template <class Key, class T>
  PacketReader& operator>>(std::map<Key, T>& entries) {
    entries.clear();
    for (size_t left = read_size(); left > 0; --left) {
      const Key key = read<Key>();
      entries[key] = read<T>();
    }
    return *this;
  }
  template <class T>
  T read() {
    T value{};
    *this >> value;
    return value;
  }

 private:
  /// Of a list or map: every entry takes a byte or more.
  size_t read_size() {
    const auto size = read<size_t>();
    require<CommError>(size <= bytes_.size(), "control message: needs ", size, " entries, has ", bytes_.size(),
                       " bytes left; are all ranks of one build?");
    return size;
  }
  std::string_view next(size_t count) {
    require<CommError>(count <= bytes_.size(), "control message: needs ", count, " bytes more, has ", bytes_.size(),
                       "; are all ranks of one build?");
    const std::string_view bytes = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return bytes;
  }
  std::string_view bytes_;
};

}  // namespace sluice::parallel

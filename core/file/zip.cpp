#include "core/file/zip.h"

#include <zip.h>

#include <filesystem>

#include "core/error.h"
#include "core/file/file.h"

namespace sluice {

namespace {

constexpr size_t kLongestZipName = 65535;  // which its 16 bits hold
constexpr uint64_t kMostOfDeflate = 1032;  // bytes from one: zlib.net/zlib_tech.html

std::string text_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

std::shared_ptr<zip_t> open_archive(const std::string& name) {
  int code = 0;
  zip_t* archive = zip_open(name.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  require<DataError>(archive != nullptr, name, ": needs a sound zip file: ", text_of(code), "; check the path, or get it again");
  return {archive, zip_discard};
}

ZipFile::Member member_of(zip_t* archive, uint64_t index, int64_t file_bytes, const std::string& file) {
  constexpr uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  zip_stat_t stat;
  require<DataError>(zip_stat_index(archive, index, 0, &stat) == 0 && (stat.valid & kNeeded) == kNeeded, file, ", member ", index,
                     ": needs a name and sizes, got fewer; get the file again");
  const std::string name = join(file, ", member '", stat.name, "'");
  require<DataError>(stat.comp_method == ZIP_CM_STORE || stat.comp_method == ZIP_CM_DEFLATE, name,
                     ": needs to be stored or deflated, got method ", stat.comp_method, "; save it with np.savez");
  const uint64_t most = stat.comp_method == ZIP_CM_STORE ? 1 : kMostOfDeflate;
  require<DataError>(stat.comp_size <= static_cast<uint64_t>(file_bytes) && stat.size / most <= stat.comp_size, name, ": claims ",
                     stat.size, " bytes, which ", stat.comp_size, " packed ones cannot hold; get the file again");
  return {stat.name, static_cast<int64_t>(stat.size)};
}

}  // namespace

ZipFile::ZipFile(const std::filesystem::path& path) : name_(path.string()) {
  const int64_t file_bytes = open_bytes(path).second;  // which also refuses what is no file
  archive_ = open_archive(name_);
  const int64_t count = zip_get_num_entries(archive_.get(), 0);
  for (int64_t i = 0; i < count; ++i) members_.push_back(member_of(archive_.get(), static_cast<uint64_t>(i), file_bytes, name_));
}

ByteReader ZipFile::open(size_t member) const {
  const std::string name = join(name_, ", member '", members_[member].name, "'");
  zip_file_t* opened = zip_fopen_index(archive_.get(), member, 0);
  require<DataError>(opened != nullptr, name, ": cannot be unpacked: ", zip_strerror(archive_.get()), "; save it with np.savez");
  return [name, archive = archive_, file = std::shared_ptr<zip_file_t>(opened, zip_fclose), left = members_[member].bytes](
             void* into, size_t bytes) mutable {
    const int64_t came = zip_fread(file.get(), into, bytes);
    require<DataError>(came >= 0, name, ": is damaged: ", zip_error_strerror(zip_file_get_error(file.get())), "; get the file again");
    require<DataError>(came <= left, name, ": is damaged: unpacks to more bytes than it claims; get the file again");
    left -= came;
    return static_cast<size_t>(came);
  };
}

namespace {

void require_written(bool ok, const std::filesystem::path& path, zip_t* archive) {
  require<ResourceError>(ok, path.string(), ": cannot be written: ", zip_strerror(archive),
                         "; choose a folder that can be written and has room");
}

/// What a name is otherwise, the library cuts off without a word.
void require_name(bool ok, const std::filesystem::path& path) {
  require(ok, path.string(), ": needs names of members in UTF-8, without a zero byte, of at most ", kLongestZipName,
          " bytes, got another one; rename it");
}

void add(zip_t* archive, const ZipContent& content, const std::filesystem::path& path) {
  require_name(content.name.size() <= kLongestZipName && content.name.find('\0') == content.name.npos, path);
  std::vector<zip_buffer_fragment_t> fragments;
  for (const std::string_view piece : content.pieces)
    fragments.push_back({reinterpret_cast<zip_uint8_t*>(const_cast<char*>(piece.data())), piece.size()});
  zip_source_t* source = zip_source_buffer_fragment(archive, fragments.data(), fragments.size(), 0);
  const int64_t index = zip_file_add(archive, content.name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) zip_source_free(source);
  require_name(index >= 0 || zip_error_code_zip(zip_get_error(archive)) != ZIP_ER_INVAL, path);
  require_written(index >= 0, path, archive);
  constexpr uint16_t kFirstDay = 0x21;  // 1 January 1980
  const auto at = static_cast<uint64_t>(index);
  require_written(zip_set_file_compression(archive, at, ZIP_CM_STORE, 0) == 0 && zip_file_set_dostime(archive, at, 0, kFirstDay, 0) == 0,
                  path, archive);
}

}  // namespace

void write_zip(const std::filesystem::path& path, const std::vector<ZipContent>& contents) {
  int code = 0;
  std::unique_ptr<zip_t, decltype(&zip_discard)> archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code), zip_discard);
  require<ResourceError>(archive != nullptr, path.string(), ": cannot be written: ", text_of(code),
                         "; choose a folder that can be written");
  for (const ZipContent& content : contents) add(archive.get(), content, path);
  require_written(zip_close(archive.get()) == 0, path, archive.get());
  archive.release();
  sync_file(path);
}

}  // namespace sluice

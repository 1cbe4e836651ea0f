// The only file that knows <mpi.h>: compiled once for each MPI, into a module that is loaded where that MPI's launcher started the program.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "parallel/group/host_name.h"
#include "parallel/group/mpi_library.h"

namespace {

using namespace sluice::parallel;

MPI_Comm communicators[kMpiCommunicators];

/// All ranks, those of one host one after the other, hosts in the order of their first rank: devices follow the ranks, so that
/// neighbouring stages share a host however the launcher dealt its ranks out (mpirun --map-by node, srun -m cyclic). Rank 0 stays rank 0.
int order_by_host(MPI_Comm* ordered) {
  constexpr size_t kRoom = 256;
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::string mine = host_name();
  mine.resize(kRoom);
  std::string all(kRoom * static_cast<size_t>(size), '\0');
  if (const int error = MPI_Allgather(mine.data(), kRoom, MPI_CHAR, all.data(), kRoom, MPI_CHAR, MPI_COMM_WORLD)) return error;
  int first = 0;
  while (all.compare(kRoom * static_cast<size_t>(first), kRoom, mine) != 0) ++first;
  return MPI_Comm_split(MPI_COMM_WORLD, 0, first, ordered);  // ranks of one key keep their order
}

/// Over sockets both libraries begin a message beyond some 64 KiB by asking for its place, and it takes three latencies of the line instead of
/// one. Receives are posted before anything comes, so that up to a MiB goes at once, unless the user says otherwise.
void send_at_once() {
  setenv("OMPI_MCA_btl_tcp_eager_limit", "1048576", 0);
  setenv("UCX_RNDV_THRESH", "1m", 0);
}

int start(int* rank, int* size, int* tag_limit) {
  // Calls come one at a time, but from several threads.
  int provided = 0;
  send_at_once();
  if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided)) return error;
  if (provided < MPI_THREAD_SERIALIZED) return MPI_ERR_UNSUPPORTED_OPERATION;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm ordered = MPI_COMM_NULL;
  if (const int error = order_by_host(&ordered)) return error;
  MPI_Comm_rank(ordered, rank);
  MPI_Comm_size(ordered, size);
  for (MPI_Comm& communicator : communicators) {
    if (const int error = MPI_Comm_dup(ordered, &communicator)) return error;
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  }
  if (const int error = MPI_Comm_free(&ordered)) return error;
  constexpr int kGuaranteed = 32767;
  int* limit = nullptr;
  int is_known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &is_known);
  *tag_limit = is_known ? *limit : kGuaranteed;
  return MPI_SUCCESS;
}

/// Begins what `call` begins and keeps its handle, whose type is the library's own.
template <class Call>
int begin(void** request, const Call& call) {
  auto handle = std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
  const int error = call(handle.get());
  if (!error) *request = handle.release();
  return error;
}

int send(int communicator, int to, int tag, const void* bytes, size_t count, int waits_for_receive, void** request) {
  if (count > INT_MAX) return MPI_ERR_COUNT;
  return begin(request, [&](MPI_Request* handle) {
    return (waits_for_receive ? MPI_Issend : MPI_Isend)(bytes, static_cast<int>(count), MPI_BYTE, to, tag, communicators[communicator],
                                                        handle);
  });
}

int receive(int communicator, int from, int tag, void* room, size_t count, void** request) {
  if (count > INT_MAX) return MPI_ERR_COUNT;
  return begin(request, [&](MPI_Request* handle) {
    return MPI_Irecv(room, static_cast<int>(count), MPI_BYTE, from, tag, communicators[communicator], handle);
  });
}

int barrier(void** request) {
  return begin(request, [](MPI_Request* handle) { return MPI_Ibarrier(communicators[kControl], handle); });
}

int test(void* request, int* state, size_t* count) {
  auto* const handle = static_cast<MPI_Request*>(request);
  MPI_Status status;
  int is_done = 0, bytes = 0, error_class = MPI_SUCCESS;
  const int error = MPI_Test(handle, &is_done, &status);
  if (error) MPI_Error_class(error, &error_class);
  *state = error_class == MPI_ERR_TRUNCATE ? kDoneTooLong : is_done ? kDone : kUnderWay;
  if (*state == kUnderWay) return error;
  if (*state == kDone && !MPI_Get_count(&status, MPI_BYTE, &bytes)) *count = static_cast<size_t>(std::max(bytes, 0));
  delete handle;
  return *state == kDoneTooLong ? MPI_SUCCESS : error;
}

int probe(int communicator, int* is_there, int* from, int* tag, size_t* count) {
  MPI_Status status;
  int bytes = 0;
  if (const int error = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicators[communicator], is_there, &status)) return error;
  if (!*is_there) return MPI_SUCCESS;
  *from = status.MPI_SOURCE;
  *tag = status.MPI_TAG;
  if (const int error = MPI_Get_count(&status, MPI_BYTE, &bytes)) return error;
  *count = static_cast<size_t>(bytes);
  return MPI_SUCCESS;
}

void copy_line(const char* from, char* text, size_t room) {
  const std::string line(from, std::strcspn(from, "\n"));
  text[line.copy(text, room - 1)] = '\0';
}

void version(char* text, size_t room) {
  char whole[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(whole, &length);
  copy_line(whole, text, room);
}

void explain(int error, char* text, size_t room) {
  char whole[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, whole, &length);
  copy_line(whole, text, room);
}

#ifdef MPICH_VERSION
/// Says to MPICH's own launcher, in the words of its protocol (PMI 1), that this process is done; whether it is that launcher.
///
/// MPI_Finalize of MPICH 4.0 over sockets hangs in half of all runs with four ranks on a busy machine: one rank still flushes its connections
/// while the others wait in the launcher's barrier, where they answer nobody (openucx/ucx#8738). No barrier or pause before it helps. Here all
/// ranks have met and nothing is under way, so that the end of the process frees what is left.
bool leave_launcher() {
  const char* const file = std::getenv("PMI_FD");
  const char* const protocol = std::getenv("PMI_VERSION");
  if (!file || std::getenv("SLURM_STEP_ID") || (protocol && std::strcmp(protocol, "1") != 0)) return false;
  constexpr std::string_view kDone = "cmd=finalize\n";
  char answer[64];
  const int launcher = std::atoi(file);
  return write(launcher, kDone.data(), kDone.size()) == static_cast<ssize_t>(kDone.size()) && read(launcher, answer, sizeof answer) > 0;
}
#else
bool leave_launcher() { return false; }
#endif

int finish() { return leave_launcher() ? MPI_SUCCESS : MPI_Finalize(); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const MpiLibrary* sluice_mpi_library_1() {
  static constexpr MpiLibrary kLibrary{start, send, receive, barrier, test, probe, version, explain, finish};
  return &kLibrary;
}

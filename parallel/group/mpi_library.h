#pragma once
#include <cstddef>

extern "C" {

/// What Sluice calls of MPI, over handles that are the same for every library of that name: Open MPI and MPICH differ in the types of
/// <mpi.h>, so that each has a small plugin, compiled against its header, which fills such a table (mpi_library_plugin.cpp). Functions that
/// give an int give MPI's error code, 0 where all went well.
/// Threads  one call at a time, from any thread, but the last two: explain, from any; finish, when no other call is made.
struct MpiLibrary {
  /// MPI_Init_thread, and the communicators, in which the ranks of one host follow each other. `tag_limit`: the largest tag there is.
  int (*start)(int* rank, int* size, int* tag_limit);
  /// Begins a message. `waits_for_receive`: it is done only when its receive has begun.
  int (*send)(int communicator, int to, int tag, const void* bytes, size_t count, int waits_for_receive, void** request);
  int (*receive)(int communicator, int from, int tag, void* room, size_t count, void** request);
  /// Begins a barrier of all ranks on the communicator of control messages.
  int (*barrier)(void** request);
  /// `state`: whether the request has ended, after which it is no more. `count`: the bytes of a receive.
  int (*test)(void* request, int* state, size_t* count);
  /// Whether a message of any rank and tag is there on a communicator; it stays there.
  int (*probe)(int communicator, int* is_there, int* from, int* tag, size_t* count);
  /// The library's name and version, in a line.
  void (*version)(char* text, size_t room);
  /// An error code in words.
  void (*explain)(int error, char* text, size_t room);
  /// MPI_Finalize.
  int (*finish)();
};

}  // extern "C"

namespace sluice::parallel {

/// The duplicates of MPI_COMM_WORLD. Messages on one never meet those on another.
enum MpiCommunicator { kToHigherRanks, kToLowerRanks, kControl, kMpiCommunicators };
/// What MpiLibrary::test() finds.
enum MpiRequestState { kUnderWay, kDone, kDoneTooLong };

/// The name of the function that a plugin exports, and its type. It changes with the table, so that an old plugin is not taken for a new
/// one.
inline constexpr const char* kMpiLibraryFunction = "sluice_mpi_library_1";
using MpiLibraryFunction = const MpiLibrary* (*)();

}  // namespace sluice::parallel

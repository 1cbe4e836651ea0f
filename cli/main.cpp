#include "cli/program.h"

int main(int argument_count, char** arguments) { return sluice::cli::run_program(argument_count, arguments); }

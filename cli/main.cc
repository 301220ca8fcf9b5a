// seqto: the command.
#include "commands.h"

int main(int argc, char** argv) { seqto::cli::run_program(argc, argv); }

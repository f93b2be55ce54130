#include "weft/launch/command_line.h"

int main(int count, char** arguments) { return weft::run_command_line({arguments, arguments + count}); }

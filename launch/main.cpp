#include <csignal>

#include "weft/launch/command_line.h"

int main(int count, char** arguments) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of write(), which names the file
  return weft::run_command_line({arguments, arguments + count});
}

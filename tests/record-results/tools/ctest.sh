debian cmake cmake make g++
run_ctest() { record ctest "$1" ctest --test-dir build "${@:2}"; }
configure() { cmake -S . -B build >/dev/null 2>&1 && cmake --build build >/dev/null 2>&1 || true; }
project_with() {
  printf 'cmake_minimum_required(VERSION 3.20)\nproject(shop C)\nenable_testing()\n%s\n' "$1" >CMakeLists.txt
  cat >check.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  if (!strcmp(how, "fail")) { printf("FAIL src/quoted.test.js\n--- FAIL: TestQuoted (0.00s)\nexpected 100, actual 180\n"); return 1; }
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "skip")) return 77;
  if (!strcmp(how, "hang")) for (;;) {}
  return 0;
}
C
}
passing='add_executable(check check.c)
add_test(NAME total.none COMMAND check)
add_test(NAME total.currency COMMAND check skip)
set_tests_properties(total.currency PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME total.known_bug COMMAND check fail)
set_tests_properties(total.known_bug PROPERTIES WILL_FAIL TRUE)'
one="$passing
add_test(NAME discount.half COMMAND check fail)"
twelve=$passing
for n in 1 2 3 4 5 6 7 8; do twelve+="
add_test(NAME many.number_$n COMMAND check fail)"; done
twelve+='
add_test(NAME "many with a space" COMMAND check fail)
add_test(NAME crash.abort COMMAND check abort)
add_test(NAME crash.hang COMMAND check hang)
set_tests_properties(crash.hang PROPERTIES TIMEOUT 1)
add_test(NAME crash.missing COMMAND no-such-program)
add_test(NAME disabled COMMAND check)
set_tests_properties(disabled PROPERTIES DISABLED TRUE)'
sample; project_with "$passing"; configure; run_ctest all_pass
sample; project_with "$one"; configure; run_ctest one_failure
run_ctest output_on_failure --output-on-failure
run_ctest verbose -V
CLICOLOR_FORCE=1 run_ctest colours --output-on-failure
sample; project_with "$twelve"; configure; run_ctest twelve_failures
sample; project_with "add_executable(broken broken.c)
add_test(NAME broken COMMAND broken)"; echo 'int main(' >broken.c; configure; run_ctest import_crash
sample; project_with ''; configure; run_ctest no_test

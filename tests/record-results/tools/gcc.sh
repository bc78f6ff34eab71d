many() {
  cat >shop.h <<'C'
static int helper(void) { return undefined_name; }
C
  cat >shop.c <<'C'
#include <stdio.h>
#include "shop.h"

int total(int *prices, int n) {
  int unused;
  char *text = 1;
  printf("%s\n", n);
  missing();
  return text;
}

int main(void) { return total(1) }
C
}
for tool in gcc clang; do
  debian $tool $tool
  compile() { record $tool "$1" $tool -Wall -c "${@:2}" shop.c; }
  sample; echo 'int total(void) { return 1; }' >shop.c; compile clean
  sample; echo 'int total(void) { return x; }' >shop.c; compile one
  sample; many; compile many
  colour=-fdiagnostics-color=always; [[ $tool == gcc ]] || colour=-fcolor-diagnostics
  compile colours $colour
  sample; echo '#include "missing.h"' >shop.c; compile missing_header
  sample; echo 'int x;' >shop.c; compile config_error -fnonsense
  sample; printf 'int missing(void);\nint main(void) { return missing(); }\n' >shop.c; record $tool link $tool shop.c -o shop
  sample; printf 'all: shop.o\nshop.o: shop.c\n\t%s -c shop.c\n' $tool >Makefile; echo 'int total(void) { return x; }' >shop.c; record $tool make make
done

#include <stdio.h>

#include "add.h"

int main(void)
{
	int sum = add(2, 3);

	if (sum == 5)
		return 0;
	fprintf(stderr, "expected 5 but was %d\n", sum);
	return 1;
}

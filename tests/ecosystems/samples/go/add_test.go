package sample

import "testing"

func TestAdds(t *testing.T) {
	if got := Add(2, 3); got != 5 {
		t.Errorf("got %d, want 5", got)
	}
}

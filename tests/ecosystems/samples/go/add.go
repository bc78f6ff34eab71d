package sample

// Add returns the sum.
func Add(a, b int) int {
	return a + b
}

package sample;

public final class AdderTest {
    public static void main(String[] arguments) {
        int sum = Adder.add(2, 3);
        if (sum != 5) {
            throw new AssertionError("expected 5 but was " + sum);
        }
    }
}

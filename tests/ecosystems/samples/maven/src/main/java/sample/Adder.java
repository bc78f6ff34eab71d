package sample;

public final class Adder {
    public static int add(int a, int b) {
        return a + b;
    }
}

debian javac default-jdk-headless
compile() { record javac "$1" bash -c "javac ${*:2} -d out \$(find src -name '*.java' | sort)"; }
many() {
  mkdir -p src/shop
  cat >src/shop/Shop.java <<'JAVA'
package shop;

import java.util.Missing;

public class Shop {
    int total(int[] prices) {
        String text = 1;
        undefined();
        return "text";
    }
    static void raw() { java.util.List list = new java.util.ArrayList(); list.add(1); }
}
JAVA
  printf 'package shop;\n\nclass Größe extends Shop {\n    @Override int price() { return 1; }\n    final int x;\n}\n' >src/shop/Size.java
}
sample; mkdir src; echo 'class A {}' >src/A.java; compile clean
sample; mkdir src; echo 'class A { int x = "text"; }' >src/A.java; compile one
sample; many; compile many -Xlint:all
record javac colours bash -c 'javac -d out $(find src -name "*.java" | sort) 2>&1 | sed -e "s/error:/\x1b[31merror:\x1b(B\x1b[m/"'
sample; mkdir src; echo 'class A { int x = 1 }' >src/A.java; compile syntax
sample; mkdir src; echo 'class A {}' >src/A.java; compile config_error --nonsense

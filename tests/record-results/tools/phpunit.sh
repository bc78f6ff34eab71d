debian phpunit phpunit php-cli php-xml php-mbstring
run_phpunit() { record phpunit "$1" phpunit --do-not-cache-result "${@:2}" tests; }
passing() {
  mkdir -p tests src
  cat >src/shop.php <<'PHP'
<?php
function total(array $prices): int { return array_sum($prices); }
function discount(int $price, int $percent): int {
    if ($percent > 100) {
        throw new InvalidArgumentException("percent too high: $percent");
    }
    return $price - intdiv($price * $percent, 10);
}
PHP
  cat >tests/TotalTest.php <<'PHP'
<?php
require_once __DIR__ . '/../src/shop.php';
use PHPUnit\Framework\TestCase;

final class TotalTest extends TestCase
{
    public function testNone(): void
    {
        $this->assertSame(0, total([]));
    }

    public function testCurrency(): void
    {
        $this->markTestSkipped('later');
    }

    public function testRounds(): void
    {
        $this->markTestIncomplete('to do');
    }
}
PHP
}
one() {
  passing
  cat >tests/DiscountTest.php <<'PHP'
<?php
require_once __DIR__ . '/../src/shop.php';
use PHPUnit\Framework\TestCase;

final class DiscountTest extends TestCase
{
    public function testHalf(): void
    {
        echo "FAIL src/quoted.test.js\n  ● quoted › jest\n--- FAIL: TestQuoted (0.00s)\n";
        $this->assertSame(100, discount(200, 50));
    }
}
PHP
}
twelve() {
  passing
  cat >tests/ValuesTest.php <<'PHP'
<?php
namespace Shop\Tests;
require_once __DIR__ . '/../src/shop.php';
use PHPUnit\Framework\TestCase;

final class ValuesTest extends TestCase
{
    public function testArray(): void
    {
        $this->assertSame(['a' => 1, 'b' => [1, 2]], ['a' => 1, 'b' => [1, 3]]);
    }

    public function testText(): void
    {
        $this->assertEquals("one\ntwo\n", "one\n2\n", 'texts differ');
    }

    public function testTrue(): void
    {
        $this->assertTrue(false);
    }

    public function testThrows(): void
    {
        \discount(1, 101);
    }

    /** @dataProvider prices */
    public function testPrices(int $price, int $wanted): void
    {
        $this->assertEquals($wanted, \discount($price, 10));
    }

    public static function prices(): array
    {
        return ['ten' => [10, 9], 'größe' => [100, 90], [200, 180]];
    }
}
PHP
  cat >tests/MoreTest.php <<'PHP'
<?php
use PHPUnit\Framework\TestCase;

final class MoreTest extends TestCase
{
    protected function setUp(): void
    {
        if ($this->getName() === 'testSetUp') {
            throw new RuntimeException('set-up failed');
        }
    }

    public function testSetUp(): void
    {
    }

    public function testExpected(): void
    {
        $this->expectException(RuntimeException::class);
    }

    public function testContains(): void
    {
        $this->assertContains(3, [1, 2]);
    }

    public function testHelper(): void
    {
        $this->check(3);
    }

    private function check(int $value): void
    {
        $this->assertSame(4, $value);
    }

    public function testUndefined(): void
    {
        undefined_function();
    }
}
PHP
}
sample; passing; run_phpunit all_pass
sample; one; run_phpunit one_failure
run_phpunit colours --colors=always
run_phpunit testdox --testdox
sample; twelve; run_phpunit twelve_failures
sample; passing; echo '<?php require "missing.php";' >tests/CrashTest.php; run_phpunit import_crash
sample; mkdir tests; run_phpunit no_test
